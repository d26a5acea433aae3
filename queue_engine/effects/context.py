"""The context that all parts of the engine share, which the wiring creates once; and the spans of entries that left."""

from asyncio import Event
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha256
from itertools import pairwise
from typing import Any, TypeVar

from opentelemetry.trace import SpanContext

from queue_engine.core.concurrency.wakeup import Wakeup
from queue_engine.core.jobs.job import JobRequest
from queue_engine.core.observability import trace
from queue_engine.core.observability.progress import Meter, NullMeter, NullNotifier, ProgressEvent, ProgressNotifier
from queue_engine.core.observability.trace import TraceRecord
from queue_engine.core.timing.clock import Clock
from queue_engine.domain.departure import ENDS
from queue_engine.domain.model import WHOLE_QUEUE, Entry, EntryStatus, Queue, TimelineEvent
from queue_engine.domain.port import GitHub
from queue_engine.domain.reasons import Reason
from queue_engine.domain.run import RUN_ENDED, RUN_STARTED
from queue_engine.rules.check_progress import train_figures
from queue_engine.rules.departure_facts import departure_of, job_figures, share_of, train_runs
from queue_engine.rules.job_rates import JobFigures
from queue_engine.rules.policies import Policies
from queue_engine.store import Store, Transaction

T = TypeVar("T")

_BEGINS = frozenset({"queued", "preempted", *EntryStatus}) - ENDS
"""Events that begin a span, which lasts until the next of them, or until the end."""


def spans_of(entry: Entry, events: Sequence[TimelineEvent]) -> list[TraceRecord]:
    """Return the spans of an entry; none if it has no trace, or has not ended.

    `events` are those of its pull request, oldest first. The ids depend on the entry alone.

    The first span is the root of the trace that the delivery of the label began, so that the spans of its jobs, passes
    and requests are below. An entry that a call of the API queued is below the span of that call.
    """
    queued_in = trace.context_of(entry.trace)
    own = [event for event in events if event.entry_id == entry.id]
    end = next((event for event in reversed(own) if event.event in ENDS), None)
    if queued_in is None or end is None:
        return []
    root, parent = _root(entry, queued_in)
    whole = TraceRecord(
        "landing" if end.event == EntryStatus.LANDED else "dequeued",
        root,
        parent,
        entry.enqueued_at,
        max(end.at, entry.enqueued_at),
        _attributes(entry, end),
        error=str(end.reason) if end.event == EntryStatus.FAILED else None,
    )
    begun = [event for event in own if event.event in _BEGINS]
    parts = [
        TraceRecord(event.event, _context(root, f"{entry.id} {event.id}"), root, event.at, max(following.at, event.at))
        for event, following in pairwise([*begun, end])
    ]
    return [whole, *parts]


def _root(entry: Entry, queued_in: SpanContext) -> tuple[SpanContext, SpanContext | None]:
    """Return the context of the entry's span, and of the span above it."""
    delivered = None if entry.delivery is None else trace.root_of(entry.delivery)
    if delivered is not None and delivered.trace_id == queued_in.trace_id:
        return _context(queued_in, span_id=delivered.span_id), None
    return _context(queued_in, entry.id), queued_in


def _context(within: SpanContext, name: str = "", *, span_id: int | None = None) -> SpanContext:
    own = span_id or int.from_bytes(sha256(name.encode()).digest()[:8], "big")
    return SpanContext(within.trace_id, own, is_remote=False, trace_flags=within.trace_flags)


def _attributes(entry: Entry, end: TimelineEvent) -> dict[str, str]:
    """Return which pull request it was, by OpenTelemetry's names (registry of attributes, "VCS"), and its outcome."""
    attributes = {
        "vcs.owner.name": entry.repository.owner,
        "vcs.repository.name": entry.repository.name,
        "vcs.change.id": str(entry.number),
        "vcs.ref.base.name": entry.base_branch,
        "imq.outcome": end.event,
    }
    return attributes if end.reason is None else attributes | {"imq.reason": str(end.reason)}


_RUNS_READ = 200
"""The last starts of runs that are searched for one whose row is gone."""

Publish = Callable[[TimelineEvent], None]
"""Takes the events of a committed transaction, one by one; must not raise."""


