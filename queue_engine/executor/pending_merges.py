"""Compare what GitHub landed in the background after the entry of the pull request had left its queue (P1).

No call stops a requested merge, and an entry waits for it no longer than its time limit (P5). Others may have landed
meanwhile, so that the merge made an untested tree. A webhook reports the landing, or a sweep finds it.
"""

import structlog

from queue_engine.config.model import Policy
from queue_engine.domain.errors import NotFound
from queue_engine.domain.facts import PullRequest
from queue_engine.domain.model import Entry, EntryStatus, Queue, Repository
from queue_engine.domain.port import GitHub, PendingMerge
from queue_engine.effects.context import Engine
from queue_engine.effects.notices import announce_landed
from queue_engine.executor import github_requests
from queue_engine.executor.cleanup import schedule_branch_deletion
from queue_engine.executor.github_requests import LandingCommit
from queue_engine.executor.landing import log_landing, mismatch_of, moves, pause_for_mismatch
from queue_engine.planner.actions import Facts
from queue_engine.rules.pending_merges import is_requested_merge

_log = structlog.get_logger("imq.pending_merges")


async def settle_pending_merge(engine: Engine, repository: Repository, number: int) -> None:
    """Compare the trees if GitHub merged this pull request after its entry had left, and IMQ requested that merge.

    Sends no request for any other pull request. Raises GitHubError.
    """
    async with engine.store.reading() as tx:
        entry = await tx.pending_merges.find(repository.id, number)
        if entry is None or await tx.entries.is_queued(repository.id, number):
            return
        queue = await tx.queues.get(entry.queue_id)
    assert queue is not None
    pull = await engine.github.pull_request(entry.repository, number)
    if pull.open:
        return
    policy = await engine.policies.of(entry.repository, entry.base_branch)
    landed = await _landed(engine, entry, pull, policy)
    if landed is None or landed.branch != entry.base_branch:
        async with engine.change() as change:
            await change.tx.pending_merges.remove(repository.id, number)
        _log.info("pending_merge_ended", repository=repository.full_name, number=number, merged=pull.merged)
        return
    await _land(engine, queue, entry, landed, policy)


async def _landed(engine: Engine, entry: Entry, pull: PullRequest, policy: Policy) -> LandingCommit | None:
    """Return the commit by which GitHub landed the entry as IMQ requested; None if it did not."""
    if not pull.merged:
        return None
    github, is_shown = engine.github, pull.merged_by is not None and pull.merge_sha is not None
    pending = None if is_shown else await _pending(github, entry)
    if not is_requested_merge(pull, await github.own_login(), pending):
        return None
    sha = pull.merge_sha or (pending.sha if pending else None)
    return await github_requests.landed(github, entry, sha, Facts(pull=pull), policy)


async def _pending(github: GitHub, entry: Entry) -> PendingMerge | None:
    """Read how far the requested merge is; None if GitHub no longer knows it."""
    try:
        return await github.pending_merge(entry.repository, entry.number, entry.run.merge_uuid or "")
    except NotFound:
        return None


async def _land(engine: Engine, queue: Queue, entry: Entry, found: LandingCommit, policy: Policy) -> None:
    """Announce the landing, in one transaction with all of its effects, and pause the queue if the trees differ.

    The entry has departed before, so its landing is an event of the queue, and counts in no statistics.
    """
    landed, mismatch = found.commit, mismatch_of(entry, found.commit, found.untested)
    async with engine.change() as change:
        tx, now = change.tx, change.now
        if not await tx.pending_merges.remove(entry.repository.id, entry.number):
            return
        await tx.refusals.clear(entry.repository.id, entry.number)
        await announce_landed(tx, entry, landed.sha, policy, now, mismatch=mismatch, untested=found.untested)
        data = {"sha": landed.sha, "tree": landed.tree, "tested_tree": entry.run.tested_tree, "head": entry.head}
        await change.record(EntryStatus.LANDED.value, queue, number=entry.number, data=data)
        await tx.known.record(entry.repository.id, moves(entry, landed), now)
        await tx.queues.wake(queue.id, now)
        if mismatch is None:
            await schedule_branch_deletion(tx, entry, policy, now)
        else:
            await pause_for_mismatch(change, queue, entry, landed, policy, mismatch)
    log_landing(entry, landed, mismatch)
