"""Parameters of calls about a pull request: its head, and its priority."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from bot.api.payload import Payload
from queue_engine.commands.table import MAX_POINTS

_HEAD = r"^([0-9a-f]{40}|[0-9a-f]{64})$"
"""A full SHA."""


class HeadCall(Payload):
    """Parameters of a call about a pull request: the reviewed head, as a full SHA."""

    head_sha: str | None = Field(None, pattern=_HEAD)


def _integer(value: object) -> object:
    """Convert `10.0` to an integer: JSON has one kind of number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Points = Annotated[int, Field(strict=True, ge=-MAX_POINTS, le=MAX_POINTS), BeforeValidator(_integer)]
Priority = Points | Literal["high", "normal", "low"]
"""Points, or one of the levels that commands accept."""


class QueueCall(HeadCall):
    """Parameters of queueing: the head, and the priority as points, or `high`, `normal`, `low`."""

    priority: Priority | None = None


class PriorityCall(Payload):
    """Parameters of a priority change: points, or `high`, `normal`, `low`."""

    priority: Priority
