"""Convert `bors.toml` of bors-ng. Sources: bors.tech/documentation, and lib/worker/batcher/bors_toml.ex."""

from typing import Any

from bot.cli.convert.conversion import Conversion, Source, Verdict, duration, literal_template, texts
from queue_engine.config.document import Place

_NOTES = (
    "`bors r+` becomes `/queue`, `bors r-` becomes `/unqueue`; or add the label `merge-queue`.",
    "Workflows that run on pushes to `staging` and `trying` have to run on `imq/**` instead: "
    "`imq validate --workflows` says which lines.",
)


def convert(source: Source) -> Conversion:
    """Convert a file of bors-ng."""
    made = Conversion(source, notes=list(_NOTES))
    for name, value in source.value.items():
        _key(made, (name,), name.replace("-", "_"), value)
    made.default("trains.candidates", "auto", "bors tests several pull requests together")
    made.default("merge.method", "merge", "bors merges")
    return made


def _key(made: Conversion, place: Place, name: str, value: Any) -> None:
    match name:
        case "status" | "pr_status" | "block_labels" if value == []:
            made.same(place, "It names none.")
        case "status" | "pr_status":
            for index, check in enumerate(value if isinstance(value, list) else [value]):
                _check(made, (*place, index) if isinstance(value, list) else place, check, name == "status")
        case "block_labels":
            made.put(place, "blocking.labels", texts(value))
        case "timeout_sec" if isinstance(value, int):
            made.put(place, "checks.timeout", duration(value))
        case "prerun_timeout_sec" if isinstance(value, int):
            made.put(place, "timeouts.ready", duration(value), "IMQ counts the wait for reviews, too.")
        case "delete_merged_branches" if isinstance(value, bool):
            made.put(place, "merge.delete_branch", value)
        case "use_squash_merge" if isinstance(value, bool):
            differs = "GitHub shows the pull request as merged; bors closes it." if value else ""
            made.put(place, "merge.method", "squash" if value else "merge", differs)
        case "max_batch_size" if isinstance(value, int):
            differs = "" if value <= 32 else "A train has 32 pull requests at most."
            made.put(place, "trains.max_size", min(value, 32), differs)
        case "commit_title" if isinstance(value, str):
            before = [literal_template(each) for each in value.split("${PR_REFS}")]
            made.put(place, "merge.title", "#{number}".join(before), "Each pull request of a train has its own commit.")
        case "cut_body_after":
            text = "IMQ cuts a description at `<!-- imq:cut -->`: put this into the template of pull requests instead."
            made.find(place, Verdict.NEARLY, text)
        case "required_approvals" if isinstance(value, int) and not isinstance(value, bool):
            _approvals(made, place, value)
        case "up_to_date_approvals" | "use_codeowners" if value is True:
            parameter = {
                "up_to_date_approvals": "dismiss_stale_reviews_on_push",
                "use_codeowners": "require_code_owner_review",
            }[name]
            text = f"GitHub's rule for pull requests has it as `{parameter}`; IMQ obeys that rule."
            made.elsewhere(
                place, "pull_request", text, required_approving_review_count=_count(made), **{parameter: True}
            )
        case "up_to_date_approvals" | "use_codeowners":
            made.same(place, "It is off, and IMQ obeys GitHub's rules.")
        case "update_base_for_deletes":
            made.find(place, Verdict.NEARLY, "IMQ keeps a branch on which another open pull request is based.")
        case "committer":
            made.missing(place, "GitHub commits as the App that merges; a title or a body of your own is in `merge`.")
        case _:
            _unknown(made, place, name)


_KNOWN = frozenset({"timeout_sec", "prerun_timeout_sec", "max_batch_size", "required_approvals", "commit_title"})


def _unknown(made: Conversion, place: Place, name: str) -> None:
    if name in (*_KNOWN, "delete_merged_branches", "use_squash_merge"):
        made.missing(place, "bors refuses a value of this type, and so nothing became of it.")
        return
    made.missing(place, "bors has no such key, and ignores it: the documents and the source of bors do not name it.")


def _count(made: Conversion) -> int:
    """Return how many approvals bors requires, up to ten."""
    found = {name.replace("-", "_"): value for name, value in made.source.value.items()}.get("required_approvals")
    return max(0, min(found, 10)) if isinstance(found, int) else 0


def _approvals(made: Conversion, place: Place, count: int) -> None:
    if count <= 0:
        made.same(place, "No approval is required.")
        return
    made.put(place, "require.approvals", min(count, 10), "Ten are the most." if count > 10 else "")


def _check(made: Conversion, place: Place, check: object, on_candidate: bool) -> None:
    if not isinstance(check, str):
        made.missing(place, "bors refuses a status that is no text.")
    elif "%" in check:
        made.put((), "enabled", False)
        text = (
            "IMQ requires checks by name, not by pattern: list each in `checks.required`. Then remove `enabled: false`."
        )
        made.missing(place, text)
    else:
        candidate = "If it runs on merge commits alone, and not on pull requests, name it in `checks.queue_only`."
        head = "IMQ waits for it on each candidate, too."
        made.put(place, "checks.required", [check], candidate if on_candidate else head)
