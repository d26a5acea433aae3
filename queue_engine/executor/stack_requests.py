"""Send the requests for a pull request of a stack, which GitHub neither updates nor merges as others.

A merge in the background lands a pull request and all that lies below it in its stack. So IMQ merges only the lowest
one, whose base is the branch on which the stack lands.

Sources: gh-stack, "Merge API"; Kodiak #923; git-stk #306 and navikt/copilot #659, which were tried on GitHub.
"""

from dataclasses import replace

from queue_engine.domain.errors import Forbidden, HeadConflict, Invalid, NotFound
from queue_engine.domain.facts import MergeMethod
from queue_engine.domain.model import Entry
from queue_engine.domain.port import GitHub, MergeState, PendingMerge
from queue_engine.domain.reasons import Reason
from queue_engine.planner.actions import Facts, Merge
from queue_engine.planner.merge_errors import refused_merge
from queue_engine.rules.stacks import is_stacked_above

_REFUSED = frozenset({MergeState.FAILED, MergeState.ENQUEUED})
"""GitHub's own queue would merge by its own rules, and was not asked for."""


async def update_stacked(github: GitHub, entry: Entry, refused: str) -> Facts:
    """Merge the base branch into the head branch, where GitHub refuses to update a pull request of a stack.

    The request names no expected head: the parents of the merge show later whether it is the update of `entry.head`.
    """
    pull = await github.pull_request(entry.repository, entry.number)
    if pull.head_sha != entry.head:
        return Facts(pull=pull, update_refused=refused)
    message = f"Merge branch '{entry.base_branch}' into {pull.head_branch}"
    try:
        merged = await github.merge_into(entry.repository, pull.head_branch, entry.base_branch, message)
    except (HeadConflict, Invalid) as refusal:
        return Facts(update_refused=refusal.message)
    except Forbidden as refusal:
        return Facts(update_refused=refusal.message, update_forbidden=True)
    return Facts() if merged is not None else Facts(update_refused=refused)


async def merge_stacked(
    github: GitHub, entry: Entry, how: Merge, refused: frozenset[MergeMethod]
) -> str | PendingMerge | Facts:
    """Have GitHub merge the entry's head in the background; the commit, if it has landed already."""
    try:
        pending = await github.merge_in_background(
            entry.repository, entry.number, entry.head, how.method, title=how.title, body=how.body
        )
    except NotFound as refusal:
        return Facts(merge_refused=refusal.message, merge_denied=Reason.STACKED)
    if pending.state is MergeState.MERGED and pending.sha is not None:
        return pending.sha
    if pending.state in _REFUSED:
        github.forget_rules(entry.repository.id)
        return refused_merge(pending.message, how.method, refused)
    return pending


async def merge_unknown_stack(
    github: GitHub, entry: Entry, how: Merge, message: str, refused: frozenset[MergeMethod]
) -> str | PendingMerge | Facts:
    """Merge in the background after the refusal that showed the stack, if the entry is the lowest one of its stack.

    GraphQL of an older Enterprise Server has no stacks; REST shows this one, or the pull request just joined it.
    """
    pull = await github.pull_request(entry.repository, entry.number)
    if pull.stack_base is None or is_stacked_above(pull) or pull.base_branch != entry.base_branch:
        return Facts(merge_refused=message, merge_denied=Reason.STACKED)
    return await merge_stacked(github, entry, how, refused)


async def pending_merge(github: GitHub, entry: Entry, facts: Facts) -> Facts:
    """Read the merge in the background; its failure is a refusal, and a merge that GitHub does not know is none."""
    assert entry.run.merge_uuid is not None
    try:
        pending = await github.pending_merge(entry.repository, entry.number, entry.run.merge_uuid)
    except NotFound as missing:
        pending = PendingMerge(MergeState.PENDING, missing.message)
    if pending.state not in _REFUSED:
        return replace(facts, pending_merge=pending)
    github.forget_rules(entry.repository.id)
    return replace(facts, pending_merge=pending, merge_refused=pending.message)
