"""Send the requests that change GitHub for one entry: update, merge, rerun.

A refusal that depends on the pull request becomes a fact for `decide`; every other error is raised.

GitHub neither updates nor merges a pull request of a stack as others. A merge in the background lands a pull request
and all that lies below it in its stack. So IMQ merges only the lowest one, whose base is the branch on which the stack
lands. Sources: gh-stack, "Merge API"; Kodiak #923; git-stk #306 and navikt/copilot #659, which were tried on GitHub.
"""

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from typing import NoReturn

from queue_engine.domain.errors import (
    Disorder,
    Forbidden,
    GitHubError,
    HeadConflict,
    Invalid,
    MergeError,
    NotFound,
    Refused,
)
from queue_engine.domain.facts import CheckReport, MergeMethod
from queue_engine.domain.model import Entry, Repository
from queue_engine.domain.port import GitHub, MergeState, PendingMerge
from queue_engine.domain.reasons import Reason
from queue_engine.domain.run import Run
from queue_engine.executor.reads import NOT_MERGED
from queue_engine.planner.actions import Facts, Merge
from queue_engine.planner.github_outage import out_of_order, settled
from queue_engine.planner.merge_errors import explains_update, named, refused_merge
from queue_engine.rules.stacks import is_stacked_above

_FORBIDDEN = 403


async def update(github: GitHub, entry: Entry, now: datetime) -> Facts:
    """Request the update of the entry's branch; return GitHub's refusal as a fact, or no facts."""
    if entry.shared_head is not None and await is_guarded_head(github, entry.repository, entry.shared_head):
        return Facts(update_refused=entry.shared_head, head_protected=True)
    try:
        await github.update_branch(entry.repository, entry.number, entry.head_sha)
    except (Forbidden, Invalid, Refused) as refusal:
        if named(refusal.message) is Reason.STACKED:
            return await _update_stacked(github, entry, refusal.message)
        passing = unexplained_update(refusal) or out_of_order(refusal)
        lasting = settled(entry.run, passing, now)
        if isinstance(lasting, Refused) and not await _closed_fork(github, entry, lasting):
            raise lasting from refusal
        return Facts(update_refused=refusal.message, update_forbidden=not isinstance(lasting, Invalid))
    return Facts()


def unexplained_update(refusal: GitHubError) -> Refused | None:
    """Return a refused update (422) as GitHub in trouble, if its words explain nothing."""
    unknown = isinstance(refusal, Invalid) and not explains_update(refusal.message)
    return Refused(refusal.message, status=refusal.status) if unknown else None


async def is_guarded_head(github: GitHub, repository: Repository, branch: str) -> bool:
    """Whether rules protect the head branch of a pull request, into which IMQ then merges nothing.

    IMQ may bypass rules of a branch that hold for people with write permission. With a pull request from `main` to
    their own branch, they would have IMQ merge that branch into `main` ("merged dev into master": react-boilerplate
    #2585).
    """
    tip = await github.branch_tip(repository, branch)
    return tip is not None and tip.protected


async def _closed_fork(github: GitHub, entry: Entry, refusal: Refused) -> bool:
    """Whether GitHub refuses an update because a fork's author does not let maintainers push to the branch."""
    if refusal.status != _FORBIDDEN or refusal.disorder is not None:
        return False
    pull = await github.pull_request(entry.repository, entry.number)
    return pull.head_repository != entry.repository.full_name and not pull.maintainer_can_modify


