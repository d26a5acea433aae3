"""An event stream to a client who may leave at any moment, also before the stream has begun."""

from collections.abc import Awaitable, Callable

import structlog
from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.web_request import BaseRequest
from aiohttp_sse import EventSourceResponse

_log = structlog.get_logger("imq.streams")


class StreamAnswer(EventSourceResponse):
    """The library's answer, for which a client who left is no error of the server's."""

    async def prepare(self, request: BaseRequest) -> AbstractStreamWriter | None:
        """Send the header. Raises ConnectionResetError if the client has left, for whom the library's assertion fails.

        aiohttp calls this again after the handler.
        """
        if request.transport is None:
            raise ConnectionResetError("the client left")
        return await super().prepare(request)

    async def serve(self, request: web.Request, send: Callable[[], Awaitable[None]]) -> None:
        """Begin the stream, and have `send` send all events.

        Ends without an error where the client leaves, or takes no bytes for too long: the library cuts the connection.
        """
        try:
            await self.prepare(request)
            async with self:
                await send()
        except (ConnectionResetError, TimeoutError) as error:
            _log.info("stream_lost", error=type(error).__name__)
