"""`POST /webhook` over a real socket: what is accepted, what is stored, and the answers to GitHub."""

import asyncio
import gzip
import hashlib
import hmac
import io
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from unittest import mock
from urllib.parse import urlencode, urlsplit

import aiohttp
import pytest
import structlog
from pydantic import SecretStr
from structlog.testing import capture_logs

from bot.web.application import create_app, serve
from bot.web.readiness import Readiness
from bot.webhooks.receiver import MAX_BODY, Receiver
from queue_engine.domain.webhook_event import WebhookEvent, WebhookKind
from tests.unit.bot.conftest import ManualClock

SECRET = "it's a sécret"
PAYLOAD: dict[str, Any] = {
    "action": "closed",
    "installation": {"id": 9},
    "repository": {"id": 5, "full_name": "ada/engine"},
    "pull_request": {"number": 3, "head": {"sha": "h1"}},
}


@dataclass
class Inbox:
    """Stores hints by delivery, or fails to."""

    hints: list[WebhookEvent] = field(default_factory=list)
    broken: bool = False

    async def store(self, webhook_event: WebhookEvent) -> bool:
        if self.broken:
            raise OSError("disk full")
        known = webhook_event.delivery in {each.delivery for each in self.hints}
        self.hints += [] if known else [webhook_event]
        return not known


@pytest.fixture
def inbox() -> Inbox:
    return Inbox()


@pytest.fixture
def read_limit() -> timedelta:
    return timedelta(seconds=30)


@pytest.fixture
async def url(inbox: Inbox, clock: ManualClock, read_limit: timedelta) -> AsyncIterator[str]:
    receiver = Receiver(secret=SecretStr(SECRET), own_app_id=77, store=inbox.store, clock=clock, read_limit=read_limit)
    runner = await serve(create_app(receiver, Readiness({}, clock)), 0, "127.0.0.1")
    yield f"http://127.0.0.1:{runner.addresses[0][1]}/webhook"
    await runner.cleanup()


def _signed(body: bytes, secret: str = SECRET) -> str:
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def _headers(body: bytes, **changes: str | None) -> dict[str, str]:
    headers: dict[str, str | None] = {
        "X-GitHub-Event": "pull_request",
        "X-GitHub-Delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958",
        "X-Hub-Signature-256": _signed(body),
        "Content-Type": "application/json",
    }
    headers |= {name.replace("_", "-"): value for name, value in changes.items()}
    return {name: value for name, value in headers.items() if value is not None}


async def _post(
    session: aiohttp.ClientSession, url: str, body: bytes, **changes: str | None
) -> tuple[int, dict[str, Any]]:
    async with session.post(url, data=body, headers=_headers(body, **changes)) as response:
        return response.status, await response.json()


async def test_delivery_signed_is_stored_and_accepted(session: aiohttp.ClientSession, url: str, inbox: Inbox) -> None:
    """What is answered with 202 is stored first."""
    assert await _post(session, url, json.dumps(PAYLOAD).encode()) == (202, {"result": "stored"})
    (webhook_event,) = inbox.hints
    assert (webhook_event.kind, webhook_event.number, webhook_event.delivery) == (
        WebhookKind.CONSENT,
        3,
        "72d3162e-cc78-11e3-81ab-4c9367dc0958",
    )


async def test_delivery_again_is_accepted_and_does_nothing(
    session: aiohttp.ClientSession, url: str, inbox: Inbox
) -> None:
    """A redelivery keeps its id."""
    body = json.dumps(PAYLOAD).encode()
    await _post(session, url, body)
    assert await _post(session, url, body) == (202, {"result": "known"})
    assert len(inbox.hints) == 1


async def test_delivery_as_a_form_is_stored(session: aiohttp.ClientSession, url: str, inbox: Inbox) -> None:
    """The App's settings let the operator choose; the signature is over the raw body in both cases."""
    body = urlencode({"payload": json.dumps(PAYLOAD)}).encode()
    status, _ = await _post(session, url, body, Content_Type="application/x-www-form-urlencoded")
    assert (status, len(inbox.hints)) == (202, 1)


