"""Bodies of the calls that queue many pull requests, and the request of each job."""

from datetime import datetime
from typing import Self

from pydantic import ConfigDict, Field, model_validator

from bot.api.answers import StateAnswer
from bot.api.calls import QueueCall
from bot.api.payload import AnswerModel, Payload

MOST = 100
"""Pull requests of one call."""


class BulkItem(QueueCall):
    """A pull request to queue: its number, and as for a single call its head and its priority."""

    number: int = Field(ge=1, lt=10**9)


class BulkCall(Payload):
    """The pull requests to queue, in this order; each number once."""

    pulls: tuple[BulkItem, ...] = Field(min_length=1, max_length=MOST)

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        numbers = [each.number for each in self.pulls]
        if len(set(numbers)) < len(numbers):
            raise ValueError("a number is given more than once")
        return self


class BulkRequest(AnswerModel):
    """The request of one job: the pull request, and on whose behalf."""

    model_config = ConfigDict(frozen=True)

    token_id: str
    owner: str
    """Whose calls may read the results: the person, or else the token."""
    repository_id: int
    item: BulkItem
    created_at: datetime


class BulkResult(StateAnswer):
    """The result for one pull request; `status` is that of a single call, null while IMQ has not come to it."""

    number: int
    status: int | None
    error: str | None = None


class ProcessAnswer(AnswerModel):
    """A call that queues many pull requests: how far it is, and the results one by one, in the order of the call."""

    process_id: str
    repository: str
    state: str = Field(description="`running` or `done`")
    progress: str = Field(examples=["3 of 7"])
    done: int
    total: int
    expires_at: datetime
    results: tuple[BulkResult, ...]
    version: str = ""
