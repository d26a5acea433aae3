"""Remember replies for conditional requests: compressed, and with two of their headers."""

import zlib
from dataclasses import replace

from cachetools import LRUCache

from bot.gateway.http.client import Reply

_MOST_BYTES = 4 * 1024 * 1024
"""Of one installation; a pull request's answer has about 20 kB, and a tenth of that when compressed."""

_OF_EACH = 1_000
"""What a reply takes beside its body, in bytes."""

_READ_AGAIN = ("content-type", "etag")


class Replies:
    """The latest replies with an ETag, by key, within a bound of memory."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._kept: LRUCache[str, Reply] = LRUCache(most_bytes, getsizeof=lambda kept: len(kept.body) + _OF_EACH)

    def get(self, key: str) -> Reply | None:
        """Return the kept reply as it came."""
        kept = self._kept.get(key)
        return None if kept is None else replace(kept, body=zlib.decompress(kept.body))

    def put(self, key: str, reply: Reply) -> None:
        """Keep a reply, unless it has no ETag, or would take much of the room of all others."""
        if "etag" in reply.headers:
            headers = {name: reply.headers[name] for name in _READ_AGAIN if name in reply.headers}
            kept = replace(reply, headers=headers, body=zlib.compress(reply.body, 1))
            if len(kept.body) < self._kept.maxsize // 4:
                self._kept[key] = kept

    def drop(self, key: str) -> None:
        """Forget a reply."""
        self._kept.pop(key, None)
