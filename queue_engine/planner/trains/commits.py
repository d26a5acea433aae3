"""Messages of the commits that build candidates. Pure.

A title that asks CI to skip would leave the candidate untested. A bare number would link each candidate on its pull
request, and words such as "fixes" close issues only where the base is the default branch, as after any merge.
"""

import re

from queue_engine.config.merge_commit import commit_message, needs_co_authors
from queue_engine.domain.facts import MergeMethod, PullRequest
from queue_engine.domain.policy import Policy

_SKIPS = re.compile(
    r"\[(skip ci|ci skip|no ci|skip actions|actions skip)\]|^skip-checks:", re.IGNORECASE | re.MULTILINE
)
_NUMBER = re.compile(r"#(?=\d)")


def merge_message(pull: PullRequest, policy: Policy) -> str:
    """Return the message of the commit that merges this pull request."""
    wanted = commit_message(policy, pull, ())
    title = wanted.title or f"Merge pull request {pull.number} from {pull.head_branch}"
    body = wanted.body if wanted.body is not None else _NUMBER.sub("", pull.title)
    return _without_skips(f"{title}\n\n{body}".strip())


def names_co_authors(method: MergeMethod, policy: Policy) -> bool:
    """Whether the message of the commit that lands a pull request names its co-authors."""
    return method is not MergeMethod.REBASE and needs_co_authors(policy)


def _without_skips(text: str) -> str:
    return _SKIPS.sub(lambda found: found.group().strip("[]:").replace(" ", "-"), text)
