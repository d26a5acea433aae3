"""Load the history of a pull request for people: its events in parts, and the tests that these events end."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from queue_engine.domain.departure import ENDS
from queue_engine.domain.model import EntryStatus
from queue_engine.domain.reasons import Reason
from queue_engine.domain.run import RUN_EVENTS
from queue_engine.domain.timeline_event import TimelineEvent
from queue_engine.store import Transaction

SHOWN = 50
"""How many events one part has, without those of trains."""
_RUNS_READ = 200

_BEGIN = EntryStatus.CHECKING.value


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One test of a commit that has ended."""

    commit: str
    began: datetime | None
    """When IMQ began to wait for its checks; None if that is in an earlier part of the history."""
    ended: datetime
    event: str
    """The event that ended the test: `ready`, `failed`, `cancelled`, `updating` or `pending`."""
    reason: Reason | None
    seconds: tuple[tuple[str, float], ...]
    """How long each check took, by name."""
    preempted: bool = False
    """Whether a hotfix ended it."""


@dataclass(frozen=True, slots=True)
class PullRequestHistory:
    """A part of the history of a pull request."""

    events: tuple[TimelineEvent, ...]
    """Newest first."""
    runs: tuple[RunRecord, ...]
    """The tests that ended in this part, newest first."""
    older: int | None
    """The id before which the next part begins; None: this is the last."""


async def load_history(
    tx: Transaction, repository_id: int, number: int, *, before: int | None = None
) -> PullRequestHistory:
    """Load the last events of a pull request before this id."""
    found = await tx.timeline_reads.of_pull_request(repository_id, number, limit=SHOWN + 1, before=before)
    events = found[:SHOWN]
    older = events[-1].id if len(found) > SHOWN else None
    shown = sorted((*events, *await _of_trains(tx, events, before)), key=lambda each: each.id, reverse=True)
    return PullRequestHistory(tuple(shown), runs_of(events), older)


async def _of_trains(tx: Transaction, events: Sequence[TimelineEvent], before: int | None) -> tuple[TimelineEvent, ...]:
    """Load the runs of trains that tested the pull request between these events, or since."""
    if not events:
        return ()
    newest, oldest = events[0], events[-1]
    until = before or (newest.id if newest.event in ENDS else None)
    found = await tx.timeline_reads.of_branch(
        newest.repository_id, newest.base_branch, RUN_EVENTS, limit=_RUNS_READ, before=until, after=oldest.id
    )
    return tuple(each for each in found if newest.number in (each.data.get("members") or ()))


def runs_of(events: Sequence[TimelineEvent]) -> tuple[RunRecord, ...]:
    """Find the tests that these events end, newest first as the events are. Of each commit the newest event counts."""
    runs: dict[str, RunRecord] = {}
    for event in events:
        commit, seconds = event.data.get("tested"), event.data.get("check_seconds")
        if not isinstance(commit, str) or not isinstance(seconds, dict) or commit in runs:
            continue
        known = tuple(sorted((str(name), float(each)) for name, each in seconds.items()))
        preempted = event.data.get("yields_to") is not None
        runs[commit] = RunRecord(commit, _began(events, event), event.at, event.event, event.reason, known, preempted)
    return tuple(runs.values())


def _began(events: Sequence[TimelineEvent], end: TimelineEvent) -> datetime | None:
    """Return when the test began that this event ends; a train tests another commit than the head."""
    before = [e for e in events if e.id < end.id]
    of_head = (e.at for e in before if e.event == _BEGIN and e.data.get("head") == end.data["tested"])
    last = next((e for e in before if e.event == _BEGIN or e.data.get("check_seconds") is not None), None)
    return next(of_head, last.at if last is not None and last.event == _BEGIN else None)
