"""The target behind a socket: raw bytes to the port on which a bot listens for webhooks."""

import asyncio
import hashlib
import hmac
import json
import logging
from dataclasses import dataclass
from random import Random
from types import TracebackType
from typing import Self

import structlog
from aiohttp import web
from hypothesis import strategies as st
from pydantic import SecretStr

from bot.web.application import Readiness, create_app, serve
from bot.webhooks.receiver import Receiver
from queue_engine.core.timing.clock import SystemClock
from queue_engine.domain.webhooks import WebhookEvent
from tests.fuzz.edits import edited
from tests.support.real_time import LIMIT
from tests.unit.bot.test_payload_examples import mutated

SECRET = "the secret of the fuzzed server"
PATIENCE = LIMIT
"""Seconds. A server that has not answered a whole request by then hangs."""

HEADERS = (
    *(
        "Content-Encoding: gzip",
        "Transfer-Encoding: chunked",
        "Content-Length: 5",
        "Content-Length: -1",
        "Expect: 100-continue",
    ),
    *(
        "X-Hub-Signature-256: sha256=",
        "X-GitHub-Event: ../x",
        "X-GitHub-Delivery: ",
        "Connection: Upgrade",
        "Host: a\tb",
    ),
    *("\r\n\r\n", "GET /readyz HTTP/1.1\r\n", "HTTP/9.9", "POST", ": ", "\x7f", "\r\n x: folded", "0\r\n\r\n"),
)


@dataclass(frozen=True, slots=True)
class Delivery:
    """A request as bytes, whether it is signed with the server's own secret, and whether it is complete HTTP."""

    content: bytes
    signed: bool
    complete: bool = True


def deliveries() -> st.SearchStrategy[Delivery]:
    """Deliveries of mutated payloads; some signed with another secret, and some with edited bytes."""
    return st.builds(_delivery, st.integers(0, 2**32), st.booleans()) | st.builds(
        lambda edit: Delivery(edit.encode("utf-8", "surrogatepass"), signed=False, complete=False),
        edited(_UNSIGNED, HEADERS, most=4),
    )


def _delivery(seed: int, signed: bool) -> Delivery:
    event, payload = mutated(Random(seed))
    body = json.dumps(payload).encode()
    secret = SECRET if signed else f"not {SECRET}"
    lines = [
        "POST /webhook HTTP/1.1",
        "Host: localhost",
        "Connection: close",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        f"X-GitHub-Event: {event}",
        f"X-GitHub-Delivery: d-{seed}",
        f"X-Hub-Signature-256: sha256={hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}",
    ]
    return Delivery("\r\n".join([*lines, "", ""]).encode() + body, signed)


_UNSIGNED = tuple(_delivery(seed, signed=False).content.decode("utf-8", "replace")[:2_000] for seed in range(8))


class Server:
    """A web application on a real socket, and the checks of one request to it."""

    def __init__(self) -> None:
        self._loop = asyncio.Runner()
        self._stored: list[WebhookEvent] = []
        self._errors: list[str] = []
        self._runner: web.AppRunner | None = None

    def __enter__(self) -> Self:
        structlog.configure(processors=[self._note_error])
        logging.getLogger().addHandler(_Errors(self._errors))
        self._runner = self._loop.run(self._start())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._runner is not None:
            self._loop.run(self._runner.cleanup())
        self._loop.close()
        structlog.reset_defaults()

    def check(self, delivery: Delivery) -> None:
        """Every whole request is answered, none by an error of the server, and only signed ones are stored."""
        before = len(self._stored)
        self._errors.clear()
        answer = self._loop.run(self._ask(delivery))
        status = answer[9:12].decode("ascii", "replace")
        assert not answer or answer.startswith(b"HTTP/1."), answer[:80]
        assert not status.startswith("5"), answer[:200]
        assert not self._errors, self._errors
        if delivery.complete:
            assert status in (("202", "400") if delivery.signed else ("401",)), answer[:200]
        if not delivery.signed:
            assert len(self._stored) == before, delivery
            assert status != "202", answer[:200]

    async def _start(self) -> web.AppRunner:
        async def store(webhook: WebhookEvent) -> bool:
            self._stored.append(webhook)
            return True

        clock = SystemClock()
        receiver = Receiver(secret=SecretStr(SECRET), own_app_id=77, store=store, clock=clock)
        return await serve(create_app(receiver, Readiness({}, clock)), 0, "127.0.0.1")

    async def _ask(self, delivery: Delivery) -> bytes:
        assert self._runner is not None
        async with asyncio.timeout(PATIENCE):
            reader, writer = await asyncio.open_connection("127.0.0.1", self._runner.addresses[0][1])
            try:
                writer.write(delivery.content)
                if not delivery.complete:  # The server would wait for the rest.
                    writer.write_eof()
                return await reader.read()
            except ConnectionError:
                return b""
            finally:
                writer.close()

    def _note_error(self, _logger: object, level: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        if level in ("error", "exception", "critical"):
            self._errors.append(repr(event))
        raise structlog.DropEvent


class _Errors(logging.Handler):
    """Collects what libraries log as errors."""

    def __init__(self, errors: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._found = errors

    def emit(self, record: logging.LogRecord) -> None:
        self._found.append(record.getMessage())
