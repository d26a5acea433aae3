"""Read the body of a request, bounded in size and in time."""

import asyncio
from datetime import timedelta

from aiohttp import web

MAX_TIME = timedelta(seconds=30)
"""How long a sender may take: GitHub Enterprise Server itself gives up after as long."""


class Refused(Exception):
    """An HTTP status and a sentence for the sender of a refused request."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence


async def read_body(request: web.Request, name: str, limit: int, timeout: timedelta = MAX_TIME) -> bytes:
    """Read the body, of at most `limit` bytes; `name` is its name in the sentences of Refused (400, 408, 413, 415).

    A compressed body is refused, because a small one may be inflated to any size.
    """
    if "Content-Encoding" in request.headers:
        raise Refused(415, f"the {name} must not have a Content-Encoding")
    body = bytearray()
    try:
        if (request.content_length or 0) > limit:
            raise _too_large(name, limit)
        async with asyncio.timeout(timeout.total_seconds()):
            async for chunk in request.content.iter_any():
                body += chunk
                if len(body) > limit:
                    raise _too_large(name, limit)
        return bytes(body)
    except TimeoutError:
        raise Refused(408, f"the {name} did not arrive in time") from None
    except (OSError, web.RequestPayloadError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and not (request.transport is None or request.transport.is_closing()):
            raise  # So aiohttp ends a read of a connection that was lost before it, as in a flood.
        raise Refused(400, f"the {name} was cut off") from None
    finally:
        # The request keeps an error of its body, whose traceback keeps this frame, until garbage is collected.
        body.clear()


def _too_large(name: str, limit: int) -> Refused:
    return Refused(413, f"the {name} is larger than {_size(limit)}")


def _size(size: int) -> str:
    return f"{size // 1024**2} MiB" if size >= 1024**2 else f"{size // 1024} KiB"
