"""Webhooks that come by a relay are verified and answered like any others."""

import asyncio
import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from structlog.testing import capture_logs

from bot.webhooks.relay import Relay, relayed
from tests.support.real_time import LIMIT
from tests.support.relay_server import RelayServer

SECRET = b"s3cret-0123456789abcdef"
PAYLOAD: dict[str, Any] = {"action": "labeled", "title": 'Größe "1" 😊\n</b>', "number": 1, "ratio": 0.5, "none": None}


COLOURED = r'{"title":"\u001B[31mred\u001B[0m","path":"C:\\\\u00ff","bell":"\u0007"}'
"""As GitHub writes control characters of a log that somebody pasted."""


@dataclass
class Receiver:
    """What was posted, and how it is answered."""

    posted: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    status: int = 202

    async def handle(self, request: web.Request) -> web.Response:
        self.posted.append(({name.lower(): value for name, value in request.headers.items()}, await request.read()))
        self.arrived.set()
        return web.Response(status=self.status, text="why not")


@dataclass
class Place:
    relay: RelayServer
    receiver: Receiver
    session: aiohttp.ClientSession
    address: str

    async def deliver(self, text: str) -> None:
        """Post a delivery to the relay, as GitHub does."""
        digest = hmac.new(SECRET, text.encode(), hashlib.sha256).hexdigest()
        headers = {
            "Content-Type": "application/json",
            "X-GitHub-Event": "pull_request",
            "X-GitHub-Delivery": "guid-1",
            "X-Hub-Signature-256": f"sha256={digest}",
            "X-Forwarded-For": "10.0.0.1",
        }
        async with self.session.post(self.relay.url, data=text.encode(), headers=headers) as answer:
            assert answer.status == 200


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    receiver, relay = Receiver(), RelayServer()
    application = web.Application()
    application.router.add_post("/webhook", receiver.handle)
    server = TestServer(application)
    await server.start_server()
    await relay.start()
    async with aiohttp.ClientSession() as session:
        yield Place(relay, receiver, session, str(server.make_url("/webhook")))
    await relay.stop()
    await server.close()


@pytest.mark.parametrize("raw", [False, True])
async def test_relayed_delivery_keeps_a_valid_signature(place: Place, raw: bool) -> None:
    """The relay parses the payload; what IMQ gets is again the text that GitHub signed, headers of the way left out."""
    place.relay.raw = raw
    # Without the raw text only GitHub's own form, without spaces, survives.
    text = json.dumps(PAYLOAD, ensure_ascii=False, separators=None if raw else (",", ":"))
    forwarding = asyncio.create_task(Relay(place.session, place.relay.url, place.address).forward())
    async with asyncio.timeout(LIMIT):
        await place.relay.connected.wait()
        await place.relay.send("event: ping\ndata: {}\n\n: comment\n\n")
        await place.deliver(text)
        await place.receiver.arrived.wait()
        await place.relay.hang_up()
        await forwarding
    ((headers, body),) = place.receiver.posted
    assert body == text.encode()
    digest = hmac.new(SECRET, body, hashlib.sha256).hexdigest()
    assert headers["x-hub-signature-256"] == f"sha256={digest}"
    assert (headers["x-github-event"], headers["x-github-delivery"]) == ("pull_request", "guid-1")
    assert headers["content-type"] == "application/json"
    assert "x-forwarded-for" not in headers


@pytest.mark.parametrize("text", [COLOURED, COLOURED.replace("001B", "001b")], ids=["upper", "lower"])
async def test_relayed_control_characters_keep_a_valid_signature(place: Place, text: str) -> None:
    """GitHub escapes them in upper case, and a relay forgets that; lower case is understood, too."""

    async def verify(request: web.Request) -> web.Response:
        digest = hmac.new(SECRET, await request.read(), hashlib.sha256).hexdigest()
        place.receiver.status = 202 if request.headers["X-Hub-Signature-256"] == f"sha256={digest}" else 401
        return await place.receiver.handle(request)

    application = web.Application()
    application.router.add_post("/webhook", verify)
    async with TestServer(application) as server:
        forwarding = asyncio.create_task(
            Relay(place.session, place.relay.url, str(server.make_url("/webhook"))).forward()
        )
        with capture_logs() as logs:
            async with asyncio.timeout(LIMIT):
                await place.relay.connected.wait()
                await place.deliver(text)
                await place.receiver.arrived.wait()
                await place.relay.hang_up()
                await forwarding
    assert place.receiver.posted[-1][1] == text.encode()
    assert place.receiver.status == 202
    assert [line for line in logs if line["event"] == "relayed_delivery_refused"] == []


async def test_relayed_event_that_is_no_delivery_is_ignored(place: Place) -> None:
    """Anybody who knows the channel can post to it."""
    forwarding = asyncio.create_task(Relay(place.session, place.relay.url, place.address).forward())
    with capture_logs() as logs:
        async with asyncio.timeout(LIMIT):
            await place.relay.connected.wait()
            await place.relay.send('data: ["no delivery"]\n\ndata: no JSON\n\n')
            await place.deliver("{}")
            await place.receiver.arrived.wait()
            await place.relay.hang_up()
            await forwarding
    assert [line["event"] for line in logs].count("relay_event_ignored") == 2
    assert len(place.receiver.posted) == 1


async def test_relayed_delivery_that_is_refused_is_reported(place: Place) -> None:
    """A relay that changes the payload is found in the log."""
    place.receiver.status = 401
    forwarding = asyncio.create_task(Relay(place.session, place.relay.url, place.address).forward())
    with capture_logs() as logs:
        async with asyncio.timeout(LIMIT):
            await place.relay.connected.wait()
            await place.deliver("{}")
            await place.receiver.arrived.wait()
            await place.relay.hang_up()
            await forwarding
    (refused,) = (line for line in logs if line["event"] == "relayed_delivery_refused")
    assert (refused["status"], refused["answer"]) == (401, "why not")


async def test_address_that_is_no_relay_is_reported(place: Place) -> None:
    """A typing error in the channel's address."""
    wrong = place.address.replace("/webhook", "/channel")
    with pytest.raises(aiohttp.ClientResponseError):
        await Relay(place.session, wrong, place.address).forward()


async def test_process_without_relay_or_port_connects_to_none() -> None:
    """The setting is optional, and a worker receives nothing."""
    async with relayed(None, None), relayed("https://smee.io/channel", None):
        pass
