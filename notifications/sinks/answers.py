"""Judge what a receiver answered: sent, try again, wait, given up, or gone. Pure.

Slack's errors: api.slack.com/changelog/2016-05-17, and the list of routeforms.com's decoder. Slack takes one message a
second (docs.slack.dev, "Rate limits"; PSSlack #52 measured the same).
"""

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, auto

from notifications.sinks.sink import SinkKind

LONGEST_WAIT = timedelta(hours=1)
"""How long IMQ waits at most because a receiver asks for that."""

_GONE = frozenset({"no_service", "no_team", "invalid_token", "channel_not_found", "channel_is_archived"})
"""Slack's errors after which this address never works again."""
_OVERLOADED = frozenset({408, 425})
_LONGEST_ERROR = 60
"""Characters: a longer word is none of Slack's errors."""


class Verdict(Enum):
    """What IMQ does about an answer."""

    SENT = auto()
    LIMITED = auto()
    """The receiver asks to wait: no failure of the message."""
    OVERLOADED = auto()
    """Try again, and leave the receiver alone meanwhile."""
    REFUSED = auto()
    """Try again; other messages may pass."""
    DEAD = auto()
    """Another try cannot help."""
    GONE = auto()
    """The receiver does not exist any more: no message is sent there until IMQ restarts."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a receiver, as far as IMQ reads it."""

    status: int
    retry_after: timedelta | None = None
    text: str = ""
    """The first bytes of the body."""


class ReceiverError(Exception):
    """The receiver did not answer. The message says how, without the address."""


def judge(kind: SinkKind, answer: Answer) -> Verdict:
    """Return what an answer means."""
    status, error = answer.status, answer.text.strip()
    if 200 <= status < 300:
        return Verdict.SENT
    if status == 429:
        return Verdict.LIMITED
    if status == 410 or (kind is SinkKind.SLACK and 400 <= status < 500 and error in _GONE):
        return Verdict.GONE
    if status >= 500 or status in _OVERLOADED:
        return Verdict.OVERLOADED
    if 300 <= status < 400:
        return Verdict.DEAD
    # A webhook's receiver may answer 404 during its deployment; Slack's errors are final.
    return Verdict.DEAD if kind is SinkKind.SLACK else Verdict.REFUSED


def described(kind: SinkKind, answer: Answer) -> str:
    """Describe an answer that is no success."""
    if 300 <= answer.status < 400:
        return f"answered {answer.status}, a redirect, which IMQ does not follow: set the address that it leads to"
    # Others' error pages are long, and may quote the address.
    error = answer.text.strip()
    is_word = error.isascii() and error.replace("_", "").isalnum() and len(error) <= _LONGEST_ERROR
    named = kind is SinkKind.SLACK and is_word
    return f"answered {answer.status}{f' {error}' if named else ''}"


def asked_wait(answer: Answer) -> timedelta | None:
    """Return how long the receiver asks to wait, at least a second and at most `LONGEST_WAIT`; None if it does not."""
    if answer.retry_after is None:
        return None
    return min(max(answer.retry_after, timedelta(seconds=1)), LONGEST_WAIT)
