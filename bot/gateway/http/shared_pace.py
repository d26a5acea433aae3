"""Share the pace of one installation between all processes on one database.

Each process decides by the windows of `pacing`, filled with what all of them have reserved, in a transaction that one
process at a time is in. Calls that create content are reserved one by one, as they are few. Points are reserved ahead,
as many as were used within the last second, so that a busy process asks the database once for many calls; but one by
one, too, once half of a window is used up.

A reservation of points lasts two seconds, so that a killed process takes few along. Reads leave a part of the points
to updates and merges, which need five at once. A pause that GitHub asks one process for holds all. `imq run` on
SQLite is alone, and reserves nothing.
"""

import asyncio
from collections import defaultdict, deque
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from bot.gateway.http.client import Call
from bot.gateway.http.pacing import Pacing, content_of, points_kind, points_of
from queue_engine.core.concurrency.request_context import RequestPriority
from queue_engine.store import Store
from queue_engine.store.operations.rate_limits import VALID

_MOST_AHEAD = 20
"""Points that are reserved ahead at most: what a process that is killed has reserved is missing for a minute."""

_LATELY = timedelta(seconds=1)
"""The time whose use is reserved ahead: a process that is killed takes what it would have used in as long."""

_AT_WORK = timedelta(seconds=15)
"""A process that has reserved something within this time counts among those that share the slots."""

_APP = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """When to come back with the call (None: send it now), until when all processes pause, and how many these are."""

    wait: timedelta | None
    paused_until: datetime | None = None
    processes: int | None = None


@dataclass(slots=True)
class _Ahead:
    """Points reserved ahead: what is left of each reservation, and what was used lately; each with its instant."""

    left: deque[tuple[datetime, int]] = field(default_factory=deque)
    used: deque[tuple[datetime, int]] = field(default_factory=deque)

    def take(self, cost: int, now: datetime) -> bool:
        """Use what is left for a call that costs so much; False, and nothing is used, where that is too little."""
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
        """How much to reserve ahead with a call that costs so much: what was used within the last second with it."""
        self.used = deque((at, points) for at, points in self.used if at <= now < at + _LATELY)
        return min(_MOST_AHEAD, cost + sum(points for _, points in self.used))


class SharedPace:
    """Reserves in the database what this process sends."""

    def __init__(self, store: Store, owner: str) -> None:
        """`owner` names this process."""
        self._store = store
        self._owner = owner
        self._ahead: defaultdict[tuple[int | None, RequestPriority, str], _Ahead] = defaultdict(_Ahead)
        self._turns: defaultdict[int | None, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def admit(
        self, installation_id: int | None, call: Call, priority: RequestPriority, now: datetime, pacing: Pacing
    ) -> Answer:
        """Reserve what the call costs, or say when to come back. Raises what the database raises."""
        ahead = self._ahead[installation_id, priority, points_kind(call)]
        async with self._turns[installation_id]:
            if content_of(call) is not None or not ahead.take(points_of(call), now):
                answer = await self._reserve(installation_id, call, priority, now, pacing)
            else:
                answer = Answer(None)
            if answer.wait is None:
                ahead.used.append((now, points_of(call)))
            return answer

    async def pause(self, installation_id: int | None, until: datetime) -> None:
        """Tell all processes that GitHub asked for a pause."""
        async with self._store.transaction() as tx:
            await tx.pace.pause(installation_id or _APP, until)

    async def _reserve(
        self, installation_id: int | None, call: Call, priority: RequestPriority, now: datetime, pacing: Pacing
    ) -> Answer:
        kind, points, cost = content_of(call), points_kind(call), points_of(call)
        ahead = self._ahead[installation_id, priority, points]
        async with self._store.transaction() as tx:
            shared = await tx.pace.lock(installation_id or _APP, now)
            pacing.fill((each.kind, each.at, each.amount) for each in shared.reservations)
            owners = len({self._owner, *(each.owner for each in shared.reservations if now - each.at < _AT_WORK)})
            if shared.paused_until is not None and shared.paused_until > now:
                return Answer(shared.paused_until - now, shared.paused_until, owners)
            if (wait := pacing.admit(call, priority, now)) is not None:
                return Answer(wait, None, owners)
            found = 0 if kind is not None else pacing.reserve_points(points, ahead.wanted(cost, now), now)
            content = [] if kind is None else [(kind, 1)]
            await tx.pace.reserve(installation_id or _APP, self._owner, [*content, (points, cost + found)], now)
        if found:
            ahead.left.append((now, found))
        return Answer(None, None, owners)
