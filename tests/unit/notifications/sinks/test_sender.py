"""Messages are sent once at least, and a sink that fails is left alone."""

import asyncio
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest

from notifications.sinks.answers import Answer, ReceiverError
from notifications.sinks.sender import DISABLED, MOST_AT_ONCE, SinkSender
from notifications.sinks.sink import Sink, SinkKind
from queue_engine.core.jobs.job import Dead, Hold, Outcome, Retry
from tests.unit.notifications.sinks.messages import AT, SITE, job_of, sink

SECOND = timedelta(seconds=1)


class Clock:
    """Moved by the test."""

    def __init__(self) -> None:
        self.at = AT

    def now(self) -> datetime:
        """The test's instant."""
        return self.at

    async def sleep(self, duration: timedelta) -> None:
        """Nothing here sleeps."""
        raise AssertionError("a sender sleeps")


class Receivers:
    """Answers as the test wants, and records what was sent."""

    def __init__(self) -> None:
        self.answers: list[Answer | ReceiverError] = []
        self.sent: list[tuple[str, bytes, dict[str, str]]] = []
        self.hanging: set[str] = set()

    async def __call__(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Take a message."""
        self.sent.append((url, body, dict(headers)))
        if url in self.hanging:
            await asyncio.Event().wait()
        answer = self.answers.pop(0) if self.answers else Answer(200)
        if isinstance(answer, ReceiverError):
            raise answer
        return answer


def setup(*sinks: Sink) -> tuple[SinkSender, Receivers, Clock]:
    """A sender to these sinks."""
    receivers, clock = Receivers(), Clock()
    return SinkSender(sinks, SITE, receivers, clock, random=lambda: 0.5), receivers, clock


async def outcome(answer: Answer | ReceiverError, of: Sink | None = None, **more: Any) -> Outcome | None:
    """What becomes of a message that is answered so."""
    of = of or sink()
    sender, receivers, _ = setup(of)
    receivers.answers = [answer]
    return await sender.send(job_of(of, **more))


SLACK = sink(SinkKind.SLACK, "team")


@pytest.mark.parametrize(
    ("of", "answer", "expected"),
    [
        (sink(), Answer(204), None),
        (sink(), Answer(500), Retry("answered 500")),
        (sink(), Answer(503, 40 * SECOND), Retry("answered 503", delay=40 * SECOND)),
        (sink(), Answer(503, timedelta(days=9)), Retry("answered 503", delay=timedelta(hours=1))),
        (sink(), Answer(404), Retry("answered 404")),
        (sink(), Answer(429, 7 * SECOND), Hold(7 * SECOND, "sink_fails")),
        (sink(), ReceiverError("gave no answer within 10 s"), Retry("gave no answer within 10 s")),
        (SLACK, Answer(400, text="invalid_payload"), Dead("answered 400 invalid_payload", retryable=True)),
        (SLACK, Answer(403, text="action_prohibited"), Dead("answered 403 action_prohibited", retryable=True)),
        (SLACK, Answer(500, text="rollup_error"), Retry("answered 500 rollup_error")),
        (SLACK, Answer(404, text="no_service"), Dead(f"{DISABLED}: it answered 404 no_service", retryable=True)),
        (SLACK, Answer(404, text="channel_not_found"), Dead(f"{DISABLED}: it answered 404 channel_not_found", True)),
        (
            SLACK,
            Answer(410, text="channel_is_archived"),
            Dead(f"{DISABLED}: it answered 410 channel_is_archived", True),
        ),
        (sink(), Answer(410), Dead(f"{DISABLED}: it answered 410", retryable=True)),
        (sink(), Answer(404, text="no_service"), Retry("answered 404")),
        (SLACK, Answer(404, text="<a href=https://x>"), Dead("answered 404", retryable=True)),
        (SLACK, Answer(400, text="e" * 60), Dead(f"answered 400 {'e' * 60}", retryable=True)),
        (SLACK, Answer(400, text="e" * 61), Dead("answered 400", retryable=True)),
    ],
)
async def test_answer_of_a_receiver_decides_about_the_message(
    of: Sink, answer: Answer | ReceiverError, expected: Outcome | None
) -> None:
    """What passes is tried again, what cannot pass is a dead letter at once, and a limit is no failure."""
    assert await outcome(answer, of) == expected


async def test_redirect_is_a_dead_letter_that_says_what_to_set() -> None:
    """The operator learns that the address is not the final one."""
    found = await outcome(Answer(302))
    assert isinstance(found, Dead)
    assert "set the address that it leads to" in found.error


async def test_message_keeps_its_id_at_each_try() -> None:
    """A receiver drops what it has: the id and the body are the same, and only the time differs."""
    of = sink()
    sender, receivers, clock = setup(of)
    receivers.answers = [Answer(404)]
    await sender.send(job_of(of))
    clock.at += timedelta(minutes=4)
    assert await sender.send(job_of(of, attempt=1, claims=2)) is None
    (_, first, before), (_, second, after) = receivers.sent
    assert first == second
    assert before["webhook-id"] == after["webhook-id"] == "msg_0123456789abcdef"
    assert int(after["webhook-timestamp"]) - int(before["webhook-timestamp"]) == 240


async def test_sink_that_fails_is_left_alone_longer_each_time() -> None:
    """Other messages for it wait without a request, and no failure of theirs is counted."""
    of = sink()
    sender, receivers, clock = setup(of)
    waits = []
    for _ in range(5):
        receivers.answers = [ReceiverError("gave no answer")]
        assert isinstance(await sender.send(job_of(of)), Retry)
        held = await sender.send(job_of(of))
        assert isinstance(held, Hold)
        waits.append(held.delay / SECOND)
        clock.at += held.delay
    assert waits == [1, 2, 4, 30, 60]
    assert len(receivers.sent) == 5
    assert await sender.send(job_of(of)) is None
    assert await sender.send(job_of(of)) is None, "a success ends it"


async def test_message_waits_for_a_sink_a_day_at_most() -> None:
    """Then it is a dead letter, which a person can send again."""
    of = sink()
    sender, receivers, _ = setup(of)
    receivers.answers = [Answer(500)]
    await sender.send(job_of(of))
    found = await sender.send(job_of(of, holds={"sink_fails": 288}))
    assert found == Dead("the sink failed for about a day", retryable=True)


async def test_sinks_that_hang_leave_room_for_others() -> None:
    """P5: however many receivers hang, most slots of the worker stay free; a healthy sink waits for a slot only."""
    hanging = [sink(name=f"hangs-{number}") for number in range(MOST_AT_ONCE)]
    healthy = sink(name="healthy")
    sender, receivers, _ = setup(*hanging, healthy)
    receivers.hanging = {each.url for each in hanging}
    tasks = [asyncio.create_task(sender.send(job_of(each))) for each in hanging]
    await asyncio.sleep(0)
    assert len(receivers.sent) == MOST_AT_ONCE
    assert await sender.send(job_of(healthy)) == Hold(SECOND)
    tasks[0].cancel()
    await asyncio.gather(tasks[0], return_exceptions=True)
    assert await sender.send(job_of(healthy)) is None
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_slack_gets_one_message_a_second() -> None:
    """Slack's limit counts for each of its webhooks; another sink does not wait for it."""
    sender, receivers, clock = setup(SLACK, sink())
    assert await sender.send(job_of(SLACK)) is None
    assert await sender.send(job_of(SLACK)) == Hold(SECOND)
    assert await sender.send(job_of(sink())) is None
    clock.at += SECOND
    assert await sender.send(job_of(SLACK)) is None
    assert len(receivers.sent) == 3


async def test_sink_that_is_gone_gets_no_request_any_more() -> None:
    """Its messages are dead letters, which reach the new address after a restart."""
    sender, receivers, _ = setup(SLACK)
    receivers.answers = [Answer(404, text="no_service")]
    await sender.send(job_of(SLACK))
    found = await sender.send(job_of(SLACK))
    assert isinstance(found, Dead)
    assert found.retryable
    assert len(receivers.sent) == 1


async def test_message_of_a_sink_that_was_removed_is_a_dead_letter() -> None:
    """The operator may add the sink again, and send the message."""
    sender, receivers, _ = setup()
    found = await sender.send(job_of(sink()))
    assert isinstance(found, Dead)
    assert "no sink hook" in found.error
    assert receivers.sent == []


def test_sink_shows_no_secret() -> None:
    """A line of the log, or a traceback, may show a sink."""
    assert "secret-address" not in repr(sink())
    assert "keys" not in repr(sink())
    assert sink().host == "hook.example"
