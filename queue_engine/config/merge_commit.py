"""Fill in a repository's templates for the messages of merge commits.

Texts from people are not trusted. Placeholders come from a fixed list, are never evaluated, and inserted text is not
expanded again. A title is one line. A trailer that names a person (`Signed-off-by: ...`) certifies something, so only
IMQ writes such trailers. Those of a body are quoted (`> Signed-off-by: ...`): readable, but no trailers for git. Other
trailers of a body (`Fixes: #7`) remain. An `@name` of any source, templates included, is broken up: a commit that
mentions people notifies them at each push of it.

Words such as `[skip ci]` keep CI from running on the commit, also where a description only quotes them
(StefanMaron/BusinessCentral.AL.Runner #2116, dependabot/dependabot-core #7311, alexwohlbruck/parchment #367). Each
provider has its own (srz-zumix/ci-skip lists them). Those of a body are broken up; those of a title or of a template
remain, since tools that release have them there on purpose.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from queue_engine.config.document import nearest, quoted
from queue_engine.domain.facts import CommitHistory, MergeCommit, PullRequest

START, CUT = "<!-- imq:start -->", "<!-- imq:cut -->"
"""Text of a body before START and after CUT is left out of the commit."""

PLACEHOLDERS: Mapping[str, str] = {
    "title": "the pull request's title",
    "body": f"its description, without the text after `{CUT}` and before `{START}`",
    "body_text": "the same without its HTML comments",
    "number": "its number",
    "url": "the address of its page on GitHub",
    "author": "the login of the person who opened it",
    "base": "the base branch",
    "head": "the branch it comes from",
    "label": "the label that queues",
    "queued_by": "the login of the person who queued it",
    "reviewers": "the logins of those with write access who approved it",
    "commits": "a line `- title` for each of its commits, merge commits aside",
    "co_authors": "a line `Co-authored-by: ...` for each other author of its commits, and each co-author named "
    "there; last in the body",
}
"""The placeholders of a template, with their descriptions for the documents."""

_ONE_LINE = frozenset(PLACEHOLDERS) - {"body", "body_text", "commits", "co_authors"}
_MOST_TITLE = 256
_MOST_BODY = 50_000
_MOST_CO_AUTHORS = 50
_MOST_COMMITS = 100

_TOKEN = re.compile(r"\{\{|\}\}|\{([^{}\s]*)\}|[{}]")
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x80-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_MENTION = re.compile(r"(?<!\w)@(?=[a-z0-9][a-z0-9_-]*+(?:/[a-z0-9]|\.*+(?!\w)))", re.ASCII | re.IGNORECASE)
"""A person or a team, as GitHub finds it (`MentionFilter` and `TeamMentionFilter` of its html-pipeline). No address of
an e-mail is one, not even after a bot's `]`."""

_INVISIBLE = "\u200b"
_TRAILER = re.compile(r"[A-Za-z][A-Za-z-]*: ")
_SKIPS = re.compile(
    r"\[(?:skip[ -][\w-]+|skiprun|[\w-]+[ -]skip|no ci)\]|\*\*\*no_ci\*\*\*|--(?:skip-ci|ci-skip)\b|^skip-checks:",
    re.IGNORECASE | re.MULTILINE,
)
_VOUCHING = re.compile(r"^[ \t]*(?=[A-Za-z][A-Za-z-]*-by[ \t]*:)", re.MULTILINE | re.IGNORECASE)


def commit_message(
    templates: MergeCommit,
    pull: PullRequest,
    texts: CommitHistory,
    *,
    label: str,
    queued_by: str = "",
    reviewers: Sequence[str] = (),
    trailer: bool = False,
) -> MergeCommit:
    """Fill in the message for merging this pull request, whose commits have these texts. It mentions no one.

    `label` is the one that queues. An empty title is left to GitHub. Templates were checked when the configuration was
    parsed (`checked`). `trailer`: `Queued-by:` ends the body, which is the title where there is no template.
    """
    one_line = {
        "title": _line(pull.title)[:_MOST_TITLE],
        "number": str(pull.number),
        "url": _line(pull.url),
        "author": _line(pull.author),
        "base": _line(pull.base_branch),
        "head": _line(pull.head_branch),
        "label": _line(label),
        "queued_by": _line(queued_by),
        "reviewers": ", ".join(map(_line, reviewers)),
    }
    title = None if templates.title is None else without_mentions(_line(filled(templates.title, one_line))) or None
    queued = f"Queued-by: {one_line['queued_by']}" if trailer and one_line["queued_by"] else None
    if templates.body is None:
        text = without_mentions(_quoted(one_line["title"]))
        return MergeCommit(title, None if queued is None else f"{text}\n\n{queued}")
    body = _wanted(pull.body)
    # Cut first and quote afterwards, so that no text across the cut becomes a trailer.
    several = {
        "body": _quoted(without_skips(body[:_MOST_BODY].strip())),
        "body_text": _quoted(without_skips(without_comments(body)[:_MOST_BODY].strip())),
        "title": _quoted(one_line["title"]),
        "commits": without_skips("\n".join(f"- {_line(each)[:_MOST_TITLE]}" for each in texts.titles[:_MOST_COMMITS])),
        "co_authors": _trailers(texts.co_authors),
    }
    text = without_mentions(_tidy(filled(templates.body, one_line | several)))
    return MergeCommit(title, text if queued is None else _ended(text, queued))


