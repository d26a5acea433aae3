"""The pace of one installation as all processes on one database keep it together.

Each process decides by the windows of `pacing`, filled with what all of them have reserved, in a transaction that one
process at a time is in. Calls that create content are reserved one by one, as they are few. Points are reserved ahead,
twice as many as were used lately, so that a busy process asks the database once for many calls.
"""

import asyncio
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta

from bot.gateway.client import Call
from bot.gateway.pacing import Pacing, content_of, points_of
from queue_engine.core.urgency import Priority
from queue_engine.store import Store
from queue_engine.store.pace import POINTS, VALID

_MOST_AHEAD = 20
"""Points that are reserved ahead at most: what a process that is killed has reserved is missing for a minute."""

_APP = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """When to come back with the call (None: send it now), until when all processes pause, and how many these are."""

    wait: timedelta | None
    paused_until: datetime | None = None
    processes: int | None = None


@dataclass(slots=True)
class _Points:
    """Points reserved ahead at `since`, and how many calls have used since then."""

    since: datetime
    left: int
    used: int = 0

    def fresh(self, now: datetime) -> bool:
        return self.since <= now < self.since + VALID


class SharedPace:
    """Reserves in the database what this process sends."""

    def __init__(self, store: Store, owner: str) -> None:
        """`owner` names this process."""
        self._store = store
        self._owner = owner
        self._points: dict[tuple[int | None, Priority], _Points] = {}
        self._turns: defaultdict[int | None, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def admit(
        self, installation_id: int | None, call: Call, priority: Priority, now: datetime, pacing: Pacing
    ) -> Answer:
        """Reserve what the call costs, or say when to come back. Raises what the database raises."""
        key = (installation_id, priority)
        async with self._turns[installation_id]:
            if content_of(call) is None and self._take(key, points_of(call), now):
                return Answer(None)
            return await self._reserve(key, call, now, pacing)

    async def pause(self, installation_id: int | None, until: datetime) -> None:
        """Tell all processes that GitHub asked for a pause."""
        async with self._store.transaction() as tx:
            await tx.pace.pause(installation_id or _APP, until)

    def _take(self, key: tuple[int | None, Priority], cost: int, now: datetime) -> bool:
        points = self._points.get(key)
        if points is None or not points.fresh(now):
            return False
        points.used += cost
        if points.left < cost:
            return False
        points.left -= cost
        return True

    async def _reserve(self, key: tuple[int | None, Priority], call: Call, now: datetime, pacing: Pacing) -> Answer:
        installation_id, priority = key
        async with self._store.transaction() as tx:
            shared = await tx.pace.lock(installation_id or _APP, now)
            pacing.fill((each.kind, each.at, each.amount) for each in shared.reservations)
            owners = len({self._owner, *(each.owner for each in shared.reservations if now - each.at < VALID)})
            if shared.paused_until is not None and shared.paused_until > now:
                return Answer(shared.paused_until - now, shared.paused_until, owners)
            if (wait := pacing.admit(call, priority, now)) is not None:
                return Answer(wait, None, owners)
            before = self._points.get(key)
            wanted = 2 * before.used if before is not None and before.fresh(now) else 0
            ahead = pacing.reserve_points(min(wanted, _MOST_AHEAD), priority, now)
            kind, cost = content_of(call), points_of(call)
            content = [] if kind is None else [(kind, 1)]
            await tx.pace.reserve(installation_id or _APP, self._owner, [*content, (POINTS, cost + ahead)], now)
        self._points[key] = _Points(now, ahead)
        return Answer(None, None, owners)