@pytest.mark.parametrize("event", ["ping", "star"])
async def test_delivery_without_meaning_is_accepted_and_not_stored(
    session: aiohttp.ClientSession, url: str, inbox: Inbox, event: str
) -> None:
    """GitHub's ping when the App is registered, and whatever else it may send."""
    assert await _post(session, url, b'{"zen": "x"}', X_GitHub_Event=event) == (
        202,
        {"result": "ignored", "why": f"{event} is no event that concerns a queue"},
    )
    assert inbox.hints == []


@pytest.mark.parametrize(
    "signature",
    [
        None,
        "",
        "sha256=",
        "sha256=" + "0" * 64,
        _signed(b"another body"),
        _signed(json.dumps(PAYLOAD).encode())[:-1] + "g",
        _signed(json.dumps(PAYLOAD).encode())[:-1] + ("1" if _signed(json.dumps(PAYLOAD).encode())[-1] == "0" else "0"),
        _signed(json.dumps(PAYLOAD).encode(), "another secret"),
        _signed(json.dumps(PAYLOAD).encode()).removeprefix("sha256="),
        "sha1=" + hmac.new(SECRET.encode(), json.dumps(PAYLOAD).encode(), hashlib.sha1).hexdigest(),
        "sha256=schlüssel",
    ],
)
async def test_delivery_not_signed_with_the_secret_is_refused(
    session: aiohttp.ClientSession, url: str, inbox: Inbox, signature: str | None
) -> None:
    """Missing, SHA-1 only, not ASCII, of another body or secret (gidgethub lets some pass, and raises on others)."""
    body = json.dumps(PAYLOAD).encode()
    sha1 = "sha1=" + hmac.new(SECRET.encode(), body, hashlib.sha1).hexdigest()
    status, answer = await _post(session, url, body, X_Hub_Signature_256=signature, X_Hub_Signature=sha1)
    assert status == 401
    assert "signature" in answer["error"].lower()
    assert inbox.hints == []


@pytest.mark.parametrize(
    ("body", "changes", "words"),
    [
        (b"{}", {"X_GitHub_Event": None}, "X-GitHub-Event"),
        (b"{}", {"X_GitHub_Event": "Pull Request!"}, "X-GitHub-Event"),
        (b"{}", {"X_GitHub_Delivery": None}, "X-GitHub-Delivery"),
        (b"{}", {"X_GitHub_Delivery": "x" * 65}, "X-GitHub-Delivery"),
        (b"{}", {"X_GitHub_Delivery": "é"}, "X-GitHub-Delivery"),
        (b"{}", {"Content_Type": "text/plain"}, "content type"),
        (b"", {}, "not the JSON"),
        (b"{", {}, "not the JSON"),
        (b"\xff\xfe", {}, "not the JSON"),
        (b"[" * 200_000, {}, "not the JSON"),
        (b"[]", {}, "not an object"),
        (b"pay=1", {"Content_Type": "application/x-www-form-urlencoded"}, "not the JSON"),
        (b"payload=%7B", {"Content_Type": "application/x-www-form-urlencoded"}, "not the JSON"),
        (b"{}", {}, "pull_request: missing or wrong: action, installation, pull_request, repository"),
    ],
)
async def test_delivery_malformed_is_refused_with_the_reason(
    session: aiohttp.ClientSession, url: str, inbox: Inbox, body: bytes, changes: dict[str, str | None], words: str
) -> None:
    """The App's delivery log shows the sentence."""
    status, answer = await _post(session, url, body, **changes)
    assert (status, inbox.hints) == (400, [])
    assert words in answer["error"]


@pytest.mark.parametrize("missing", ["X_GitHub_Event", "X_GitHub_Delivery", "Content_Type"])
async def test_delivery_neither_signed_nor_well_formed_is_refused_as_unsigned(
    session: aiohttp.ClientSession, url: str, missing: str
) -> None:
    """Who cannot sign learns nothing of what a delivery has to look like."""
    status, answer = await _post(session, url, b"{", **{missing: "?", "X_Hub_Signature_256": None})
    assert (status, "X-Hub-Signature-256" in answer["error"]) == (401, True)


