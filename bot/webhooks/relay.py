"""Receive webhooks from a relay such as smee.io, for a process that GitHub does not reach, and post them to IMQ itself.

A relay sends each delivery as a server-sent event: an object of the headers, with the payload as `body`. Newer relays
add `rawbody`, the text that GitHub signed (probot/smee-client #325). Without it the payload is serialized as
smee-client does it, without spaces, which gives the signed text again for what GitHub sends. But GitHub escapes in
upper case, as in `\\u001B` (octokit/webhooks.js #71, #96). What is refused so is posted again in lower case.
"""

import asyncio
import json
import random
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import aiohttp
import structlog
from aiohttp import web

from queue_engine.core.concurrency.tasks import running
from queue_engine.core.timing.backoff import Backoff, wait

_SILENCE_SECONDS = 90.0
"""smee.io sends an event every 30 seconds; without any for so long the connection is dead."""

_POST_SECONDS = 30.0
_MAX_EVENT = 64 * 1024 * 1024
"""Bytes of one event: 25 MB of a payload, and what quoting adds."""

_RECONNECT = Backoff(base=timedelta(seconds=1), maximum=timedelta(seconds=60))
_HEADERS = ("x-github-event", "x-github-delivery", "x-github-hook-id", "x-hub-signature-256", "user-agent")

_ESCAPE = re.compile(r"(?<!\\)((?:\\\\)*\\u)([0-9a-f]{4})")
"""An escaped character in JSON; a backslash that is escaped itself begins none."""

_log = structlog.get_logger("imq.relay")


class Relay:
    """Forwards deliveries from a relay to a receiver, which verifies them like any others."""

    def __init__(self, session: aiohttp.ClientSession, url: str, receiver: str) -> None:
        """`url` is the channel of the relay, `receiver` the address of IMQ's own `/webhook`."""
        self._session = session
        self._url = url
        self._receiver = receiver
        self._failures = 0

    async def run(self) -> None:
        """Forward until it is cancelled; connect again whenever the relay ends the connection."""
        while True:
            try:
                await self.forward()
                _log.info("relay_ended")
            except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
                _log.warning("relay_failed", attempt=self._failures + 1, error=repr(error))
            await asyncio.sleep(wait(_RECONNECT, self._failures, random=random.random).total_seconds())
            self._failures += 1

    async def forward(self) -> None:
        """Forward over one connection, until the relay ends it. Raises errors of the connection."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=_SILENCE_SECONDS)
        headers = {"Accept": "text/event-stream"}
        async with self._session.get(self._url, headers=headers, timeout=timeout) as stream:
            stream.raise_for_status()
            if stream.content_type != "text/event-stream":
                raise ValueError(f"{self._url} is no relay: it answers {stream.content_type}")
            _log.info("relay_connected")
            async for event in _events(stream.content):
                self._failures = 0
                await self._post(event)

    async def _post(self, event: str) -> None:
        try:
            headers, bodies = _delivery(event)
        except ValueError as error:
            _log.warning("relay_event_ignored", error=str(error))
            return
        timeout, status, text = aiohttp.ClientTimeout(total=_POST_SECONDS), 0, ""
        try:
            for body in bodies:
                async with self._session.post(self._receiver, data=body, headers=headers, timeout=timeout) as answer:
                    status, text = answer.status, await answer.text()
                if status != 401:
                    break
        except (aiohttp.ClientError, TimeoutError) as error:
            _log.warning("relayed_delivery_refused", error=repr(error))
            return
        if status >= 400:
            _log.warning("relayed_delivery_refused", status=status, answer=text[:200])


@asynccontextmanager
async def relayed(url: str | None, runner: web.AppRunner | None) -> AsyncIterator[None]:
    """Within it deliveries of the relay reach this process, if there is a relay and a port."""
    if url is None or runner is None:
        yield
        return
    host, port = runner.addresses[0][:2]
    receiver = f"http://{'127.0.0.1' if host in ('0.0.0.0', '::') else host}:{port}/webhook"  # noqa: S104 - compared
    async with aiohttp.ClientSession() as session, running(Relay(session, url, receiver).run()):
        yield


async def _events(stream: aiohttp.StreamReader) -> AsyncIterator[str]:
    """Yield the data of each message (HTML standard, "Server-sent events"); other kinds of events are pings."""
    name, data, size = "", [], 0
    pending = b""
    async for chunk in stream.iter_any():
        *lines, pending = (pending + chunk).split(b"\n")
        size += len(chunk)
        if size > _MAX_EVENT:
            raise ValueError("the relay sends an event that is too large")
        for line in lines:
            key, _, value = line.decode(errors="replace").rstrip("\r").partition(":")
            if key == "data":
                data.append(value.removeprefix(" "))
            elif key == "event":
                name = value.strip()
            elif not key and not value:
                if data and name in ("", "message"):
                    yield "\n".join(data)
                name, data, size = "", [], len(pending)


def _delivery(event: str) -> tuple[dict[str, str], list[bytes]]:
    """Return headers and body of a delivery; several bodies are the texts that GitHub may have signed, likely ones
    first. Raises ValueError for an event that is none."""
    content: Any = json.loads(event)
    if not isinstance(content, Mapping) or "x-github-event" not in content:
        raise ValueError("the event is no delivery of GitHub")
    headers = {name: str(content[name]) for name in _HEADERS if name in content}
    raw = content.get("rawbody")
    if isinstance(raw, str):
        texts = [raw]
    else:
        lower = json.dumps(content.get("body"), ensure_ascii=False, separators=(",", ":"))
        texts = list(dict.fromkeys((_ESCAPE.sub(lambda found: found[1] + found[2].upper(), lower), lower)))
    return headers | {"content-type": "application/json"}, [text.encode(errors="surrogatepass") for text in texts]
