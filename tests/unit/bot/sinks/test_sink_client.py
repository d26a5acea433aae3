"""Receivers over real HTTP: slow, failing, redirecting, closing, without end."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from aiohttp import web

from bot.sinks.sink_client import SinkClient
from notifications.sinks.answers import Answer, ReceiverError
from tests.support.real_time import LIMIT
from tests.support.sink_receiver import Reply, answers, answers_without_end, closes, hangs, sink_receiver

NOW = datetime(2026, 1, 5, 9, tzinfo=UTC)


class Clock:
    """Always at the same instant."""

    def now(self) -> datetime:
        """Always the same."""
        return NOW

    async def sleep(self, duration: timedelta) -> None:
        """Nothing here sleeps."""
        raise AssertionError("a client sleeps")


async def post(reply: Reply) -> Answer:
    """POST to a receiver that replies so."""
    client = SinkClient(Clock())
    try:
        async with sink_receiver() as receiver:
            receiver.always = reply
            answer = await client(f"{receiver.url}/secret", b"{}", {"webhook-id": "msg_1"})
            (received,) = receiver.received
            assert received.headers["webhook-id"] == "msg_1"
            assert received.headers["Content-Type"] == "application/json"
            assert "Cookie" not in received.headers
            return answer
    finally:
        await client.close()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("7", timedelta(seconds=7)),
        ("Mon, 05 Jan 2026 09:01:00 GMT", timedelta(minutes=1)),
        ("Mon, 05 Jan 2026 08:00:00 GMT", timedelta(0)),
        ("soon", None),
        ("-5", None),
        ("9" * 30, timedelta(days=1)),
    ],
)
async def test_retry_after_is_seconds_or_an_instant(value: str, expected: timedelta | None) -> None:
    """RFC 9110 allows both; a word means nothing."""
    assert await post(answers(429, "rate_limited", Retry_After=value)) == Answer(429, expected, "rate_limited")


async def test_redirect_is_not_followed() -> None:
    """A message goes to the address that the operator entered, and nowhere else."""
    assert (await post(answers(302, Location="/elsewhere"))).status == 302


async def test_answer_without_end_is_read_no_further() -> None:
    """A receiver cannot fill the memory."""
    found = await post(answers_without_end)
    assert (found.status, len(found.text)) == (500, 256)


@pytest.mark.parametrize(
    ("reply", "seconds", "words"), [(closes, 0, "gave no answer: "), (hangs, 10, "gave no answer within 10 s")]
)
async def test_receiver_without_an_answer_is_reported_without_its_address(
    reply: Reply, seconds: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An address may be a secret, and the error's words are stored."""
    loop = asyncio.get_running_loop()
    its_time = loop.time

    async def later(request: web.Request) -> web.StreamResponse:
        """Reply so many seconds after the request."""
        monkeypatch.setattr(loop, "time", lambda: its_time() + seconds)
        return await reply(request)

    with pytest.raises(ReceiverError, match=words) as caught:
        await post(later)
    assert "secret" not in str(caught.value)
    assert "127.0.0.1" not in str(caught.value)


async def test_receiver_that_cannot_be_reached_is_reported_without_its_address() -> None:
    """So is one that does not listen."""
    client = SinkClient(Clock())
    try:
        with pytest.raises(ReceiverError, match="gave no answer: ClientConnectorError"):
            await client("http://127.0.0.1:1/secret", b"{}", {})
    finally:
        await client.close()


async def test_large_headers_are_refused() -> None:
    """A header that never ends fills no memory either."""
    with pytest.raises(ReceiverError):
        await asyncio.wait_for(post(answers(200, X_Long="x" * 100_000)), LIMIT)
