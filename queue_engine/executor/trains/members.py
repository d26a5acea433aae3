"""Give entries the statuses that their runs have: checking while a run is built or tested, ready once it passed."""

from dataclasses import replace
from datetime import datetime

from queue_engine.domain.candidate_run import CandidateMember, CandidateRun, CandidateState
from queue_engine.domain.model import PROCESSING, Entry, EntryStatus
from queue_engine.executor.save import CheckResults, EntryChange
from queue_engine.executor.trains.state import TrainState
from queue_engine.rules.transitions import enter, preempted

_PREFERRED = (CandidateState.LANDING, CandidateState.PASSED, CandidateState.TESTING, CandidateState.BUILDING)
_PASSED = frozenset({CandidateState.LANDING, CandidateState.PASSED})


async def follow_runs(state: TrainState, *, sequential: bool = False) -> bool:
    """Store one change of each entry that its runs do not agree with; whether any changed.

    With `sequential`, IMQ tests one entry after the other: an entry that was in no run keeps its status.
    """
    changed = False
    for entry in state.entries:
        if sequential and entry.run.candidate_run is None:
            continue
        step = following(entry, state.runs, state.now)
        if step != entry:
            ended = max((each.ended for each in step.run.timings if each.ended is not None), default=None)
            published = step.run.candidate is not None and step.run.candidate != entry.run.candidate
            announce = published or step.run.pending_checks != entry.run.pending_checks
            how = EntryChange(announce, CheckResults(ended=ended))
            await state.updates.save(entry, step, depth=state.depth, how=how)
            changed = True
    return changed


def following(entry: Entry, runs: tuple[CandidateRun, ...], now: datetime) -> Entry:
    """Return the entry as its most advanced run wants it, or one step nearer to that; the same if nothing changes."""
    found = _of(entry, runs)
    if found is None:
        is_member = entry.run.candidate_run is not None or entry.status in PROCESSING
        return preempted(entry, now) if is_member else entry
    run, member = found
    wanted = EntryStatus.READY if run.state in _PASSED else EntryStatus.CHECKING
    if entry.status is EntryStatus.PENDING:
        wanted = EntryStatus.CHECKING
    moved = entry if entry.status is wanted else enter(entry, wanted, now)
    base = run.base_tip
    for each in run.members:
        if each.number == member.number:
            break
        base = each.landed_sha or each.commit or base
    return replace(
        moved,
        run=replace(
            moved.run,
            started_at=moved.run.started_at or run.started_at,
            candidate_run=run.id,
            candidate=run.candidate,
            base_tip=base,
            tested_tree=member.tree,
            pending_checks=run.test.pending_checks if wanted is EntryStatus.CHECKING else (),
            completed_checks=run.test.completed_checks if wanted is EntryStatus.CHECKING else (),
            timings=run.test.timings,
            reruns=run.test.reruns,
            rerun_checks=run.test.rerun_checks,
        ),
    )


def _of(entry: Entry, runs: tuple[CandidateRun, ...]) -> tuple[CandidateRun, CandidateMember] | None:
    """Return the most advanced run with this entry as a member."""
    found = [
        (run, member)
        for run in runs
        for member in run.members
        if (member.entry_id, member.head) == (entry.id, entry.head) and member.landed_sha is None
    ]
    if not found:
        return None
    return min(
        found, key=lambda each: (_PREFERRED.index(each[0].state), entry.number not in each[0].tested, each[0].id)
    )
