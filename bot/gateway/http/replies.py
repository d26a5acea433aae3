"""Remember replies for conditional requests: compressed, and with two of their headers.

Each installation has its own, so that one with many repositories drops none of the others while these are in use.
"""

import zlib
from collections import OrderedDict
from dataclasses import replace

from cachetools import LRUCache

from bot.gateway.http.client import Reply

_MOST_BYTES = 4 * 1024 * 1024
"""Of one installation; a pull request's answer has about 20 kB, and a tenth of that when compressed."""

_MOST_BYTES_OF_ALL = 16 * 1024 * 1024
"""Of all installations together, so that memory is flat however many there are."""

_OF_EACH = 1_000
"""What a reply takes beside its body, in bytes."""

_READ_AGAIN = ("content-type", "etag")


class Replies:
    """The latest replies with an ETag, by key, within a bound of memory."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._kept: LRUCache[str, Reply] = LRUCache(most_bytes, getsizeof=lambda kept: len(kept.body) + _OF_EACH)

    @property
    def size(self) -> int:
        """How many bytes the kept replies take."""
        return int(self._kept.currsize)

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

    def drop_oldest(self) -> None:
        """Forget the reply that was not used for the longest time."""
        self._kept.popitem()


class CachedReplies:
    """The replies of all installations, within a bound of memory of their own."""

    def __init__(self, most_bytes: int = _MOST_BYTES_OF_ALL) -> None:
        self._most_bytes = most_bytes
        self._replies: OrderedDict[int, Replies] = OrderedDict()
        """By installation, the latest used last."""

    def of(self, installation_id: int) -> Replies:
        """Return the replies of an installation, which are then the latest used. Older ones make room first."""
        replies = self._replies.setdefault(installation_id, Replies())
        self._replies.move_to_end(installation_id)
        self._trim()
        return replies

    def _trim(self) -> None:
        """Forget replies until all are within the bound: those of installations not used for the longest time first."""
        size = sum(replies.size for replies in self._replies.values())
        while size > self._most_bytes:
            installation_id, oldest = next(iter(self._replies.items()))
            if not oldest.size:
                del self._replies[installation_id]
                continue
            before = oldest.size
            oldest.drop_oldest()
            size += oldest.size - before
