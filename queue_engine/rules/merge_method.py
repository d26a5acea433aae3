"""Choose the method by which a pull request is merged, and the message of its commit."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from queue_engine.config import merge_commit
from queue_engine.config.model import Policy
from queue_engine.domain.facts import BranchRules, CommitHistory, MergeCommit, MergeMethod, PullRequest
from queue_engine.domain.reasons import Reason


def wanted_method(labels: Iterable[str], policy: Policy) -> MergeMethod | None:
    """Return the method of a label; without one, the configured method."""
    return next(iter(_asked(labels, policy).values()), policy.merge.method)


def _asked(labels: Iterable[str], policy: Policy) -> Mapping[str, MergeMethod]:
    """Return the methods that these labels name, by the label as the configuration has it."""
    carried = {label.casefold() for label in labels}
    return {label: method for label, method in policy.merge.method_labels.items() if label.casefold() in carried}


def merge_method(pull: PullRequest, rules: BranchRules, policy: Policy) -> MergeMethod | None:
    """Return the wanted method if it is allowed; if none is wanted, the first allowed of merge, squash, rebase.

    None also if labels name two methods, or if GitHub cannot rebase the commits and only a rebase is left.
    """
    asked: set[MergeMethod | None] = {*_asked(pull.labels, policy).values()} or {policy.merge.method}
    if len(asked) > 1:
        return None
    refused = {MergeMethod.MERGE} if rules.linear_history else set[MergeMethod]()
    # GitHub does not sign the commits that it rebases.
    if rules.signatures or pull.rebaseable is False:
        refused.add(MergeMethod.REBASE)
    permitted = pull.methods if rules.methods is None else rules.methods
    allowed = (each for each in pull.methods if each in permitted and each not in refused)
    return next((each for each in allowed if asked <= {None, each}), None)


def no_method(pull: PullRequest, rules: BranchRules, policy: Policy) -> tuple[Reason, str | None]:
    """Return why there is no method, and the wanted method or the labels that contradict each other.

    The reason is a linear history if only that rule excludes merge commits; else repository or rules allow no method.
    """
    asked = _asked(pull.labels, policy)
    if len(set(asked.values())) > 1:
        return Reason.METHODS_CONTRADICT, ", ".join(f"{label}: {method.value}" for label, method in asked.items())
    wanted = wanted_method(pull.labels, policy)
    if merge_method(replace(pull, rebaseable=None), rules, policy) is MergeMethod.REBASE:
        return Reason.REBASE_IMPOSSIBLE, wanted and wanted.value
    unrestricted = merge_method(pull, replace(rules, linear_history=False), policy)
    reason = Reason.LINEAR_HISTORY_REQUIRED if unrestricted is MergeMethod.MERGE else Reason.METHOD_NOT_ALLOWED
    return reason, wanted and wanted.value


def needs_signed_commits(pull: PullRequest, rules: BranchRules, policy: Policy) -> bool:
    """Whether the pull request's own commits have to be signed: GitHub signs the commit of a squash itself."""
    return rules.signatures and merge_method(pull, rules, policy) is MergeMethod.MERGE


def commit_message(
    pull: PullRequest,
    method: MergeMethod,
    policy: Policy,
    texts: CommitHistory | None = None,
    *,
    queued_by: str = "",
    reviewers: Sequence[str] = (),
) -> MergeCommit:
    """Return title and body of the landed commit. A rebase keeps the commits' messages."""
    if method is MergeMethod.REBASE:
        return MergeCommit()
    return merge_commit.commit_message(
        MergeCommit(policy.merge.title, policy.merge.body),
        pull,
        texts or CommitHistory(),
        label=policy.trigger_label,
        queued_by=queued_by,
        reviewers=reviewers,
        trailer=policy.merge.queued_by,
    )
