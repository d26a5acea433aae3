"""How a pull request is merged: by which method, and with which words. Pure."""

from queue_engine.facts import BranchRules, MergeMethod, PullRequest
from queue_engine.policy import Policy


def merge_method(pull: PullRequest, rules: BranchRules, policy: Policy) -> MergeMethod:
    """The first allowed of merge, squash, rebase; no merge commits where history must be linear."""
    allowed = [m for m in pull.methods if not (rules.linear_history and m is MergeMethod.MERGE)]
    return allowed[0] if allowed else MergeMethod.MERGE


def commit_words(pull: PullRequest, method: MergeMethod, policy: Policy) -> tuple[str | None, str | None]:
    """Title and body of the commit that lands it; None leaves them to GitHub."""
    return None, None
