"""Have GitHub redeliver the deliveries that failed since the last sweep, a few a minute.

GitHub never retries a delivery by itself. A lost delivery has no successful attempt. An attempt that never reached IMQ
may have no status code, so IMQ judges attempts by their status ("Handling failed webhook deliveries" in GitHub's
documentation). The list has successful attempts, too: they show which deliveries IMQ answered and ignored.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog

from queue_engine.core.concurrency.request_context import RequestPriority, working
from queue_engine.core.jobs.idempotency import KEPT
from queue_engine.core.jobs.job import Job
from queue_engine.core.read_model import adapter
from queue_engine.domain.errors import GitHubError, RateLimitError, Refused, Unavailable, naming
from queue_engine.domain.facts import Delivery
from queue_engine.effects.context import Change, Engine

_log = structlog.get_logger("imq.lost_deliveries")

DELIVERIES_JOB = "sweep_deliveries"
"""Kind of the job that finds lost deliveries and has GitHub redeliver them."""

DELIVERIES = "webhook"
"""Scope of the idempotency keys of deliveries: a redelivery has the same id, and is stored once."""

REDELIVERIES = "redelivery"
"""Scope of the keys of redelivery requests: all processes together request each delivery a few times."""

_REQUESTED = "deliveries_wished"
"""Name under which the store keeps when a sweep was last requested while another one was under way."""

PAGES_A_MINUTE = 10
PER_MINUTE = 30
_TIMES = 6
"""How often IMQ has GitHub redeliver one delivery, a sweep apart: for an hour by the default, in which no web process
may receive."""
_FAILURES = 3
"""So many failed requests end the requests of a minute."""
_MINUTE = timedelta(minutes=1)

Matters = Callable[[str, str | None], bool]
"""Returns whether a delivery of this event and action can concern a queue."""


@dataclass
class Progress:
    """The progress of a sweep, stored as the request of the job that continues it."""

    since: datetime
    begun: datetime
    cursor: str | None = None
    listed: bool = False
    lost: dict[str, tuple[int, bool]] = field(default_factory=dict)
    """By GUID, the id of the attempt to redeliver, and whether the event is of a pull request: those come first."""
    settled: set[str] = field(default_factory=set)
    """GUIDs whose later attempt succeeded; the failed attempt may be on a later page."""

    def add(self, delivery: Delivery, matters: Matters) -> None:
        """Add one attempt; attempts come newest first."""
        if delivery.succeeded:
            self.lost.pop(delivery.guid, None)
            if delivery.redelivery:
                self.settled.add(delivery.guid)
        elif delivery.guid not in self.settled and matters(delivery.event, delivery.action):
            self.lost.setdefault(delivery.guid, (delivery.id, delivery.event == "pull_request"))

    def next(self) -> list[str]:
        """Return the GUIDs to redeliver in this minute: events of pull requests first, then the oldest."""
        return sorted(self.lost, key=lambda guid: (not self.lost[guid][1], self.lost[guid][0]))[:PER_MINUTE]


class LostDeliveries:
    """Finds lost deliveries since the last completed sweep, and has GitHub redeliver them."""

    def __init__(
        self, engine: Engine, *, first: timedelta, apart: timedelta, matters: Matters = lambda event, action: True
    ) -> None:
        """`first` is how far back the first sweep goes; sweeps begin at least `apart`."""
        self._engine = engine
        self._first = first
        self._apart = apart
        self._matters = matters

    async def request(self) -> None:
        """Enqueue a sweep; if one is under way, another follows it."""
        async with self._engine.change() as change:
            await change.tx.dead_letters.discard_all(DELIVERIES_JOB)
            if await _is_under_way(change):
                await change.tx.sweeps.done(_REQUESTED, change.now)
            else:
                await self._enqueue(change)

    async def sweep(self, job: Job) -> None:
        """List deliveries, then request redeliveries, within the limits of a minute; the next minute's job continues.

        Raises GitHubError.
        """
        if not job.request:
            async with self._engine.change() as change:
                if await _is_under_way(change):
                    await change.tx.sweeps.done(_REQUESTED, change.now)
                    return
        progress = adapter(Progress).validate_python(job.request) if job.request else await self._begin()
        with working(RequestPriority.BACKGROUND), naming("the list of deliveries"):
            if not progress.listed:
                await self._list(progress)
            if progress.listed:
                await self._redeliver(progress)
        async with self._engine.change() as change:
            if progress.listed and not progress.lost:
                await change.tx.sweeps.done(DELIVERIES_JOB, progress.begun)
                requested = await change.tx.sweeps.last(_REQUESTED)
                if job.request and requested is not None and requested >= progress.begun:
                    await self._enqueue(change)
                return
            stored = adapter(Progress).dump_python(progress, mode="json")
            await change.enqueue(DELIVERIES_JOB, stored, at=change.now + _MINUTE, priority=-1)

    async def _enqueue(self, change: Change) -> None:
        begins = await change.tx.sweeps.soonest(DELIVERIES_JOB, change.now, apart=self._apart)
        await change.enqueue(DELIVERIES_JOB, {}, at=begins, priority=-1, once=True)

    async def _begin(self) -> Progress:
        """Begin at the last completed sweep, but not before the oldest delivery that GitHub keeps."""
        now = self._engine.clock.now()
        last = await self._engine.store.read(lambda tx: tx.sweeps.last(DELIVERIES_JOB))
        # GitHub lists a delivery after its attempt: one under way during the last sweep may be older than that sweep.
        since = now - self._first if last is None else last - _MINUTE
        return Progress(since=max(since, now - KEPT), begun=now)

    async def _list(self, progress: Progress) -> None:
        for _ in range(PAGES_A_MINUTE):
            deliveries, progress.cursor = await self._engine.github.deliveries(progress.cursor)
            for delivery in deliveries:
                if delivery.at >= progress.since:
                    progress.add(delivery, self._matters)
            if progress.cursor is None or not deliveries or deliveries[-1].at < progress.since:
                progress.listed = True
                return

    async def _redeliver(self, progress: Progress) -> None:
        """Request redeliveries, past ones that fail; after several the job's next try continues. Raises GitHubError."""
        asked, failed = 0, list[GitHubError]()
        for guid in progress.next():
            number, _ = progress.lost[guid]
            if (recorded := await self._may_ask(guid)) is not None:
                try:
                    await self._engine.github.redeliver(number)
                except (RateLimitError, Unavailable) as error:
                    if isinstance(error, Refused):
                        raise
                    async with self._engine.change() as change:
                        await change.tx.keys.forget(REDELIVERIES, recorded)
                    failed.append(error)
                    if isinstance(error, RateLimitError) or len(failed) == _FAILURES:
                        break
                    continue
                asked += 1
            del progress.lost[guid]
        if asked:
            _log.warning("lost_deliveries_sent_again", count=asked)
        if failed:
            raise failed[0]

    async def _may_ask(self, guid: str) -> str | None:
        """Record the request to redeliver; None if the delivery has arrived, or was requested too often."""
        async with self._engine.change() as change:
            if await change.tx.keys.known(DELIVERIES, guid, change.now):
                return None
            for times in range(_TIMES):
                key = f"{guid}:{times}"
                if await change.tx.keys.record(REDELIVERIES, [(key, DELIVERIES_JOB)], change.now):
                    return key
        return None


async def _is_under_way(change: Change) -> bool:
    """Whether a sweep is running, or waits for its next minute."""
    return any(job.request for job in await change.tx.jobs.unfinished(DELIVERIES_JOB))
