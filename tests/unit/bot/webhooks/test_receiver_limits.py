"""`POST /webhook` over a real socket: sizes, headers and deliveries that do not end."""

import asyncio
import gzip
import io
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from unittest import mock
from urllib.parse import urlsplit

import aiohttp
import pytest
from structlog.testing import capture_logs

from bot.webhooks.receiver import MAX_BODY
from tests.support.real_time import LIMIT
from tests.unit.bot.webhooks.signed import PAYLOAD, Inbox, _headers, _post, _signed


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
    async with asyncio.timeout(LIMIT):
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
@pytest.mark.process
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
        async with asyncio.timeout(LIMIT):
            await refused.wait()
    assert [(line["event"], line["why"]) for line in lines] == [("delivery refused", "the delivery was cut off")]


async def test_delivery_growing_too_large_is_refused_while_read(
    session: aiohttp.ClientSession, url: str, inbox: Inbox
) -> None:
    """A chunked body announces nothing. This one ends at once, so that nothing is left to wait for."""

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(MAX_BODY // 2**20):
            yield b" " * 2**20
        yield b" "

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