async def test_body_of_another_secret_is_refused_before_it_is_read_as_json(
    session: aiohttp.ClientSession, url: str
) -> None:
    """What a stranger sent is not parsed: its signature is refused, whatever it holds."""
    status, answer = await _post(session, url, b"{", X_Hub_Signature_256="sha256=" + "0" * 64)
    assert (status, answer["error"]) == (401, "the signature does not match the webhook secret")


async def test_delivery_that_cannot_be_stored_is_not_accepted(
    session: aiohttp.ClientSession, url: str, inbox: Inbox
) -> None:
    """GitHub records the failure, and the redelivery sweep finds it; the next one is served again."""
    body = json.dumps(PAYLOAD).encode()
    inbox.broken = True
    with capture_logs() as lines:
        status, _ = await _post(session, url, body)
    assert status == 503
    assert [line["event"] for line in lines] == ["delivery not stored", "delivery refused"]
    inbox.broken = False
    assert await _post(session, url, body) == (202, {"result": "stored"})


def _head(**more: str | None) -> bytes:
    """The header of a delivery as it is on the wire."""
    fields = {"Host": "x", **_headers(b"", **more)}
    lines = ["POST /webhook HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
    return "\r\n".join(lines).encode()


async def _raw(url: str, head: bytes, body: bytes = b"") -> bytes:
    """Send a request by hand, leave its end open, and return the status line."""
    port = urlsplit(url).port
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(head + body)
        return await reader.readline()
    finally:
        writer.close()
        await writer.wait_closed()


async def test_delivery_announced_too_large_is_refused_before_it_is_read(url: str) -> None:
    """Memory belongs to those who can sign."""
    assert b" 413 " in await _raw(url, _head(Content_Length=str(MAX_BODY + 1)))


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"Content_Encoding": "gzip"}, b" 415 "),
        ({"Content_Encoding": "identity"}, b" 415 "),
        ({"X_Hub_Signature_256": None}, b" 401 "),
        ({"X_Hub_Signature_256": "sha256=" + "G" * 64}, b" 401 "),
        ({"X_GitHub_Event": None}, b" 400 "),
        ({"X_GitHub_Event": "push\r\nX-GitHub-Event: star"}, b" 400 "),
        ({"X_GitHub_Delivery": "../1"}, b" 400 "),
        ({"X_GitHub_Delivery": "d-1\r\nX-GitHub-Delivery: d-2"}, b" 400 "),
        ({"Content_Type": "text/plain"}, b" 400 "),
    ],
)
@pytest.mark.parametrize("length", [{"Content_Length": "10"}, {"Transfer_Encoding": "chunked"}])
async def test_delivery_with_a_wrong_header_is_refused_before_it_is_read(
    url: str, length: dict[str, str | None], changes: dict[str, str | None], status: bytes
) -> None:
    """A sender gets the answer though no byte of the body has come."""
    async with asyncio.timeout(5):
        assert status in await _raw(url, _head(**length, **changes))


@pytest.mark.parametrize("right_first", [True, False])
async def test_delivery_with_two_signatures_is_refused(url: str, right_first: bool) -> None:
    """Which of them counts must not depend on who reads them."""
    right, wrong = _signed(b"{}"), "sha256=" + "0" * 64
    first, second = (right, wrong) if right_first else (wrong, right)
    head = _head(Content_Length="2", X_Hub_Signature_256=f"{first}\r\nX-Hub-Signature-256: {second}")
    assert b" 401 " in await _raw(url, head, b"{}")


async def test_delivery_compressed_is_never_inflated(session: aiohttp.ClientSession, url: str, inbox: Inbox) -> None:
    """491 kB of gzip that inflate to 500 MB took 500 MB of memory, and 983 kB delayed all others by three seconds."""
    body = gzip.compress(b" " * 2**20)
    with mock.patch("zlib.decompressobj", side_effect=AssertionError("inflated")):
        status, answer = await _post(session, url, body, Content_Encoding="gzip")
    assert (status, inbox.hints) == (415, [])
    assert "Content-Encoding" in answer["error"]


@pytest.mark.parametrize("read_limit", [timedelta(milliseconds=20)])
async def test_delivery_that_does_not_end_is_given_up(url: str) -> None:
    """A client that sends a byte an hour holds no connection for ever."""
    assert b" 408 " in await _raw(url, _head(Content_Length="10"), b"{")


