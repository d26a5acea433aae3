"""Load what a train means for a member that leaves: with whom it landed and what that saved, or how it failed alone."""

from collections.abc import Collection, Sequence
from datetime import timedelta

from queue_engine.domain.model import Entry
from queue_engine.domain.run import RUN_STARTED, Run
from queue_engine.domain.timeline_event import TimelineEvent
from queue_engine.domain.train_notice import TrainLanding, TrainNotice, TrainProgress
from queue_engine.store import Transaction

_RUNS_READ = 200


async def load_landing(tx: Transaction, entry: Entry) -> TrainLanding | None:
    """Load with whom an entry landed; None if it landed by itself, outside a train."""
    if entry.run.candidate_run is None:
        return None
    run = await tx.runs.get(entry.run.candidate_run)
    if run is None:
        return None
    started = await tx.timeline_reads.of_branch(entry.repository.id, entry.base_branch, [RUN_STARTED], limit=_RUNS_READ)
    return landing_of(run, started)


def landing_of(run: Run, started: Sequence[TimelineEvent]) -> TrainLanding:
    """Return what the landing of a run saved: one CI run for each member, less those that tested any of them."""
    spent = sum(_tested(event, run.numbers) for event in started) or 1
    saved = len(run.numbers) - spent
    seconds = sum(
        (each.ended - each.started).total_seconds()
        for each in run.timings
        if each.started is not None and each.ended is not None
    )
    ci_saved = timedelta(seconds=seconds * saved) if seconds and saved > 0 else None
    return TrainLanding(members=run.numbers, runs_saved=saved, ci_saved=ci_saved)


def _tested(event: TimelineEvent, members: Collection[int]) -> bool:
    tested = event.data.get("tested")
    return isinstance(tested, list) and not set(members).isdisjoint(tested)


async def load_failure(tx: Transaction, entry: Entry) -> TrainNotice | None:
    """Load the run that failed with this entry alone; None if no train tested the entry's head."""
    memory = (await tx.trains.get(entry.queue_id)).memory
    if list(memory.get("heads", {}).get(str(entry.number), ())) != [entry.id, entry.head]:
        return None
    failed = [each for each in memory.get("failed", ()) if entry.number in each["members"]]
    if not failed:
        return None
    smallest = min(reversed(failed), key=lambda each: len(each["members"]))
    return TrainNotice(progress=TrainProgress.FAILED_ALONE, members=(entry.number,), run=smallest["run"])