EventJobs = Callable[[TimelineEvent, Entry | Queue], Iterable[JobRequest]]
"""Names the jobs that an event of an entry or queue causes, such as messages to sinks. Pure; must not raise."""


SignLanding = Callable[[Transaction, Mapping[str, Any], datetime, bool], Awaitable[tuple[str, tuple[str, ...]]]]
"""Signs the record of a landing; returns the key's id and the signatures of its passport.

It takes the key that signed last, unless it is to read which one signs now.
"""


def no_jobs(event: TimelineEvent, subject: Entry | Queue) -> Iterable[JobRequest]:
    """Name no job."""
    return ()


def _no_subscriber(event: TimelineEvent) -> None:
    """Publish nothing: there is no subscriber."""


@dataclass(slots=True)
class Change:
    """One transaction under way, with the events that are published when it has been committed."""

    tx: Transaction
    now: datetime
    jobs_of: EventJobs = no_jobs
    events: list[TimelineEvent] = field(default_factory=list)
    progress: list[ProgressEvent] = field(default_factory=list)
    sign: SignLanding | None = None
    ended: list[Entry] = field(default_factory=list)

    async def record(
        self,
        event: str,
        subject: Entry | Queue,
        *,
        number: int = WHOLE_QUEUE,
        reason: Reason | None = None,
        delivery: str | None = None,
        data: Mapping[str, Any] | None = None,
    ) -> None:
        """Append an event of an entry or of a queue to the timeline, to be published after the commit.

        The jobs that the event causes are stored with it (P2).
        `number` names a pull request that has no entry in the queue.
        """
        entry = subject if isinstance(subject, Entry) else None
        happened = TimelineEvent(
            at=self.now,
            event=event,
            repository_id=subject.repository.id,
            base_branch=subject.base_branch,
            number=number if entry is None else entry.number,
            entry_id=None if entry is None else entry.id,
            reason=reason,
            delivery=delivery,
            data=data or {},
        )
        stored = await self.tx.timeline.append(happened)
        self.events.append(stored)
        for caused in self.jobs_of(stored, subject):
            await self.tx.jobs.enqueue_request(caused, self.now)
        if entry is not None and event in ENDS:
            self.ended.append(entry)
            await _record_departure(self.tx, stored, entry)

    async def enqueue(
        self,
        kind: str,
        request: Mapping[str, Any],
        *process: object,
        at: datetime | None = None,
        priority: int = 0,
        once: bool = False,
    ) -> None:
        """Store a job of the process that its kind and `process` name, due now or at this instant.

        `once`: unless the same job waits already, as `Jobs.enqueue` says.
        """
        process_id = ":".join(map(str, (kind, *process)))
        await self.tx.jobs.enqueue(
            kind=kind, request=request, process_id=process_id, now=self.now, not_before=at, priority=priority, once=once
        )

    async def spans(self) -> list[TraceRecord]:
        """Return the spans of the entries that end in this transaction, if anything records them."""
        if not trace.is_recorded():
            return []
        histories = [
            (entry, await self.tx.timeline.of_pull_request(entry.repository.id, entry.number)) for entry in self.ended
        ]
        return [span for entry, events in histories for span in spans_of(entry, events)]


