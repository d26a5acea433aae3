"""Convert `.kodiak.toml`. Sources: Kodiak's configuration reference, and bot/kodiak/config.py."""

from typing import Any

from bot.cli.convert.conversion import Conversion, Source, Verdict, texts
from queue_engine.config.document import Place

_NOTES = (
    "Kodiak acts on branches with a rule of GitHub only; IMQ has a queue on every branch, unless `enabled: false`.",
)

_LABELER = "Have a workflow, Dependabot or Renovate set the trigger label, and `who_may_queue.people` name the bot."
_UPDATES = "IMQ updates the pull request at the front alone, which saves CI runs, and those with `update_label`."
_IGNORED = "IMQ updates pull requests of every author; Kodiak neither updates these nor lands one that is behind."
_TITLES = (
    "IMQ cannot block the titles that Kodiak blocks, so this label alone queues nothing: write `blocking.titles` as an "
    "RE2 expression, and this label into `trigger_labels`."
)
_DEPENDENCIES = "IMQ does not read versions from titles. " + _LABELER

_MISSING = {
    "merge.require_automerge_label": "IMQ queues what a person asks for, by the label or `/queue`. " + _LABELER,
    "merge.automerge_dependencies.versions": _DEPENDENCIES,
    "merge.automerge_dependencies.usernames": _DEPENDENCIES,
    "merge.show_missing_automerge_label_message": "IMQ writes nothing on a pull request that nobody queued.",
    "merge.block_on_neutral_required_check_runs": "To IMQ, as to GitHub, a neutral check passes: have the job fail.",
    "merge.optimistic_updates": "IMQ updates the pull request at the front at once, before checks of its head end.",
    "merge.update_branch_immediately": _UPDATES,
    "merge.prioritize_ready_to_merge": "IMQ keeps the order of its queue; `priority.labels` lets some go first.",
    "merge.message.body_type": "GitHub stores the text of a commit as it is, and so does IMQ: as Markdown.",
    "merge.message.include_pull_request_author": "GitHub names the author of a squashed commit itself.",
    "update.always": _UPDATES,
    "update.require_automerge_label": _UPDATES,
    "update.ignored_usernames": _IGNORED,
    "update.blacklist_usernames": _IGNORED,
    "approve.auto_approve_usernames": "IMQ never approves. A workflow may: `gh pr review --approve`.",
    "approve.auto_approve_labels": "IMQ never approves. A workflow may: `gh pr review --approve`.",
    "app_id": "It chooses among installations of Kodiak.",
}
_DEFAULTS = {
    "merge.require_automerge_label": True,
    "merge.block_on_neutral_required_check_runs": False,
    "merge.block_on_reviews_requested": False,
    "merge.optimistic_updates": True,
    "merge.update_branch_immediately": False,
    "merge.prioritize_ready_to_merge": False,
    "merge.message.body_type": "markdown",
    "merge.message.include_pull_request_author": False,
    "update.always": False,
    "update.require_automerge_label": True,
    "approve.auto_approve_usernames": [],
    "approve.auto_approve_labels": [],
    "update.ignored_usernames": [],
    "update.blacklist_usernames": [],
}
"""Where the file says what Kodiak does anyway, and IMQ does the same."""

_DIRECT = {
    "merge.automerge_label": "trigger_labels",
    "merge.blocking_labels": "blocking.labels",
    "merge.blacklist_labels": "blocking.labels",
    "merge.delete_branch_on_merge": "merge.delete_branch",
    "merge.block_on_reviews_requested": "require.reviews_done",
    "update.autoupdate_label": "update_label",
}


_TABLES = ("merge", "update", "approve", "merge.message", "merge.automerge_dependencies")
_OTHERS = (
    "merge.blocking_title_regex",
    "merge.method",
    "merge.dont_wait_on_status_checks",
    "merge.priority_merge_label",
    "merge.do_not_merge",
    "merge.notify_on_conflict",
)


def convert(source: Source) -> Conversion:
    """Convert a file of Kodiak."""
    made = Conversion(source, notes=list(_NOTES))
    _section(made, (), source.value)
    _message(made)
    if not _title_refused(made):
        made.default("trigger_labels", "automerge", "Kodiak's default")
    if _title(made) is None:
        made.default("blocking.titles", ["^WIP:.*"], "Kodiak's default")
    return made


def _title(made: Conversion) -> Any:
    """Return the expression of the titles that Kodiak blocks; None if the file has none."""
    merge = _table(made, "merge")
    return merge.get("blocking_title_regex", merge.get("blacklist_title_regex"))


def _title_refused(made: Conversion) -> bool:
    return bool(_title(made)) and made.refuses("blocking.titles", [_title(made)])


def _section(made: Conversion, place: Place, values: dict[str, Any]) -> None:
    for name, value in values.items():
        here = (*place, name)
        key = ".".join(map(str, here))
        if value == {}:
            made.same(here, "It sets nothing.")
        elif isinstance(value, dict) and key in _TABLES:
            _section(made, here, value)
        else:
            _key(made, here, key, value)


