"""`GET /queue/status`: how busy IMQ is, for programs that are about to send it work.

Anyone may ask how busy IMQ is. Only callers with a token of the API see queues, and only those of repositories
that they may read: names and counts of others are hidden.
"""

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from aiohttp import web

from bot.api.access import Access
from bot.api.auth import identify
from bot.api.errors import errors_as_json
from queue_engine.core.concurrency.slots import SlotsStatus
from queue_engine.effects.context import Engine
from queue_engine.queries.queue_status import QueueView, load_summaries
from queue_engine.store.figures import ProcessReport

_ID = 16

_CACHED_FOR = timedelta(seconds=1)
"""How long a read of the database is cached."""


@dataclass(frozen=True, slots=True)
class _Reading:
    """One read of the database."""

    at: datetime
    queues: tuple[QueueView, ...]
    others: tuple[ProcessReport, ...]


class QueueStatusHandler:
    """Answers for all processes on one database. `slots` returns those of this process."""

    def __init__(self, engine: Engine, access: Access, slots: Callable[[], SlotsStatus], max_depth: int) -> None:
        """`max_depth` is the operator's limit of entries in a queue, 0 for none."""
        self._engine = engine
        self._access = access
        self._max_depth = max_depth
        self._slots = slots
        self._lock = asyncio.Lock()
        self._reading: _Reading | None = None

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer 200; 401 for an invalid token; 503 while the database is down."""
        return await errors_as_json(request, self._answer)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        token = None
        if "Authorization" in request.headers:
            token = await identify(request, self._engine.store, self._engine.clock)
        reading = await self._refresh()
        idle, busy = ([each for each in reading.queues if each.busy is wanted] for wanted in (False, True))
        visible = await self._access.visible(
            token, (each.queue.repository for each in busy), (each.queue.repository for each in idle)
        )
        shown = [each for each in reading.queues if each.queue.repository.id in visible]
        return web.json_response(self._status(reading, shown))

    async def _refresh(self) -> _Reading:
        async with self._lock:
            now, owner = self._engine.clock.now(), self._engine.owner
            if self._reading is None or not timedelta(0) <= now - self._reading.at < _CACHED_FOR:
                async with self._engine.store.reading() as tx:
                    others = tuple(report for report in await tx.processes.all(now) if report.owner != owner)
                    self._reading = _Reading(now, await load_summaries(tx, now), others)
            return self._reading

    def _status(self, reading: _Reading, queues: Sequence[QueueView]) -> dict[str, Any]:
        max_depth = self._max_depth
        slots: list[Mapping[str, Any]] = [asdict(self._slots()), *(report.status for report in reading.others)]
        calls = all(each.get("accepting", True) for each in slots)
        places = not queues or any(each.accepts(max_depth) for each in queues)
        summed = ("rt_queue", "be_queue", "total_slots", "available_slots")
        return {
            **{name: sum(each.get(name, 0) for each in slots) for name in summed},
            "accepting": calls and places,
            "max_queue_depth": max_depth,
            "queues": [_queue(each, max_depth) for each in queues if each.busy],
        }


def _queue(found: QueueView, max_depth: int) -> dict[str, Any]:
    queue = found.queue
    return {
        # Consecutive ids would disclose the number of hidden queues.
        "id": hashlib.sha256(f"{queue.repository.id} {queue.base_branch}".encode()).hexdigest()[:_ID],
        "repository": queue.repository.full_name,
        "base_branch": queue.base_branch,
        "depth": found.depth,
        "held": found.held,
        "not_ready": found.not_ready,
        "accepting": found.accepts(max_depth),
        "blocker": found.blockers[0].reason.value if found.blockers else None,
    }
