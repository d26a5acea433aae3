"""Send stored messages, each as a job: once at least, in order as far as no message fails, and bounded.

A killed process sends a message again, with the same id. A sink that fails is left alone for a while, longer each time
(`backoff.TROUBLE`), and its messages wait; so a receiver that hangs occupies a slot rarely, and no other sink waits for
it. At most `MOST_AT_ONCE` of the worker's slots send messages.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

import structlog

from notifications.sinks.answers import Answer, ReceiverError, Verdict, asked_wait, described, judge
from notifications.sinks.message_text import Site, link, next_step, queue_link, sentence
from notifications.sinks.sink import SINK_JOBS, Message, Sink, SinkKind, headers
from notifications.sinks.slack import slack_payload
from queue_engine.core.jobs.job import Dead, Hold, Job, Outcome, Retry
from queue_engine.core.jobs.worker import Handler
from queue_engine.core.timing import backoff
from queue_engine.core.timing.clock import Clock
from queue_engine.domain.facts import as_data

MOST_AT_ONCE = 4
"""How many messages are on their way at once; a worker has 16 slots."""

DISABLED = "the sink is disabled until IMQ restarts"
"""Begins the error of each message to a receiver that is gone; `imq doctor` looks for it."""

_SLOT_WAIT = timedelta(seconds=1)
_SLACK_PACE = timedelta(seconds=1)
"""Slack takes one message a second by each of its webhooks."""

_QUIET, _MOST_HOLDS = "sink_fails", 288
"""How often one message waits for a sink that fails: about a day."""

_log = structlog.get_logger("imq.sinks")


def request_to(
    sink: Sink, message: Message, site: Site, *, message_id: str, at: datetime
) -> tuple[bytes, Mapping[str, str]]:
    """Return body and headers. The id is a job's, which stays at each try, also from the dead letters."""
    if sink.kind is SinkKind.SLACK:
        return slack_payload(message, site), {}
    body = payload(message, site)
    return body, headers(f"msg_{message_id}", at, body, sink.keys)


class SinkCall(Protocol):
    """Sends a request to a receiver. Raises ReceiverError."""

    async def __call__(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Send one POST of JSON; follow no redirect."""
        ...


@dataclass(slots=True)
class _State:
    """What this process knows of a sink's receiver."""

    failures: int = 0
    not_before: datetime | None = None
    """Until then the sink is left alone, because it failed or asks for that."""
    paced_until: datetime | None = None
    gone: str | None = None
    """Why no message is sent there any more."""


class SinkSender:
    """Sends the messages of all sinks."""

    def __init__(
        self, sinks: Iterable[Sink], site: Site, post: SinkCall, clock: Clock, *, random: Callable[[], float]
    ) -> None:
        self._sinks = {sink.name: sink for sink in sinks}
        self._states = {name: _State() for name in self._sinks}
        self._site = site
        self._post = post
        self._clock = clock
        self._random = random
        self._sending = 0

    def handlers(self) -> dict[str, Handler]:
        """Return the handlers of the jobs that send messages, by kind."""
        return dict.fromkeys(SINK_JOBS.values(), self.send)

    async def send(self, job: Job) -> Outcome | None:
        name = str(job.request["sink"])
        sink = self._sinks.get(name)
        if sink is None:
            return Dead(f"IMQ_SINKS has no sink {name}: add it again, or discard this message", retryable=True)
        state = self._states[name]
        if state.gone is not None:
            return Dead(f"{DISABLED}: it {state.gone}", retryable=True)
        if (waits := self._waits(state, job)) is not None:
            return waits
        message = Message.model_validate(job.request["message"])
        body, signed = request_to(sink, message, self._site, message_id=job.id, at=self._clock.now())
        if sink.kind is SinkKind.SLACK:
            state.paced_until = self._clock.now() + _SLACK_PACE
        self._sending += 1
        try:
            answer = await self._post(sink.url, body, signed)
        except ReceiverError as error:
            return self._failed(sink, state, str(error), None)
        finally:
            self._sending -= 1
        return self._judged(sink, state, answer)

    def _waits(self, state: _State, job: Job) -> Outcome | None:
        """Return the outcome if the message cannot be sent now."""
        now = self._clock.now()
        if state.not_before is not None and state.not_before > now:
            if job.holds.get(_QUIET, 0) >= _MOST_HOLDS:
                return Dead("the sink failed for about a day", retryable=True)
            return Hold(state.not_before - now, _QUIET)
        if state.paced_until is not None and state.paced_until > now:
            return Hold(state.paced_until - now)
        return Hold(_SLOT_WAIT) if self._sending >= MOST_AT_ONCE else None

    def _judged(self, sink: Sink, state: _State, answer: Answer) -> Outcome | None:
        words = described(sink.kind, answer)
        match judge(sink.kind, answer):
            case Verdict.SENT:
                state.failures, state.not_before = 0, None
                return None
            case Verdict.LIMITED:
                asked = asked_wait(answer) or backoff.longest(backoff.TROUBLE, state.failures)
                self._leave_alone(state, asked)
                return Hold(asked, _QUIET)
            case Verdict.OVERLOADED:
                return self._failed(sink, state, words, asked_wait(answer))
            case Verdict.REFUSED:
                return Retry(words, delay=asked_wait(answer))
            case Verdict.DEAD:
                return Dead(words, retryable=True)
            case Verdict.GONE:
                state.gone = words
                _log.error("sink_disabled", sink=sink.name, error=words)
                return Dead(f"{DISABLED}: it {words}", retryable=True)

    def _failed(self, sink: Sink, state: _State, words: str, asked: timedelta | None) -> Retry:
        """Leave the sink alone for a while, and count the failure of the message."""
        delay = backoff.wait(backoff.TROUBLE, state.failures, random=self._random, asked=asked)
        state.failures += 1
        if state.failures == 1:
            _log.warning("sink_fails", sink=sink.name, error=words)
        self._leave_alone(state, delay)
        return Retry(words, delay=asked)

    def _leave_alone(self, state: _State, wait: timedelta) -> None:
        state.not_before = self._clock.now() + wait


def payload(message: Message, site: Site) -> bytes:
    """Return the body: the same bytes at each try, as receivers verify the signature over them."""
    content = {
        "type": message.kind.value,
        "timestamp": message.at.isoformat().replace("+00:00", "Z"),
        "data": _data(message, site),
    }
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


def _data(message: Message, site: Site) -> dict[str, Any]:
    base = message.base_branch or "the base branch"
    return {
        "event": message.event,
        "reason": None if message.reason is None else message.reason.value,
        "sentence": sentence(message, base),
        "next_step": next_step(message, base),
        "whose_move": message.whose_move,
        "repository": message.repository,
        "base_branch": message.base_branch,
        "pull_request": _pull_request(message, site),
        "link": link(message, site),
        "queue": queue_link(message, site),
        "by": message.by,
        "until": message.until,
        "before": message.before,
        "sha": message.sha,
        "detail": message.detail,
        "failing": as_data(message.failing),
    }


def _pull_request(message: Message, site: Site) -> dict[str, Any] | None:
    if message.number is None:
        return None
    return {
        "number": message.number,
        "title": message.title,
        "author": message.author,
        "url": link(message, site),
    }
