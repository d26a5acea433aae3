"""Land the members of a run by GitHub's merge calls, in order, each by the steps of any other entry.

Before each merge the member is read and judged again, and its intent alone is stored; after it the landed tree is
compared with the tree that the run has after that member. Between the first merge and the last the base has trees that
no run tested by itself, so nothing else lands then. A landing that stops in between has its tip tested first.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

import structlog

from queue_engine.domain.candidate_run import CandidateMember, CandidateRun, CandidateState
from queue_engine.domain.model import Entry, RedBase
from queue_engine.domain.reasons import Reason
from queue_engine.effects.context import Change
from queue_engine.executor.entry_trace import entry_trace
from queue_engine.executor.trains.lost_merges import schedule_close
from queue_engine.executor.trains.members import follow_runs
from queue_engine.executor.trains.state import TrainState
from queue_engine.known.own_merges import record_merge_request
from queue_engine.planner.trains.members import base_moved
from queue_engine.planner.trains.outcomes import landed
from queue_engine.rules.blockers import blockers_of, is_blocked

_log = structlog.get_logger("imq.trains")

_STEPS = 1000
"""More steps than the largest train needs."""


async def merge_members(state: TrainState, run: CandidateRun) -> datetime | None:
    """Merge the members that have not landed; returns when to try again, None once that ended, one way or another.

    Raises GitHubError, and StaleRecord if a member changed since it was read.
    """
    steps = state.steps()
    for _ in range(_STEPS):
        await state.load()
        run = state.find(run.id or 0)
        if state.queue.pause(Reason.TREE_MISMATCH) is not None:
            await state.end(run, base_moved(state.memory, _tip(state, run)), why="tree_mismatch")
            return None
        left = [each for each in run.members if each.landed_sha is None]
        if not left:
            await finish(state, run, _tip(state, run))
            return None
        if not state.held() or state.queue.generation != state.generation:
            return state.now
        entry = state.entry_of(left[0])
        if (why := _obstacle(state, entry, left)) is not None:
            await stop_landing(state, run, why)
            return None
        assert entry is not None
        if not _has_begun(state, run, entry):
            await give_back(state, run)
            return None
        entry = _as_tested(state, run, left[0], entry)
        if _tip(state, run) == state.memory.base_tip and (read := state.verified.pop((entry.id, entry.version), None)):
            steps.know(entry, read)
        with entry_trace(entry):
            due = await steps.step(entry)
        if (stopped := steps.stopped) is not None:
            await stop_landing(state, run, stopped.detail, tip=stopped.tip, refused=stopped.tip is None)
            return None
        if due is not None:
            return due
    return state.now


def _obstacle(state: TrainState, entry: Entry | None, left: Sequence[CandidateMember]) -> str | None:
    """Return why this member, the first of those that have not landed, may not be merged now; None if it may.

    A merge that was requested is followed to its end, whatever stops the landing.
    """
    if entry is not None and entry.run.merge_requested_at is not None:
        return None
    gone = [each.number for each in left if state.entry_of(each) is None]
    if gone or entry is None:
        return f"#{gone[0]} left"
    if is_blocked(entry, state.now):
        return f"#{entry.number} waits for a permission"
    blockers = blockers_of(state.queue, state.policy, state.now)
    return next((each.reason.value.replace("_", " ") for each in blockers if not each.exempts(entry)), None)


def _has_begun(state: TrainState, run: CandidateRun, entry: Entry) -> bool:
    """Whether the landing continues: of one that another pass began, nothing may have been requested so far.

    Then all members, and the checks, are verified again before anything lands.
    """
    landed_any = any(each.landed_sha is not None for each in run.members)
    return landed_any or run.id in state.landing or entry.run.merge_requested_at is not None


def _as_tested(state: TrainState, run: CandidateRun, member: CandidateMember, entry: Entry) -> Entry:
    """Return the member's entry with the tree that its run has after it, and the commit that the base is at."""
    test = replace(entry.run, candidate_run=run.id, tested_tree=member.tree)
    if entry.run.merge_requested_at is None:
        test = replace(test, base_tip=_tip(state, run))
    return replace(entry, run=test)


def _tip(state: TrainState, run: CandidateRun) -> str:
    """Return the base's tip as this landing left it."""
    done = [each.landed_sha for each in run.members if each.landed_sha is not None]
    return done[-1] if done else state.memory.base_tip or ""


async def finish(
    state: TrainState,
    run: CandidateRun,
    tip: str,
    *,
    moved: bool = False,
    cleaned: bool = False,
    reported: bool = False,
) -> None:
    """Store that all members landed, and end the run.

    `moved`: by one move of the base; `reported`: webhooks said that some of them changed meanwhile.
    """
    await state.load()
    run = next((each for each in state.runs if each.id == run.id), run)
    planned = next((each for each in state.memory.trains.passed if each.id == run.id), None)
    memory = state.memory
    if planned is not None:
        memory = landed(memory, planned, tip, [each.landed_sha or each.commit or "" for each in run.members])
    async with state.engine.change() as change:
        await state.end_within(change, run, memory, why="landed", kept=not cleaned)
        if moved:
            await schedule_close(
                change, run, [(each, each.commit) for each in run.members if each.commit], reported=reported
            )


async def give_back(state: TrainState, run: CandidateRun, *, base_moved_to: str | None = None) -> None:
    """Return a run to those that passed, since nothing of it has landed."""
    async with state.engine.change() as change:
        await _forget_requests(change, run.members)
        await change.tx.candidate_runs.save(replace(run, state=CandidateState.PASSED))
        if base_moved_to is not None:
            await state.keep(change, base_moved(state.memory, base_moved_to))


async def _forget_requests(change: Change, members: Sequence[CandidateMember]) -> None:
    """Forget the merge requests of the members that have not landed."""
    for member in members:
        entry = await change.tx.entries.get(member.entry_id) if member.landed_sha is None else None
        if entry is not None and entry.run.merge_requested_at is not None:
            await change.tx.entries.save(replace(entry, run=replace(entry.run, merge_requested_at=None)))
            await record_merge_request(change.tx, entry, None, change.now)


async def stop_landing(
    state: TrainState, run: CandidateRun, why: str, *, tip: str | None = None, refused: bool = False
) -> None:
    """Stop a landing. If members have landed, the tip is tested before anything else.

    `tip` is the base's tip, if somebody else moved the base. `refused`: GitHub would refuse the next train, too.
    """
    await state.load()
    done = sum(each.landed_sha is not None for each in run.members)
    if not done and not refused:
        await give_back(state, run, base_moved_to=tip)
        return
    tip = tip or _tip(state, run)
    async with state.engine.change() as change:
        await _forget_requests(change, run.members)
        if done:
            await state.end_within(change, state.find(run.id or 0), base_moved(state.memory, tip), why="stopped")
            detail = f"{done} of {len(run.members)} members landed, then IMQ stopped: {why}"
            untested = RedBase(detail, tip, change.now, 0, change.now + state.policy.ask_again.maximum, untested=True)
            await change.tx.red_bases.note(state.queue.id, untested)
    if done:
        # They are shown as waiting before the next pass announces for what.
        await state.load()
        await follow_runs(state)
    else:
        await state.switch_off(Reason.CANDIDATE_LANDING_REFUSED, why)
    _log.warning("landing_stopped", repository=state.queue.repository.full_name, message=why)
