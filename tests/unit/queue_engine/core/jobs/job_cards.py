"""Cards of all jobs, as a person would keep them by hand, beside the job store."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, TypeVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
)
from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.core.database.database import Database
from queue_engine.core.jobs.dead_letters import DeadLetters
from queue_engine.core.jobs.job import POISON_DEATHS, Job, LeaseLost, failed_jobs, jobs
from queue_engine.core.jobs.job_store import Jobs
from tests.support.unfinished_jobs import unfinished_jobs

T = TypeVar("T")
START = datetime(2026, 1, 1, 12, tzinfo=UTC)
LEASE = timedelta(seconds=30)
FINISHED = ("COMPLETED", "FAILED")
COLUMNS = (
    "id",
    "process_id",
    "priority",
    "status",
    "attempt",
    "deaths",
    "claims",
    "owner",
    "leased_until",
    "error_message",
)


@dataclass(frozen=True)
class Card:
    """A job on paper. `life` distinguishes a job from itself after it was done again."""

    life: int
    id: str
    process: str
    priority: int
    not_before: datetime
    status: str = "PENDING"
    attempt: int = 0
    deaths: int = 0
    claims: int = 0
    owner: str | None = None
    leased_until: datetime | None = None
    error: str | None = None


def deaths(card: Card) -> int:
    """As the next claim counts them."""
    return card.deaths + (card.status == "IN_PROGRESS")


@dataclass(frozen=True)
class Buried:
    """A dead letter on paper."""

    card: Card
    retryable: bool
    at: datetime


class JobCards(RuleBasedStateMachine):
    """`cards` lie in the order of arrival; `held` is what workers hold, or believe to hold; `dead` is by id."""

    def __init__(self, runner: asyncio.Runner, database: Database) -> None:
        super().__init__()
        self._runner = runner
        self._database = database
        self._lives = count()
        self.now = START
        self.cards: list[Card] = []
        self.held: list[tuple[Job, Card]] = []
        self.dead: dict[str, Buried] = {}
        self._within(self._start_empty)

    async def _start_empty(self, connection: AsyncConnection) -> None:
        for table in (jobs, failed_jobs):
            await connection.execute(delete(table))

    def _within(self, operation: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        async def run() -> T:
            async with self._database.transaction() as connection:
                return await operation(connection)

        return self._runner.run(run())

    def _jobs(self, operation: Callable[[Jobs], Awaitable[T]]) -> T:
        return self._within(lambda connection: operation(Jobs(connection)))

    def _dead(self, operation: Callable[[DeadLetters], Awaitable[T]]) -> T:
        return self._within(lambda connection: operation(DeadLetters(connection)))

    def _change(self, card: Card, **changes: Any) -> Card:
        changed = replace(card, **changes)
        self.cards[self.cards.index(card)] = changed
        return changed

    def _settle(self, card: Card, **changes: Any) -> Card:
        return self._change(card, owner=None, leased_until=None, **changes)

    def _order(self, card: Card) -> tuple[int, int]:
        return -card.priority, self.cards.index(card)

    def _in_order(self, card: Card) -> bool:
        place = self.cards.index(card)
        company = [(n, c) for n, c in enumerate(self.cards) if c.process == card.process and n != place]
        ahead = [c for n, c in company if n < place]
        behind = [c for n, c in company if n > place]
        if card.status == "IN_PROGRESS":
            return all(c.status != "IN_PROGRESS" for c in ahead)
        if any(c.status == "IN_PROGRESS" or (c.status == "PENDING" and c.error is None) for c in ahead):
            return False
        return all(c.status != "IN_PROGRESS" for c in behind)

    def _next(self, limit: int, *, poison: bool = True) -> list[Card]:
        cards = [c for c in self.cards if (poison or deaths(c) < POISON_DEATHS) and self._in_order(c)]
        free = [c for c in cards if c.status == "PENDING" and c.not_before <= self.now]
        lost = [c for c in cards if c.leased_until and c.leased_until <= self.now]
        found = sorted(free, key=self._order)[:limit] + sorted(lost, key=self._order)[:limit]
        first: dict[str, Card] = {}
        for card in sorted(found, key=self._order):
            if len(first) < limit:
                first.setdefault(card.process, card)
        return list(first.values())

    def _of(self, cards: list[Card]) -> list[Card]:
        """All but the second and later of those whose workers died again and again."""
        put_off = [card for card in cards if deaths(card) >= POISON_DEATHS][1:]
        return [card for card in cards if card not in put_off]

    def _draw(self, data: st.DataObject) -> tuple[Job, Card | None]:
        """What some worker believes to hold, and the card if it does hold it."""
        job, card = data.draw(st.sampled_from(self.held[-5:]))
        claim = (card.life, card.owner, card.claims)
        standing = [c for c in self.cards if (c.life, c.owner, c.claims) == claim and c.status == "IN_PROGRESS"]
        return job, next(iter(standing), None)

    def _refused(self, operation: Callable[[Jobs], Awaitable[object]]) -> None:
        with pytest.raises(LeaseLost):
            self._jobs(operation)

    async def _read(self, connection: AsyncConnection) -> tuple[Any, ...]:
        rows = await connection.execute(select(*(jobs.c[name] for name in COLUMNS)).order_by(jobs.c.seq))
        letters = await DeadLetters(connection).list(1000)
        store = Jobs(connection)
        return (
            [tuple(row) for row in rows],
            {letter.id: (letter.attempts, letter.retryable, letter.failed_at) for letter in letters},
            await store.next_due(),
            await unfinished_jobs(store),
        )
