"""Land runs that passed: move the base branch to the candidate in one call, or merge the members one by one.

The intent is stored before the first request, with the state `landing`; a pass continues such a run before anything
else. A repeated move finds the base at the candidate; a repeated merge finds the pull request merged (P2). A later pass
does not repeat the first request: if nothing landed, it gives the run back, and its members are verified again (P4).
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

import structlog

from queue_engine.domain.candidate_run import CandidateMember, CandidateRun, CandidateState
from queue_engine.domain.errors import Forbidden, HeadConflict, Invalid, MergeError
from queue_engine.domain.facts import Branch, Commit, MergeMethod
from queue_engine.domain.model import Entry
from queue_engine.domain.port import BranchUpdate
from queue_engine.domain.reasons import Reason
from queue_engine.executor.landing import land
from queue_engine.executor.trains.candidate_branches import key_of, pull_request_checks_of
from queue_engine.executor.trains.landing_checks import (
    REPLICAS,
    may_count_later,
    own_heads_pass,
    still_passes,
    waits_on,
)
from queue_engine.executor.trains.member_facts import merges_refused, read_members, verify
from queue_engine.executor.trains.member_merges import finish, give_back, merge_members
from queue_engine.executor.trains.state import TrainState
from queue_engine.known.own_merges import record_merge_request
from queue_engine.planner.trains.members import base_moved
from queue_engine.planner.trains.model import TrainRun
from queue_engine.planner.trains.outcomes import cancelled

_log = structlog.get_logger("imq.trains")


async def begin_landing(state: TrainState, run: CandidateRun, planned: TrainRun) -> bool:
    """Verify the members, and store that the run lands; False if the pass has to plan again. Raises GitHubError."""
    members = [each for each in run.members if each.number in planned.content]
    await read_members(state, [entry for each in members if (entry := state.entry_of(each)) is not None])
    entries: list[Entry] = []
    for member in members:
        entry = state.entry_of(member)
        if entry is None:
            await state.cancel(run, why="left")
            return False
        if (method := await verify(state, entry, mergeable=False)) is None:
            return False
        if method is not member.method:
            await state.cancel(run, why="method_changed")
            return False
        snapshot = state.verified[entry.id, entry.version].snapshot
        if snapshot is not None and snapshot.base_tip not in {None, state.memory.base_tip}:
            await state.remember(base_moved(state.memory, snapshot.base_tip or ""))
            return False
        entries.append(entry)
    if await merges_refused(state, [each.method for each in members]):
        return False
    if not await still_passes(state, run):
        return False
    moves = _moves(state, run)
    if not await own_heads_pass(state, run, entries, merges=not moves):
        return False
    run = _without_landed(replace(run, test=replace(run.test, next_poll_at=None)), planned)
    async with state.engine.change() as change:
        for entry in entries if moves else ():
            requested = replace(entry.run, merge_requested_at=change.now, next_poll_at=None, candidate_run=run.id)
            await change.tx.entries.save(replace(entry, run=requested))
            await record_merge_request(change.tx, entry, entry.head, change.now)
        await change.tx.candidate_runs.save(replace(run, state=CandidateState.LANDING))
    assert run.id is not None
    state.landing.add(run.id)
    return True


def _without_landed(run: CandidateRun, planned: TrainRun) -> CandidateRun:
    """Return the run without its first members that landed with another run since."""
    gone = [each for each in run.members if each.number not in planned.content]
    if not gone:
        return run
    tip = next((each.commit for each in reversed(gone) if each.commit is not None), run.base_tip)
    return replace(run, members=tuple(each for each in run.members if each.number in planned.content), base_tip=tip)


async def continue_landing(state: TrainState, run: CandidateRun) -> datetime | None:
    """Land a run whose landing has begun; returns when to try again, None if that changed. Raises GitHubError."""
    merged = [each for each in run.members if each.landed_sha is not None]
    if not _moves(state, run) or any(each.landed_sha != each.commit for each in merged):
        return await merge_members(state, run)
    if not await _may_move(state, run):
        return None
    cleaned = await _move_base(state, run)
    if cleaned is not None:
        await _land_members(state, run, cleaned=cleaned)
    return None


def _moves(state: TrainState, run: CandidateRun) -> bool:
    """Return whether the run lands by a move of the base, and not by GitHub's merges."""
    return state.memory.by_api is None and all(each.method is MergeMethod.MERGE for each in run.members)


async def _may_move(state: TrainState, run: CandidateRun) -> bool:
    """Return whether IMQ moves the base; False after the run ended, or was given back since nothing has landed.

    The first request follows the verification of the members within one pass. After a kill or an error of GitHub, an
    author may have withdrawn a member meanwhile. Raises GitHubError.
    """
    left = len(waiting(run, state.entries)) < sum(each.landed_sha is None for each in run.members)
    outdated = any(each.needs_refetch for each in state.entries if each.number in run.numbers)
    if run.id in state.landing and not left and not outdated:
        return True
    tip = await state.engine.github.branch_tip(state.queue.repository, state.queue.base_branch)
    if await _has_landed(state, run, tip):
        await _land_members(state, run, cleaned=False)
        return False
    moved = tip is not None and tip.sha != state.memory.base_tip
    await give_back(state, run, base_moved_to=tip.sha if tip is not None and moved else None)
    return False


