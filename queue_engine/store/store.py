"""The store: everything the queue keeps, by noun, within transactions."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import datetime
from enum import StrEnum
from functools import partial

from sqlalchemy import select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.core.database import Database
from queue_engine.core.dead_letters import DeadLetters
from queue_engine.core.idempotency import Keys
from queue_engine.core.job_table import NEXT_DUE as NEXT_JOB
from queue_engine.core.jobs import Jobs
from queue_engine.core.listen import Voice
from queue_engine.core.meter import Meter, Silent
from queue_engine.core.outage import lost_race
from queue_engine.errors import StaleVersion
from queue_engine.store.answers import Answers
from queue_engine.store.depths import Depths
from queue_engine.store.entries import Entries
from queue_engine.store.figures import Figures
from queue_engine.store.held import Held
from queue_engine.store.known import KnownFacts
from queue_engine.store.outbox import Outbox
from queue_engine.store.outbox_statements import NEXT_DUE as NEXT_LETTER
from queue_engine.store.pace import Pace
from queue_engine.store.processes import Processes
from queue_engine.store.queues import NEXT_DUE as NEXT_QUEUE
from queue_engine.store.queues import Queues
from queue_engine.store.red_bases import RedBases
from queue_engine.store.refusals import Refusals
from queue_engine.store.stalls import Stalls
from queue_engine.store.sweeps import Sweeps
from queue_engine.store.throttles import Throttles
from queue_engine.store.timeline import Timeline
from queue_engine.store.tokens import Tokens


class Due(StrEnum):
    """What can become due by a transaction: each is waited for by another loop."""

    JOBS = "jobs"
    QUEUES = "queues"
    LETTERS = "letters"


_NEXT_DUE = select(*(each.scalar_subquery() for each in (NEXT_JOB, NEXT_QUEUE, NEXT_LETTER)))


class Transaction:
    """The nouns of the store, bound to one connection: what is done through them holds together or not at all.

    `due` tells what may have become due by it, now or later.
    """

    def __init__(self, connection: AsyncConnection, meter: Meter | None = None) -> None:
        self.connection = connection
        self.due: set[Due] = set()
        self.queues = Queues(connection, partial(self.due.add, Due.QUEUES))
        self.red_bases = RedBases(connection, self.queues.wake)
        self.stalls = Stalls(connection, self.queues.wake)
        self.entries = Entries(connection)
        self.timeline = Timeline(connection)
        self.refusals = Refusals(connection)
        self.throttles = Throttles(connection)
        self.answers = Answers(connection)
        self.held = Held(connection)
        self.known = KnownFacts(connection)
        self.sweeps = Sweeps(connection)
        self.pace = Pace(connection)
        self.processes = Processes(connection)
        self.tokens = Tokens(connection)
        self.figures = Figures(connection)
        self.depths = Depths(connection)
        self.keys = Keys(connection)
        self.jobs = Jobs(connection, partial(self.due.add, Due.JOBS))
        self.dead_letters = DeadLetters(connection, partial(self.due.add, Due.JOBS), meter=meter)
        self.outbox = Outbox(connection, partial(self.due.add, Due.LETTERS), dead_letters=self.dead_letters)

    async def dues(self) -> dict[Due, datetime]:
        """When the next job, queue and letter can be taken: instants that may be past; none of what does not wait."""
        found = zip(Due, (await self.connection.execute(_NEXT_DUE)).one(), strict=True)
        return {each: due for each, due in found if due is not None}

    async def next_due(self) -> datetime | None:
        """When the next job, queue or letter can be taken: an instant that may be past; None if nothing waits."""
        return min((await self.dues()).values(), default=None)


class Store:
    """The way to everything that is kept in one database. The caller closes the database."""

    def __init__(self, database: Database, *, meter: Meter | None = None) -> None:
        self.database = database
        self._meter = meter or Silent()
        self.voice = Voice()
        """Tells other processes what became due, at each commit."""

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Transaction]:
        """A transaction that may write: whole at its end, or not at all on any exception. Never nest two.

        Raises StaleVersion when PostgreSQL ended it because of another one. Write entries before queues, so that no two
        transactions wait for each other.
        """
        try:
            async with self.database.transaction() as connection:
                tx = Transaction(connection, self._meter)
                yield tx
                await self.voice.tell(connection, tx.due)
        except DBAPIError as error:
            if lost_race(error):
                raise StaleVersion("another transaction wanted the same rows") from error
            raise

    @asynccontextmanager
    async def reading(self) -> AsyncGenerator[Transaction]:
        """A view of one instant, in which nothing can be written."""
        async with self.database.reading() as connection:
            yield Transaction(connection)
