"""Store a departure with the event that ended its entry."""

from collections.abc import Sequence

from queue_engine.domain.candidate_run import RUN_STARTED
from queue_engine.domain.model import Entry
from queue_engine.domain.timeline_event import TimelineEvent
from queue_engine.rules.departures import departure_of, share_of, train_runs
from queue_engine.store import Transaction

_RUNS_READ = 200


async def record_departure(tx: Transaction, end: TimelineEvent, entry: Entry) -> None:
    """Derive the departure from the timeline, and store it."""
    own = await tx.timeline.of_pull_request(end.repository_id, end.number)
    of_queue = await tx.timeline.blockers(end.repository_id, end.base_branch, up_to=end.id)
    others = await tx.departures.left(end.repository_id, end.base_branch, entry.enqueued_at, end.at)
    shares = await _shares(tx, end, own)
    await tx.departures.put(departure_of(end, own, of_queue, others, entry, shares))


async def _shares(tx: Transaction, end: TimelineEvent, own: Sequence[TimelineEvent]) -> dict[int, float]:
    """Return which part of the CI time of its runs in trains counts for this entry; 0 of a run that is unknown."""
    runs = train_runs([*(event for event in own if event.entry_id == end.entry_id), end])
    shares = dict.fromkeys(runs, 0.0)
    unknown = set[int]()
    for run in runs:
        if (stored := await tx.candidate_runs.get(run)) is None:
            unknown.add(run)
        else:
            shares[run] = share_of(end.number, stored.tested)
    if unknown:
        started = await tx.timeline_reads.of_branch(end.repository_id, end.base_branch, [RUN_STARTED], limit=_RUNS_READ)
        known = {event.data["run"]: event.data["tested"] for event in started if event.data.get("run") in unknown}
        shares |= {run: share_of(end.number, tested) for run, tested in known.items()}
    return shares
