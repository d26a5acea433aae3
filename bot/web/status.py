"""`GET /queue/status`: how busy IMQ is, for programs that are about to send it work.

Anybody may ask how busy IMQ is. Queues are told only to callers with a token of the API, and only those of repositories
that they may read: neither a name nor a count tells of others.
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
from queue_engine.store.operations.processes import ProcessReport

_ID = 16

_FRESH = timedelta(seconds=1)
"""How long one look at the database answers everybody."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """One look at the database."""

    at: datetime
    queues: tuple[QueueView, ...]
    others: tuple[ProcessReport, ...]


class QueueStatus:
    """The answer, for all processes on one database. `slots` tells those of this process."""

    def __init__(self, engine: Engine, access: Access, slots: Callable[[], SlotsStatus], most: int) -> None:
        """`most` is the operator's limit of entries in a queue, 0 for none."""
        self._engine = engine
        self._access = access
        self._most = most
        self._slots = slots
        self._turn = asyncio.Lock()
        self._seen: _Seen | None = None

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """200; 401 for a token that is none; 503 while the database is away."""
        return await errors_as_json(request, self._answer)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        token = None
        if "Authorization" in request.headers:
            token = await identify(request, self._engine.store, self._engine.clock)
        seen = await self._look()
        idle, busy = ([each for each in seen.queues if each.busy is wanted] for wanted in (False, True))
        visible = await self._access.visible(
            token, (each.queue.repository for each in busy), (each.queue.repository for each in idle)
        )
        shown = [each for each in seen.queues if each.queue.repository.id in visible]
        return web.json_response(self._status(seen, shown))

    async def _look(self) -> _Seen:
        async with self._turn:
            now, owner = self._engine.clock.now(), self._engine.owner
            if self._seen is None or not timedelta(0) <= now - self._seen.at < _FRESH:
                async with self._engine.store.reading() as tx:
                    others = tuple(report for report in await tx.processes.all(now) if report.owner != owner)
                    self._seen = _Seen(now, await load_summaries(tx, now), others)
            return self._seen

    def _status(self, seen: _Seen, queues: Sequence[QueueView]) -> dict[str, Any]:
        most = self._most
        slots: list[Mapping[str, Any]] = [asdict(self._slots()), *(report.status for report in seen.others)]
        calls = all(each.get("accepting", True) for each in slots)
        places = not queues or any(each.accepts(most) for each in queues)
        summed = ("rt_queue", "be_queue", "total_slots", "available_slots")
        return {
            **{name: sum(each.get(name, 0) for each in slots) for name in summed},
            "accepting": calls and places,
            "max_queue_depth": most,
            "queues": [_queue(each, most) for each in queues if each.busy],
        }


def _queue(found: QueueView, most: int) -> dict[str, Any]:
    queue = found.queue
    return {
        # Numbers given one after the other would tell how many queues there are that the caller does not see.
        "id": hashlib.sha256(f"{queue.repository.id} {queue.base_branch}".encode()).hexdigest()[:_ID],
        "repository": queue.repository.full_name,
        "branch": queue.base_branch,
        "depth": found.depth,
        "held": found.held,
        "accepting": found.accepts(most),
        "paused": found.blockers[0].reason.value if found.blockers else None,
    }
