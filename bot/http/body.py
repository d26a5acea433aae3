"""Read the body of a request, bounded in size and in time."""

import asyncio
from datetime import timedelta

from aiohttp import web

MAX_TIME = timedelta(seconds=30)
"""How long a sender may take: GitHub Enterprise Server itself gives up after as long."""


class Refused(Exception):
    """A request is refused: the HTTP status, and a sentence for its sender."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence


async def read_body(request: web.Request, what: str, most: int, within: timedelta = MAX_TIME) -> bytes:
    """The body, of at most `most` bytes; `what` it is called in the sentences of Refused (400, 408, 413, 415).

    A compressed body is refused, because a small one may be inflated to any size.
    """
    if "Content-Encoding" in request.headers:
        raise Refused(415, f"the {what} must not have a Content-Encoding")
    body = bytearray()
    try:
        if (request.content_length or 0) > most:
            raise _too_large(what, most)
        async with asyncio.timeout(within.total_seconds()):
            async for chunk in request.content.iter_any():
                body += chunk
                if len(body) > most:
                    raise _too_large(what, most)
        return bytes(body)
    except TimeoutError:
        raise Refused(408, f"the {what} did not arrive in time") from None
    except (OSError, web.RequestPayloadError):
        raise Refused(400, f"the {what} was cut off") from None
    finally:
        # The request keeps an error of its body, whose traceback keeps this frame, until garbage is collected.
        body.clear()


def _too_large(what: str, most: int) -> Refused:
    return Refused(413, f"the {what} is larger than {_size(most)}")


def _size(size: int) -> str:
    return f"{size // 1024**2} MiB" if size >= 1024**2 else f"{size // 1024} KiB"