async def merge(
    github: GitHub, entry: Entry, how: Merge, refused: frozenset[MergeMethod], now: datetime
) -> str | PendingMerge | Facts:
    """Merge the entry's head; return the commit that landed, GitHub's merge in the background, or its refusal.

    `refused` are the methods that GitHub refused before; a refusal that names this method adds it.
    """
    try:
        if how.in_background:
            return await _merge_stacked(github, entry, how, refused)
        return await github.merge(entry.repository, entry.number, entry.head_sha, how.method, how.message)
    except (MergeError, HeadConflict, Forbidden, Refused, Invalid) as refusal:
        lasting = settled(entry.run, out_of_order(refusal), now)
        if isinstance(lasting, Refused):
            raise lasting from refusal
        if named(refusal.message) is Reason.STACKED and not how.in_background:
            return await _merge_unknown_stack(github, entry, how, refusal.message, refused)
        if isinstance(lasting, Forbidden):
            return Facts(merge_refused=refusal.message, merge_denied=Reason.PERMISSION_MISSING)
        github.forget_rules(entry.repository.id)
        return refused_merge(refusal.message, how.method, refused)


async def rerun(
    github: GitHub, repository: Repository, test: Run, failed: Iterable[CheckReport], now: datetime
) -> str | None:
    """Rerun these jobs of GitHub Actions, each workflow run once; return GitHub's message if it refuses one."""
    for run in dict.fromkeys(check.actions_run for check in failed if check.actions_run is not None):
        try:
            await github.rerun(repository, run)
        except (Forbidden, NotFound, Invalid, Refused) as refusal:
            if isinstance(settled(test, refusal, now), Refused):
                raise
            return refusal.message
    return None


async def start_again(
    github: GitHub, repository: Repository, run: Run, detail: str, failed: Iterable[CheckReport], now: datetime
) -> NoReturn:
    """Rerun jobs that an unpaid plan kept from starting, if GitHub lets IMQ; then raise that as `Refused`."""
    with suppress(Refused):
        await rerun(github, repository, run, failed, now)
    raise Refused(detail, disorder=Disorder.UNPAID)


async def _update_stacked(github: GitHub, entry: Entry, refused: str) -> Facts:
    """Merge the base branch into the head branch, where GitHub refuses to update a pull request of a stack.

    The request names no expected head: the parents of the merge show later whether it updates `entry.head_sha`.
    """
    pull = await github.pull_request(entry.repository, entry.number)
    if pull.head_sha != entry.head_sha:
        return Facts(pull=pull, update_refused=refused)
    message = f"Merge branch '{entry.base_branch}' into {pull.head_branch}"
    try:
        merged = await github.merge_into(entry.repository, pull.head_branch, entry.base_branch, message)
    except (HeadConflict, Invalid) as refusal:
        return Facts(update_refused=refusal.message)
    except Forbidden as refusal:
        return Facts(update_refused=refusal.message, update_forbidden=True)
    return Facts() if merged is not None else Facts(update_refused=refused)


async def _merge_stacked(
    github: GitHub, entry: Entry, how: Merge, refused: frozenset[MergeMethod]
) -> str | PendingMerge | Facts:
    """Have GitHub merge the entry's head in the background; the commit, if it has landed already."""
    try:
        its_own = entry.repository, entry.number, entry.head_sha
        pending = await github.merge_in_background(*its_own, how.method, how.message)
    except NotFound as refusal:
        return Facts(merge_refused=refusal.message, merge_denied=Reason.STACKED)
    if pending.state is MergeState.MERGED and pending.sha is not None:
        return pending.sha
    if pending.state in NOT_MERGED:
        github.forget_rules(entry.repository.id)
        return refused_merge(pending.message, how.method, refused)
    return pending


async def _merge_unknown_stack(
    github: GitHub, entry: Entry, how: Merge, message: str, refused: frozenset[MergeMethod]
) -> str | PendingMerge | Facts:
    """Merge in the background after the refusal that showed the stack, if the entry is the lowest one of its stack.

    GraphQL of an older Enterprise Server has no stacks; REST shows this one, or the pull request just joined it.
    """
    pull = await github.pull_request(entry.repository, entry.number)
    if pull.stack_base is None or is_stacked_above(pull) or pull.base_branch != entry.base_branch:
        return Facts(merge_refused=message, merge_denied=Reason.STACKED)
    return await _merge_stacked(github, entry, how, refused)