async def _has_landed(state: TrainState, run: CandidateRun, tip: Branch | None) -> bool:
    """Return whether the base contains the candidate: somebody may have pushed onto it since. Raises GitHubError."""
    assert run.candidate is not None
    if tip is None or tip.sha == state.memory.base_tip:
        return False
    if tip.sha == run.candidate:
        return True
    queue = state.queue
    return (await state.engine.github.comparison(queue.repository, queue.base_branch, run.candidate)).head_landed


def waiting(run: CandidateRun, entries: Sequence[Entry]) -> list[CandidateMember]:
    """Return the members that have not landed."""
    queued = {(each.id, each.head) for each in entries}
    return [each for each in run.members if each.landed_sha is None and (each.entry_id, each.head) in queued]


async def _move_base(state: TrainState, run: CandidateRun) -> bool | None:
    """Move the base from the tested tip to the candidate; returns whether that deleted the run's branches.

    None if the base did not move. Raises GitHubError.
    """
    assert run.candidate is not None
    queue, memory = state.queue, state.memory
    move = BranchUpdate(queue.base_branch, before=memory.base_tip, after=run.candidate)
    gone = [BranchUpdate(branch, before=run.candidate, after=None) for branch in run.branches]
    refusal: str | None = None
    for updates in ([move, *gone], [move]):
        try:
            await state.engine.github.update_refs(queue.repository, updates)
        except (HeadConflict, MergeError, Forbidden, Invalid) as refused:
            # GitHub gives a moved tip and a rule one type: only the tip tells them apart.
            tip = await state.engine.github.branch_tip(queue.repository, queue.base_branch)
            if await _has_landed(state, run, tip):
                return False
            if tip is not None and tip.sha != memory.base_tip:
                await give_back(state, run, base_moved_to=tip.sha)
                return None
            if isinstance(refused, Forbidden):
                await _not_permitted(state, run, refused.message)
                return None
            refusal = refused.message
            continue
        return len(updates) > 1
    await _refused(state, run, refusal or "")
    return None


async def _not_permitted(state: TrainState, run: CandidateRun, message: str) -> None:
    """Switch trains off, since IMQ lacks a permission: merges need the same one."""
    await give_back(state, run)
    await state.load()
    await state.switch_off(Reason.CANDIDATES_REFUSED, message)


async def _refused(state: TrainState, run: CandidateRun, refusal: str) -> None:
    """Land by merges from now on, since IMQ may not move the base; where heads must contain the tip, not in trains.

    If GitHub only misses checks, the run waits before: reads show a check that passed a moment sooner, or somebody runs
    one again. It misses those for good that count from the members' heads. A candidate without checks of its own is
    built and tested again first.
    """
    github, queue = state.engine.github, state.queue
    rules = await github.branch_rules(queue.repository, queue.base_branch)
    passes = not pull_request_checks_of(state, run, rules) & rules.required_checks
    if passes and may_count_later(run, refusal) and (waiting := waits_on(state, run, REPLICAS)) is not None:
        await give_back(state, waiting)
        return
    await give_back(state, run)
    _log.warning("base_not_moved", repository=state.queue.repository.full_name, message=refusal)
    if run.published_at is None and rules.required_checks:
        # Only its tree passed, on another commit: GitHub may miss the checks of this one, so IMQ has it tested.
        await state.load()
        key = await key_of(state, run)
        results = {each: good for each, good in state.memory.results.items() if each != key}
        memory = cancelled(replace(state.memory, results=results), run.id)
        await state.end(state.find(run.id or 0), memory, why="commit_untested")
    elif await github.refuses_outdated(queue.repository, queue.base_branch):
        await state.load()
        await state.switch_off(Reason.CANDIDATE_LANDING_REFUSED, refusal)
    else:
        await state.load()
        await state.remember(replace(state.memory, by_api=refusal))


async def _land_members(state: TrainState, run: CandidateRun, *, cleaned: bool) -> None:
    """Take the members out of the queue, one transaction each, then end the run."""
    tip = state.memory.base_tip
    landing, reported = waiting(run, state.entries), False
    for member in landing:
        async with state.engine.store.reading() as tx:
            entry = await tx.entries.get(member.entry_id)
        if entry is None:
            continue
        reported = reported or entry.needs_refetch
        assert member.commit is not None
        assert member.tree is not None
        index = run.members.index(member)
        before = run.members[index - 1].commit if index else run.base_tip
        commit = Commit(member.commit, member.tree, (before or tip or "", member.head))
        test = replace(entry.run, candidate_run=run.id, tested_tree=member.tree, base_tip=before or tip)
        tested = replace(entry, run=test)
        await land(state.engine, state.queue, tested, commit, state.policy)
    await finish(state, run, run.candidate or "", moved=True, cleaned=cleaned, reported=reported)
