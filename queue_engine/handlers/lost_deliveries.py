"""Have GitHub redeliver the deliveries that failed since the last sweep, a few a minute.

GitHub never sends one twice by itself. A delivery that was lost has no successful attempt; one that never reached IMQ
may have no status code, so attempts are judged by their status ("Handling failed webhook deliveries" in GitHub's
documentation). Successful attempts are in the list too: what IMQ answered and ignored is known by them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import structlog

from queue_engine.core.concurrency.request_context import RequestPriority, working
from queue_engine.core.jobs.idempotency import KEPT
from queue_engine.core.jobs.job_store import Job
from queue_engine.domain.errors import naming
from queue_engine.domain.facts import Delivery
from queue_engine.effects.context import Change, Engine

_log = structlog.get_logger("imq.lost_deliveries")

DELIVERIES_JOB = "sweep_deliveries"
"""Kind of the job that looks for lost deliveries and has them sent again."""

DELIVERIES = "webhook"
"""Scope of the idempotency keys of deliveries: a redelivery keeps its id, and does nothing."""

REDELIVERIES = "redelivery"
"""Scope of the keys of what was asked for again: each delivery a few times, whichever process asks."""

_REQUESTED = "deliveries_wished"
"""When a look was last wished for while another one went on from minute to minute."""

PAGES_A_MINUTE = 10
PER_MINUTE = 30
_TIMES = 3
_MINUTE = timedelta(minutes=1)

Matters = Callable[[str, str | None], bool]
"""Whether a delivery of this event and action can mean anything to a queue."""


@dataclass
class Progress:
    """How far a look has come, as the request of the job that carries it on."""

    since: datetime
    begun: datetime
    cursor: str | None = None
    listed: bool = False
    lost: dict[str, tuple[int, bool]] = field(default_factory=dict)
    """The number to ask by, under the GUID, and whether it is about a pull request: those are asked for first."""
    settled: set[str] = field(default_factory=set)
    """GUIDs of which a later attempt succeeded; the earlier one is on a page to come."""

    def note(self, delivery: Delivery, matters: Matters) -> None:
        """Take in one attempt; attempts come newest first."""
        if delivery.succeeded:
            self.lost.pop(delivery.guid, None)
            if delivery.redelivery:
                self.settled.add(delivery.guid)
        elif delivery.guid not in self.settled and matters(delivery.event, delivery.action):
            self.lost.setdefault(delivery.guid, (delivery.id, delivery.event == "pull_request"))

    def next(self) -> list[str]:
        """The GUIDs to ask for in this minute: pull requests first, the oldest first."""
        return sorted(self.lost, key=lambda guid: (not self.lost[guid][1], self.lost[guid][0]))[:PER_MINUTE]

    def request(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "since": self.since.isoformat(),
            "begun": self.begun.isoformat(),
            "cursor": self.cursor,
            "listed": self.listed,
            "lost": {guid: list(each) for guid, each in self.lost.items()},
            "settled": sorted(self.settled),
        }

    @classmethod
    def of(cls, request: dict[str, Any]) -> "Progress":
        """What `request` wrote."""
        return cls(
            since=datetime.fromisoformat(request["since"]),
            begun=datetime.fromisoformat(request["begun"]),
            cursor=request["cursor"],
            listed=request["listed"],
            lost={guid: (number, first) for guid, (number, first) in request["lost"].items()},
            settled=set(request["settled"]),
        )


class LostDeliveries:
    """Looks for lost deliveries, from the last look that came to its end on."""

    def __init__(
        self, engine: Engine, *, first: timedelta, apart: timedelta, matters: Matters = lambda event, action: True
    ) -> None:
        """`first` is how far back the first look of all goes; looks begin at least `apart`."""
        self._engine = engine
        self._first = first
        self._apart = apart
        self._matters = matters

    async def request(self) -> None:
        """Store the wish for a look, unless one goes on from minute to minute: that one has another follow it."""
        async with self._engine.change() as change:
            await change.tx.dead_letters.discard_all(DELIVERIES_JOB)
            if await _is_under_way(change):
                await change.tx.sweeps.done(_REQUESTED, change.now)
            else:
                await self._enqueue(change)

    async def sweep(self, job: Job) -> None:
        """Do what a minute allows: list, then ask again; the rest is a job of the next minute. Raises GitHubError."""
        if not job.request:
            async with self._engine.change() as change:
                if await _is_under_way(change):
                    await change.tx.sweeps.done(_REQUESTED, change.now)
                    return
        progress = Progress.of(dict(job.request)) if job.request else await self._begin()
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
            await change.tx.jobs.enqueue(
                kind=DELIVERIES_JOB,
                request=progress.request(),
                process_id=DELIVERIES_JOB,
                now=change.now,
                not_before=change.now + _MINUTE,
                priority=-1,
            )

    async def _enqueue(self, change: Change) -> None:
        begins = await change.tx.sweeps.soonest(DELIVERIES_JOB, change.now, apart=self._apart)
        await change.tx.jobs.enqueue_once(
            kind=DELIVERIES_JOB,
            request={},
            process_id=DELIVERIES_JOB,
            now=change.now,
            not_before=begins,
            priority=-1,
        )

    async def _begin(self) -> Progress:
        """From the last look on that came to its end, as far back as GitHub keeps deliveries."""
        now = self._engine.clock.now()
        async with self._engine.store.reading() as tx:
            last = await tx.sweeps.last(DELIVERIES_JOB)
        # A delivery is listed when it has been tried: one on its way at the last look may be older than that look.
        since = now - self._first if last is None else last - _MINUTE
        return Progress(since=max(since, now - KEPT), begun=now)

    async def _list(self, progress: Progress) -> None:
        for _ in range(PAGES_A_MINUTE):
            deliveries, progress.cursor = await self._engine.github.deliveries(progress.cursor)
            for delivery in deliveries:
                if delivery.at >= progress.since:
                    progress.note(delivery, self._matters)
            if progress.cursor is None or not deliveries or deliveries[-1].at < progress.since:
                progress.listed = True
                return

    async def _redeliver(self, progress: Progress) -> None:
        asked = 0
        for guid in progress.next():
            number, _ = progress.lost[guid]
            if await self._may_ask(guid):
                await self._engine.github.redeliver(number)
                asked += 1
            del progress.lost[guid]
        if asked:
            _log.warning("lost_deliveries_sent_again", count=asked)

    async def _may_ask(self, guid: str) -> bool:
        """Note that it is asked for; False if it arrived after all, or fails each time because it is refused."""
        async with self._engine.change() as change:
            if await change.tx.keys.known(DELIVERIES, guid, change.now):
                return False
            for times in range(_TIMES):
                again = [(f"{guid}:{times}", DELIVERIES_JOB)]
                if await change.tx.keys.record(REDELIVERIES, again, change.now, status=202):
                    return True
        return False


async def _is_under_way(change: Change) -> bool:
    """Whether a look waits for its next minute, or is in it."""
    return any(job.request for job in await change.tx.jobs.unfinished(DELIVERIES_JOB))
