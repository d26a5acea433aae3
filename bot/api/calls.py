"""Parameters of calls about a pull request: its head, and its priority."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from bot.api.payload import Payload
from queue_engine.commands.table import MOST_POINTS

_HEAD = r"^([0-9a-f]{40}|[0-9a-f]{64})$"
"""A whole SHA."""


class HeadCall(Payload):
    """What a caller may say about the pull request: the head that was looked at, as a whole SHA."""

    head_sha: str | None = Field(None, pattern=_HEAD)


def _whole(value: object) -> object:
    """JSON knows one kind of number: `10.0` is the integer that its schema calls it."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Points = Annotated[int, Field(strict=True, ge=-MOST_POINTS, le=MOST_POINTS), BeforeValidator(_whole)]
Priority = Points | Literal["high", "normal", "low"]
"""Points, or one of the words that commands know."""


class QueueCall(HeadCall):
    """The same, and with which priority it is to stand there: points, or `high`, `normal`, `low`."""

    priority: Priority | None = None


class PriorityCall(Payload):
    """The priority that it is to have: points, or `high`, `normal`, `low`."""

    priority: Priority
