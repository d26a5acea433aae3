"""Messages of the commits that build candidates. Pure.

A title that asks CI to skip would leave the candidate untested. Each provider has words of its own for that
(srz-zumix/ci-skip lists them) and reads the newest commit's message alone. A bare number would link each candidate on
its pull request, and words such as "fixes" close issues only where the base is the default branch, as after any merge.
"""

import re

from queue_engine.config.merge_commit import MergeCommit, commit_message, needs_co_authors
from queue_engine.config.model import Policy
from queue_engine.domain.facts import MergeMethod, PullRequest

_SKIPS = re.compile(
    r"\[(?:skip[ -][\w-]+|skiprun|[\w-]+[ -]skip|no ci)\]|\*\*\*no_ci\*\*\*|--(?:skip-ci|ci-skip)\b|^skip-checks:",
    re.IGNORECASE | re.MULTILINE,
)
_NUMBER = re.compile(r"#(?=\d)")


def merge_message(pull: PullRequest, policy: Policy, method: MergeMethod) -> str:
    """Return the message of the commit that merges this pull request.

    A commit that is squashed for the candidate never lands: it has no number at all, whatever the templates say.
    """
    wanted = commit_message(MergeCommit(policy.merge.title, policy.merge.body), pull, (), label=policy.trigger_label)
    title = wanted.title or f"Merge pull request {pull.number} from {pull.head_branch}"
    body = wanted.body if wanted.body is not None else _NUMBER.sub("", pull.title)
    text = _without_skips(f"{title}\n\n{body}".strip())
    return text if method is MergeMethod.MERGE else _NUMBER.sub("", text)


def names_co_authors(method: MergeMethod, policy: Policy) -> bool:
    """Whether the message of the commit that lands a pull request names its co-authors."""
    return method is not MergeMethod.REBASE and needs_co_authors(policy.merge.body)


def _without_skips(text: str) -> str:
    return _SKIPS.sub(lambda found: found.group().strip("[]:*-").replace(" ", "-"), text)