async def test_delivery_cut_off_is_no_fault_of_ours(url: str, inbox: Inbox) -> None:
    """A sender who hangs up half-way leaves one line in the log, and no traceback."""
    refused = asyncio.Event()

    def notice(_logger: Any, _method: str, line: Any) -> Any:
        refused.set()
        return line

    with capture_logs(processors=[notice]) as lines:
        _, writer = await asyncio.open_connection("127.0.0.1", urlsplit(url).port)
        writer.write(_head(Content_Length="10") + b"{")
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        async with asyncio.timeout(5):
            await refused.wait()
    assert [(line["event"], line["why"]) for line in lines] == [("delivery refused", "the delivery was cut off")]


async def test_delivery_growing_too_large_is_refused_while_read(
    session: aiohttp.ClientSession, url: str, inbox: Inbox
) -> None:
    """A chunked body announces nothing."""

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(MAX_BODY // 2**20 + 1):
            yield b" " * 2**20

    async with session.post(url, data=chunks(), headers=_headers(b"")) as response:
        assert response.status == 413
        assert "25 MiB" in (await response.json())["error"]


async def test_delivery_of_the_largest_size_is_read(session: aiohttp.ClientSession, url: str, inbox: Inbox) -> None:
    """aiohttp's own limit is one mebibyte; GitHub sends up to 25."""
    body = json.dumps(PAYLOAD).encode().ljust(MAX_BODY)
    async with session.post(url, data=io.BytesIO(body), headers=_headers(body)) as response:
        assert (response.status, len(inbox.hints)) == (202, 1)


async def test_push_that_lists_as_many_commits_as_github_does_is_read_whole(
    session: aiohttp.ClientSession, url: str, inbox: Inbox
) -> None:
    """2,048 commits ("Webhook events and payloads: push") with long messages and many files, within 25 MB."""
    commit = {"id": "c" * 40, "message": "m" * 2000, "added": [f"src/{'d' * 40}/{name}.py" for name in range(20)]}
    listed = [commit] * 2047 + [commit | {"modified": [".github/imq.yml"]}]
    push = {"ref": "refs/heads/topic", "before": "b" * 40, "after": "c" * 40, "created": False, "commits": listed}
    body = json.dumps({key: PAYLOAD[key] for key in ("installation", "repository")} | push).encode()
    assert 5_000_000 < len(body) < MAX_BODY
    async with session.post(url, data=io.BytesIO(body), headers=_headers(body, X_GitHub_Event="push")) as response:
        assert response.status == 202
    (webhook_event,) = inbox.hints
    assert (webhook_event.config, webhook_event.config_named, webhook_event.head_sha) == (True, True, "c" * 40)


async def test_delivery_refused_again_and_again_is_logged_once_a_minute(
    session: aiohttp.ClientSession, url: str, clock: ManualClock
) -> None:
    """A sender without the secret cannot fill the log; the count of refusals is kept."""
    with capture_logs() as lines:
        for _ in range(5):
            assert (await _post(session, url, b"{}", X_Hub_Signature_256=None))[0] == 401
        assert (await _post(session, url, b"{}", X_GitHub_Event=None))[0] == 400
        clock.instant += timedelta(minutes=1)
        assert (await _post(session, url, b"{}", X_Hub_Signature_256=None))[0] == 401
    assert [(line["status"], line["repeats"]) for line in lines] == [(401, 0), (400, 0), (401, 4)]


async def test_delivery_id_is_bound_to_every_line_logged_for_it(session: aiohttp.ClientSession, url: str) -> None:
    """One delivery can be followed through the logs."""
    with capture_logs(processors=[structlog.contextvars.merge_contextvars]) as lines:
        await _post(session, url, json.dumps(PAYLOAD).encode(), X_GitHub_Delivery="d-7")
    assert [(line["event"], line["delivery"]) for line in lines] == [("delivery stored", "d-7")]


def test_receiver_without_a_secret_is_not_built() -> None:
    """Without a secret anybody could speak for GitHub (gidgethub lets unsigned events pass then)."""
    with pytest.raises(ValueError, match="secret"):
        Receiver(secret=SecretStr(""), own_app_id=1, store=Inbox().store, clock=ManualClock())