def needs_commits(body: str | None) -> bool:
    """Return whether the message has what IMQ has to read the pull request's commits for."""
    return body is not None and not {"commits", "co_authors"}.isdisjoint(names(body))


def checked(template: str, allowed: Collection[str]) -> str:
    """Check that a template has only these placeholders. Raises ValueError."""
    for found in _TOKEN.finditer(template):
        if found[0] in ("{", "}"):
            raise ValueError("has an unpaired brace: write {{ or }} for a brace")
        if found[1] is not None and found[1] not in allowed:
            raise ValueError(f"has an unknown placeholder {quoted(found[0])}{nearest(found[1], allowed)}")
    return template


def title_template(template: str) -> str:
    """Check the template of a commit's title. Raises ValueError."""
    if _CONTROL.search(template) or "\n" in template:
        raise ValueError("must be one line")
    return checked(template, _ONE_LINE)


def body_template(template: str) -> str:
    """Check the template of a commit's body. Raises ValueError."""
    found = names(checked(template, PLACEHOLDERS))
    for name in ("body", "body_text", "commits", "co_authors"):
        if found.count(name) > 1:
            raise ValueError(f"has {{{name}}} twice")
    if "co_authors" in found and not template.rstrip().endswith("{co_authors}"):
        raise ValueError("must end with {co_authors}, where git reads trailers")
    return template


def green_branch(template: str) -> str:
    """Check the name of a branch that follows what is proved; it has `{base}` in it. Raises ValueError."""
    if checked(template, {"base"}) == "{base}" or "{base}" not in template:
        raise ValueError("must be a name with {base} in it, such as imq-green/{base}")
    return template


def names(template: str) -> list[str]:
    """List the placeholders of a template, in their order."""
    return [found[1] for found in _TOKEN.finditer(template) if found[1] is not None]


def filled(template: str, values: Mapping[str, str]) -> str:
    """Fill in a template; a placeholder without a value remains."""
    fixed = {"{{": "{", "}}": "}"}
    return _TOKEN.sub(lambda found: fixed.get(found[0]) or values.get(found[1] or "", found[0]), template)


def without_comments(text: str) -> str:
    """Remove HTML comments; a comment without an end hides the rest, as on GitHub."""
    return _COMMENT.sub("", text)


def _wanted(body: str) -> str:
    text = _CONTROL.sub("", body.replace("\r\n", "\n").replace("\r", "\n"))
    _, started, rest = text.partition(START)
    return (rest if started else text).partition(CUT)[0]


def _quoted(text: str) -> str:
    return _VOUCHING.sub("> ", text)


def without_skips(text: str) -> str:
    """Break up the words that keep CI from running on a commit with this message."""
    return _SKIPS.sub(lambda found: found.group().strip("[]:*-").replace(" ", "-"), text)


def without_mentions(text: str) -> str:
    """Break up each `@name` and `@organization/team`."""
    return _MENTION.sub(f"@{_INVISIBLE}", text)


def _line(text: str) -> str:
    return _CONTROL.sub("", " ".join(text.split()))


def _trailers(co_authors: Iterable[str]) -> str:
    """Write the trailers after an empty line, as a block of their own."""
    lines = dict.fromkeys(f"Co-authored-by: {_line(who)[:_MOST_TITLE]}" for who in co_authors if _line(who))
    return "\n\n" + "\n".join(list(lines)[:_MOST_CO_AUTHORS]) if lines else ""


def _ended(text: str, trailer: str) -> str:
    """Add a trailer: to the trailers that end the text, or as a paragraph of its own."""
    last = text.rpartition("\n\n")[2].splitlines()
    return f"{text}\n{trailer}" if last and all(map(_TRAILER.match, last)) else f"{text}\n\n{trailer}".strip()


def _tidy(text: str) -> str:
    """Keep at most one empty line in a row, and none at the ends."""
    return re.sub(r"\n[ \t]*(?:\n[ \t]*)+\n", "\n\n", text).strip()