def _key(made: Conversion, place: Place, key: str, value: Any) -> None:
    if key == "merge.automerge_label" and _title_refused(made):
        made.missing(place, _TITLES)
    elif key in _DIRECT:
        many = isinstance(value, list) and len(value) > 5 and key == "merge.automerge_label"
        value, differs = (value[:5], "Five labels at most queue: the file has the first five.") if many else (value, "")
        if value == []:
            made.same(place, "It names no label.")
        elif key in _DEFAULTS and value == _DEFAULTS[key]:
            made.same(place, "IMQ does so anyway.")
        else:
            # No label of GitHub's has a blank at its ends.
            labels = list(dict.fromkeys(each.strip() for each in texts(value)))
            made.put(place, _DIRECT[key], labels if isinstance(value, list) else value, differs)
    elif key == "update.always" and value is True:
        _always(made, place)
    elif key == "update.require_automerge_label" and _table(made, "update").get("always") is not True:
        made.same(place, "It has no effect without `update.always`.")
    elif key in _MISSING:
        if key in _DEFAULTS and value == _DEFAULTS[key]:
            made.same(place, "IMQ does so anyway.")
        else:
            made.missing(place, _MISSING[key])
    elif key == "version":
        made.same(place, "IMQ's file has one form.")
    elif key in ("merge.blocking_title_regex", "merge.blacklist_title_regex"):
        if key == "merge.blacklist_title_regex" and "blocking_title_regex" in _table(made, "merge"):
            made.same(place, "It has no effect beside `merge.blocking_title_regex`.")
        elif value:
            made.put(place, "blocking.titles", [value])
        else:
            made.same(place, "It blocks no title.")
    elif key == "merge.method":
        linear = "IMQ rebases by GitHub's own method, which rewrites the commits."
        fast = value == "rebase_fast_forward"
        made.put(place, "merge.method", "rebase" if fast else value, linear if fast else "")
    elif key == "merge.dont_wait_on_status_checks":
        text = (
            "IMQ ignores these checks unless a rule requires them; Kodiak passes over a pull request that has one open."
        )
        if texts(value):
            made.put(place, "checks.ignored", texts(value), text)
        else:
            made.same(place, "It names no check.")
    elif key == "merge.priority_merge_label":
        made.put(place, "priority.labels", {str(value): {"hotfix": True}})
    elif key == "merge.do_not_merge":
        text = "" if value is False else "IMQ has then no queue; it does not update pull requests either."
        made.put(place, "enabled", value is False, text)
    elif key == "merge.notify_on_conflict":
        made.find(place, Verdict.NEARLY, "IMQ always says so in its comment, unless `comments.level: none`.")
    elif key == "disable_bot_label":
        made.put(place, "blocking.labels", texts(value), "A pull request with this label waits; IMQ still answers.")
    elif not key.startswith("merge.message."):
        made.missing(place, _unknown(place))


def _table(made: Conversion, name: str) -> dict[str, Any]:
    """Return a table of the file; an empty one if it is none."""
    value = made.source.value.get(name)
    return value if isinstance(value, dict) else {}


def _always(made: Conversion, place: Place) -> None:
    """Convert `update.always`: of the pull requests with the label, unless it needs none."""
    update = _table(made, "update")
    if update.get("require_automerge_label", True) is False or "autoupdate_label" in update:
        made.missing(place, _UPDATES)
        return
    labels = texts(_table(made, "merge").get("automerge_label", "automerge"))
    text = "IMQ updates what has this label and waits outside the queue, a minute after each push; each starts CI."
    made.put(place, "update_label", labels[0].strip() if labels else "", text)


def _unknown(place: Place) -> str:
    """Say that Kodiak ignores a key, and which one of the same name it has in another table."""
    other = next((each for each in (*_DIRECT, *_MISSING, *_OTHERS) if each.rpartition(".")[2] == place[-1]), None)
    beside = f": it has `{other}`, and a key belongs to the table whose header is above it" if other else ""
    return f"Kodiak has no such key, and ignores it{beside}."


_CUTS = {"cut_body_before": "<!-- imq:start -->", "cut_body_after": "<!-- imq:cut -->"}


def _message(made: Conversion) -> None:
    """Convert `merge.message`, whose keys make one title and one body."""
    message = _table(made, "merge").get("message")
    if not isinstance(message, dict):
        return
    at: Place = ("merge", "message")
    own_title, body = message.get("title") == "pull_request_title", message.get("body")
    number = message.get("include_pr_number", True) is not False
    own_body = body in ("pull_request_body", "empty")
    if own_title:
        made.put((*at, "title"), "merge.title", "{title} (#{number})" if number else "{title}")
    if own_body:
        made.put((*at, "body"), "merge.body", _body(message), _BODY if body == "pull_request_body" else "")
    for name in message:
        here, value = (*at, name), message[name]
        if name in ("title", "body") and value == "github_default":
            made.same(here, "Without a template GitHub's own text counts.")
        elif name == "include_pr_number":
            made.same(here, "The title has it." if own_title else "It has no effect on GitHub's own title.")
        elif name in ("strip_html_comments", "include_coauthors", "include_pull_request_url"):
            counts = value and (own_body if name.startswith("include") else body == "pull_request_body")
            made.same(here, "The body has it." if counts else "It has no effect here.")
        elif name in _CUTS and value and body == "pull_request_body":
            text = f"IMQ cuts at `{_CUTS[name]}`: put this into the template of pull requests instead."
            made.find(here, Verdict.NEARLY, text)
        elif name in _CUTS:
            made.same(here, "It has no effect here.")
        elif name == "cut_body_and_text":
            made.find(here, Verdict.NEARLY, "IMQ always leaves its marks out of the commit.")
        elif name not in ("title", "body", "body_type", "include_pull_request_author"):
            made.missing(here, _unknown(here))
        elif name in ("title", "body") and not (own_title if name == "title" else own_body):
            made.missing(here, "Kodiak refuses this value.")


_BODY = "IMQ quotes trailers that name people, and mentions nobody, in text from a description."


def _body(message: dict[str, Any]) -> str:
    """Write the template; Kodiak's trailers follow an empty body, too."""
    text = "{body_text}" if message.get("strip_html_comments") is True else "{body}"
    parts = {
        text: message.get("body") == "pull_request_body",
        "PR-URL: {url}": message.get("include_pull_request_url") is True,
        "{co_authors}": message.get("include_coauthors") is True,
    }
    return "\n\n".join(part for part, wanted in parts.items() if wanted)
