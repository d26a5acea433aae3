"""Share the pace of one installation between all processes on one database.

Each process decides by the windows of `pacing`, filled with what all of them have reserved, in a transaction that one
process at a time is in. Calls that create content are reserved one by one, as they are few. Points are reserved in
advance, as many as were used within the last second, so that a busy process asks the database once for many calls. Once
half of a window is used up, points are reserved one by one as well.

A reservation of points lasts two seconds, so that a killed process loses few. Reads leave a share of the points
to updates and merges, which need five at once. A pause that GitHub asks one process for pauses all. `imq run` on
SQLite is the only process, and reserves nothing.
"""

import asyncio
from collections import defaultdict, deque
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from bot.gateway.http.client import Call
from bot.gateway.http.pacing import Pacing, content_of, points_kind, points_of
from queue_engine.core.concurrency.request_context import RequestPriority
from queue_engine.store import Store
from queue_engine.store.rate_limits import VALID

_MAX_RESERVED = 20
"""The most points reserved in advance: those of a killed process are missing for a minute."""

_RECENT = timedelta(seconds=1)
"""A process reserves in advance as many points as it used within this time."""

_ACTIVE_FOR = timedelta(seconds=15)
"""A process that has reserved something within this time counts among those that share the slots."""

_APP = 0


@dataclass(frozen=True, slots=True)
class Admission:
    """The wait of a call (None: send it now), the pause of all processes, and their number."""

    wait: timedelta | None
    paused_until: datetime | None = None
    processes: int | None = None


@dataclass(slots=True)
class _Reserved:
    """Points reserved in advance: those left of each reservation, and those used recently; each with its instant."""

    left: deque[tuple[datetime, int]] = field(default_factory=deque)
    used: deque[tuple[datetime, int]] = field(default_factory=deque)

    def take(self, cost: int, now: datetime) -> bool:
        """Use reserved points for a call; return False, and use none, if they are too few."""
        self.left = deque((at, points) for at, points in self.left if at <= now < at + VALID)
        if cost > sum(points for _, points in self.left):
            return False
        while cost:
            at, points = self.left.popleft()
            if points > cost:
                self.left.appendleft((at, points - cost))
            cost -= min(cost, points)
        return True

    def wanted(self, cost: int, now: datetime) -> int:
        """Return how much to reserve in advance with a call of this cost: as much as was used within a second."""
        self.used = deque((at, points) for at, points in self.used if at <= now < at + _RECENT)
        return min(_MAX_RESERVED, cost + sum(points for _, points in self.used))


class SharedPace:
    """Reserves the calls of this process in the database."""

    def __init__(self, store: Store, owner: str) -> None:
        """`owner` names this process."""
        self._store = store
        self._owner = owner
        self._reserved: defaultdict[tuple[int | None, RequestPriority, str], _Reserved] = defaultdict(_Reserved)
        self._locks: defaultdict[int | None, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def admit(
        self, installation_id: int | None, call: Call, priority: RequestPriority, now: datetime, pacing: Pacing
    ) -> Admission:
        """Reserve the cost of a call, or return its wait. Raises errors of the database."""
        reserved = self._reserved[installation_id, priority, points_kind(call)]
        async with self._locks[installation_id]:
            if content_of(call) is not None or not reserved.take(points_of(call), now):
                answer = await self._reserve(installation_id, call, priority, now, pacing)
            else:
                answer = Admission(None)
            if answer.wait is None:
                reserved.used.append((now, points_of(call)))
            return answer

    async def pause(self, installation_id: int | None, until: datetime) -> None:
        """Share a pause that GitHub asked for with all processes."""
        async with self._store.transaction() as tx:
            await tx.pace.pause(installation_id or _APP, until)

    async def _reserve(
        self, installation_id: int | None, call: Call, priority: RequestPriority, now: datetime, pacing: Pacing
    ) -> Admission:
        kind, points, cost = content_of(call), points_kind(call), points_of(call)
        reserved = self._reserved[installation_id, priority, points]
        async with self._store.transaction() as tx:
            shared = await tx.pace.lock(installation_id or _APP, now)
            pacing.fill((each.kind, each.at, each.amount) for each in shared.reservations)
            owners = len({self._owner, *(each.owner for each in shared.reservations if now - each.at < _ACTIVE_FOR)})
            if shared.paused_until is not None and shared.paused_until > now:
                return Admission(shared.paused_until - now, shared.paused_until, owners)
            if (wait := pacing.admit(call, priority, now)) is not None:
                return Admission(wait, None, owners)
            found = 0 if kind is not None else pacing.reserve_points(points, reserved.wanted(cost, now), now)
            content = [] if kind is None else [(kind, 1)]
            await tx.pace.reserve(installation_id or _APP, self._owner, [*content, (points, cost + found)], now)
        if found:
            reserved.left.append((now, found))
        return Admission(None, None, owners)