@dataclass(frozen=True, slots=True)
class Engine:
    """The engine's context. `random` returns numbers in [0, 1) for jitter; `owner` names this process in leases."""

    store: Store
    github: GitHub
    clock: Clock
    policies: Policies
    random: Callable[[], float]
    owner: str
    publish: Publish = _no_subscriber
    progress: ProgressNotifier = field(default_factory=NullNotifier)
    """Receives the progress of entries' checks; must not raise."""
    jobs_of: EventJobs = no_jobs
    """Names the jobs that an event causes; IMQ stores them with the event."""
    sign: SignLanding | None = None
    """Signs landings; None: they are recorded without a passport."""
    lease: timedelta = timedelta(seconds=30)
    """How long a dead process can keep a queue or a job; a live process renews its lease each third of this time."""
    wakeup: Wakeup = field(default_factory=Wakeup)
    """Wakes the loops when a queue, a job or an outbox item may be due; each topic is a `WakeupKind`."""
    meter: Meter = field(default_factory=NullMeter)
    checks_of_heads: MutableMapping[tuple[int, str], Mapping[str, bool]] = field(default_factory=dict)
    """Of the queued heads of which IMQ read it: whether each check ran; where runners are scarce."""
    ending: Event = field(default_factory=Event)
    """Set when the process is to end: it then finishes the work under way, and begins none."""

    @asynccontextmanager
    async def change(self) -> AsyncIterator[Change]:
        """Open a transaction; after its commit, publish its events and wake the loops that have work."""
        async with self.store.transaction() as tx:
            change = Change(tx, self.clock.now(), self.jobs_of, sign=self.sign)
            yield change
            spans = await change.spans()
        trace.record(spans)
        for event in change.events:
            _count_outcome(self.meter, event)
            self.publish(event)
        for due in change.tx.due:
            self.wakeup.notify(due)
        for progressed in change.progress:
            await self.progress.on_progress(progressed)

    async def write(self, what: Callable[[Change], Awaitable[T]]) -> T:
        """Make one call that may write, in a `change` of its own; returns its result. Raises StaleRecord."""
        async with self.change() as change:
            return await what(change)


class EngineHandler:
    """What handles events, jobs or calls with the context of the engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine


async def _record_departure(tx: Transaction, end: TimelineEvent, entry: Entry) -> None:
    """Derive the departure from the timeline, and store it."""
    own = await tx.timeline.of_pull_request(end.repository_id, end.number)
    of_queue = await tx.timeline.blockers(end.repository_id, end.base_branch, up_to=end.id)
    others = await tx.departures.left(end.repository_id, end.base_branch, entry.enqueued_at, end.at)
    shares = await _shares(tx, end, own)
    runs = await _jobs_of_runs(tx, end, entry) if shares or entry.run.has_branch else ()
    await tx.departures.put(departure_of(end, own, of_queue, others, entry, shares, runs))


async def _jobs_of_runs(tx: Transaction, end: TimelineEvent, entry: Entry) -> Sequence[tuple[JobFigures, JobFigures]]:
    """Return this entry's part of what the jobs of its runs in trains cost: those that a run tests divide it."""
    number, found = end.number, dict[int, tuple[JobFigures, JobFigures]]()
    for event in await tx.timeline_reads.of_branch(end.repository_id, end.base_branch, [RUN_ENDED], limit=_RUNS_READ):
        if event.at >= entry.enqueued_at and (part := share_of(number, event.data.get("tested") or ())):
            spent, reruns = job_figures(event)
            found[event.data["run"]] = spent.times(part), reruns.times(part)
    for run in await tx.runs.of_queue(entry.queue_id):
        if run.id is not None and run.id not in found and (part := share_of(number, run.tested)):
            spent, reruns = train_figures(run, end.at)
            found[run.id] = spent.times(part), reruns.times(part)
    return [found[each] for each in sorted(found)]


async def _shares(tx: Transaction, end: TimelineEvent, own: Sequence[TimelineEvent]) -> dict[int, float]:
    """Return which part of the CI time of its runs in trains counts for this entry; 0 of a run that is unknown."""
    runs = train_runs([*(event for event in own if event.entry_id == end.entry_id), end])
    shares = dict.fromkeys(runs, 0.0)
    unknown = set[int]()
    for run in runs:
        if (stored := await tx.runs.get(run)) is None:
            unknown.add(run)
        else:
            shares[run] = share_of(end.number, stored.tested)
    if unknown:
        started = await tx.timeline_reads.of_branch(end.repository_id, end.base_branch, [RUN_STARTED], limit=_RUNS_READ)
        known = {event.data["run"]: event.data["tested"] for event in started if event.data.get("run") in unknown}
        shares |= {run: share_of(end.number, tested) for run, tested in known.items()}
    return shares


def _count_outcome(meter: Meter, event: TimelineEvent) -> None:
    """Count the event if it ends an entry: landed or dequeued, and after how long."""
    if event.entry_id is None or event.event not in ENDS:
        return
    if event.event == EntryStatus.LANDED:
        meter.count("landed")
        meter.observe("queue_time", event.data["queue"])
        meter.observe("front_time", event.data["front"])
    else:
        meter.count("dequeued", reason=str(event.reason))
