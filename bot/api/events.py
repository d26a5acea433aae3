"""`/api/v1/events`: what happens in queues, as server-sent events. `bot.web.live` serves the streams."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler
from pydantic import Field

from bot.api.payload import AnswerModel, Payload
from bot.api.routes import Routes, read
from queue_engine.domain.model import WHOLE_QUEUE, Repository, TimelineEvent
from queue_engine.rules.job_rates import shown

MAX_REQUESTS = 50


class EventFilter(Payload):
    """Which events a stream has: of a repository (`owner/name`), of its branch, of a pull request.

    `requests` are the ids of requests to watch, with commas between them. `after` is the id of the last known event;
    the header `Last-Event-ID` wins.
    """

    repository: str | None = Field(None, pattern=r"^[A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,100}$")
    branch: str | None = Field(None, min_length=1, max_length=255)
    number: int | None = Field(None, ge=1, lt=10**9)
    requests: str | None = Field(None, pattern=r"^[0-9A-Za-z_,-]{1,6000}$")
    after: int | None = Field(None, ge=0, lt=2**63)

    def includes(self, event: TimelineEvent) -> bool:
        """Return whether an event of the chosen repository is wanted. Events of a whole queue concern all in it."""
        if self.branch not in (None, event.base_branch):
            return False
        return self.number is None or event.number in {self.number, WHOLE_QUEUE}


class EventAnswer(AnswerModel):
    """An event of a queue. `number` is null for an event of the whole queue, `data` depends on the event."""

    id: int
    at: datetime
    event: str
    repository: str
    base_branch: str
    number: int | None
    reason: str | None
    data: Mapping[str, Any]

    @classmethod
    def of(cls, repository: Repository, event: TimelineEvent) -> "EventAnswer":
        return cls(
            id=event.id,
            at=event.at,
            event=event.event,
            repository=repository.full_name,
            base_branch=event.base_branch,
            number=None if event.number == WHOLE_QUEUE else event.number,
            reason=None if event.reason is None else event.reason.value,
            data=shown(event.data),
        )


class EventRoutes(Routes):
    """The route of event streams."""

    def __init__(self, stream: Handler | None) -> None:
        """`stream` is None where the route is described, and not served."""
        self._stream = stream

    @read("/events", answers={200: EventAnswer}, query=EventFilter, media_type="text/event-stream")
    async def stream_events(self, request: web.Request) -> web.StreamResponse:
        """Streams events of queues, as they happen. Answer with a stream."""
        if self._stream is None:
            raise web.HTTPNotFound
        return await self._stream(request)
