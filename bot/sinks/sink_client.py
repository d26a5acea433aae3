"""POST a message to a receiver: no redirect, no cookie, a time limit, and at most a few bytes of the answer."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

import aiohttp

from bot import __version__
from notifications.sinks.answers import Answer, ReceiverError
from queue_engine.core.timing.clock import Clock

TIMEOUT = timedelta(seconds=10)
"""For the whole exchange; Slack answers within a second, and Standard Webhooks suggests 15 to 30 s at most."""

_MOST_READ = 256
"""Bytes of an answer that are read: Slack's errors are shorter."""
_LONGEST_HEADER = 8190


class SinkClient:
    """Implements `notifications.sinks.sender.SinkCall`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._timeout = aiohttp.ClientTimeout(total=TIMEOUT.total_seconds())
        self._session: aiohttp.ClientSession | None = None

    async def __call__(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Send one POST. Raises ReceiverError, whose message has no part of the address."""
        session = self._open()
        try:
            async with session.post(url, data=body, headers=headers, allow_redirects=False) as response:
                after = self._retry_after(response.headers.get("Retry-After"))
                # Only Slack's errors have words that matter, and a body may never end.
                text = b"" if response.ok else await response.content.read(_MOST_READ)
                response.close()
                return Answer(response.status, after, text.decode("utf-8", "replace"))
        except TimeoutError:
            raise ReceiverError(f"gave no answer within {self._timeout.total:.0f} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            # The error's own words may have the address, which is a secret.
            raise ReceiverError(f"gave no answer: {type(error).__name__}") from None

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    def _open(self) -> aiohttp.ClientSession:
        """Open the session at the first message: most installations have no sink."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=self._timeout,
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"Content-Type": "application/json", "User-Agent": f"imq/{__version__}"},
                auto_decompress=False,
                max_line_size=_LONGEST_HEADER,
                max_field_size=_LONGEST_HEADER,
            )
        return self._session

    def _retry_after(self, value: str | None) -> timedelta | None:
        """Read the header: seconds, or an instant (RFC 9110, 10.2.3)."""
        if value is None:
            return None
        if value.strip().isascii() and value.strip().isdecimal():
            return timedelta(seconds=min(int(value), 86_400))
        try:
            until = parsedate_to_datetime(value)
        except (TypeError, ValueError):
            return None
        until = until if until.tzinfo is not None else until.replace(tzinfo=UTC)
        return max(until - self._now(), timedelta(0))

    def _now(self) -> datetime:
        return self._clock.now()
