"""Tables and statements of the queue: one module per noun, bound to the connection of one transaction."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from enum import StrEnum
from functools import cached_property, partial
from typing import TypeVar

from cachetools import LRUCache
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.core.database.database import Database
from queue_engine.core.database.listener import DatabaseNotifier
from queue_engine.core.database.outage import lost_race
from queue_engine.core.jobs.dead_letters import DeadLetters, FollowUp, no_follow_up
from queue_engine.core.jobs.idempotency import Keys
from queue_engine.core.jobs.job_store import Jobs
from queue_engine.core.observability.progress import Meter, NullMeter
from queue_engine.domain.consent import HeadConsent
from queue_engine.domain.errors import EntryConflict, StaleRecord
from queue_engine.store.action_records import ActionRecords
from queue_engine.store.consents import Consents, Ledgers
from queue_engine.store.culprits import Culprits
from queue_engine.store.departures import Departures, PendingMerges, Statistics
from queue_engine.store.entries import Entries, QueueBatch
from queue_engine.store.figures import Figures, Processes, RateLimits
from queue_engine.store.github_tokens import GitHubSecrets, GitHubTokens
from queue_engine.store.known import KnownFacts, ReconcilerState
from queue_engine.store.landing_records import LandingKeys, LandingRecords
from queue_engine.store.outbox.outbox import CommandReplies, Outbox
from queue_engine.store.proof_marks import ProofMarks
from queue_engine.store.queues import Depths, Pauses, Queues, RedBases, Stalls
from queue_engine.store.rejections import Rejections, Throttles
from queue_engine.store.repositories import ConfigFiles, Repositories
from queue_engine.store.request_records import Requests
from queue_engine.store.runs import CandidateCommits, Runs
from queue_engine.store.sessions import Sessions
from queue_engine.store.shadow_pulls import Shadow
from queue_engine.store.timeline import Timeline, TimelineReads
from queue_engine.store.tokens import Tokens
from queue_engine.store.trains import TrainMemories

__all__ = ["WakeupKind", "EntryConflict", "Store", "Transaction"]


class WakeupKind(StrEnum):
    """Work that a transaction can make due; one loop waits for each kind."""

    JOBS = "jobs"
    QUEUES = "queues"
    OUTBOX = "outbox"
    TIMELINE = "timeline"
    """Events to be shown to subscribers in all processes."""


_MOST_LEDGERS = 1000


N = TypeVar("N")
T = TypeVar("T")


def _of(noun: Callable[[AsyncConnection], N]) -> cached_property[N]:
    """Return the property that makes a noun at its first use."""
    return cached_property(lambda transaction: noun(transaction.connection))


class Transaction:
    """The nouns of the store, bound to one connection: their changes are committed together or not at all.

    `due` has the kinds of work that the transaction may have made due, now or later. Each noun is made at its first
    use: most transactions use two or three.
    """

    def __init__(
        self,
        connection: AsyncConnection,
        meter: Meter | None = None,
        *,
        follow_up: FollowUp = no_follow_up,
        ledgers: Ledgers | None = None,
    ) -> None:
        self.connection = connection
        self._ledgers = ledgers
        self.due: set[WakeupKind] = set()
        self._meter = meter
        self._follow_up = follow_up

    actions = _of(ActionRecords)
    answers = _of(CommandReplies)
    candidate_commits = _of(CandidateCommits)
    configuration_files = _of(ConfigFiles)
    culprits = _of(Culprits)
    departures = _of(Departures)
    depths = _of(Depths)
    entries = _of(Entries)
    figures = _of(Figures)
    github_secrets = _of(GitHubSecrets)
    installation_tokens = _of(GitHubTokens)
    keys = _of(Keys)
    known = _of(KnownFacts)
    landing_keys = _of(LandingKeys)
    landings = _of(LandingRecords)
    pace = _of(RateLimits)
    pending_merges = _of(PendingMerges)
    processes = _of(Processes)
    proof_marks = _of(ProofMarks)
    rejections = _of(Rejections)
    repositories = _of(Repositories)
    requests = _of(Requests)
    runs = _of(Runs)
    sessions = _of(Sessions)
    shadow = _of(Shadow)
    statistics = _of(Statistics)
    sweeps = _of(ReconcilerState)
    throttles = _of(Throttles)
    timeline_reads = _of(TimelineReads)
    tokens = _of(Tokens)
    trains = _of(TrainMemories)

    @cached_property
    def queues(self) -> Queues:
        return Queues(self.connection, partial(self.due.add, WakeupKind.QUEUES))

    @cached_property
    def queue_batch(self) -> QueueBatch:
        return QueueBatch(self.connection, self.queues)

    @cached_property
    def pauses(self) -> Pauses:
        return Pauses(self.connection, self.queues.wake)

    @cached_property
    def red_bases(self) -> RedBases:
        return RedBases(self.connection, self.queues.wake)

    @cached_property
    def consents(self) -> Consents:
        return Consents(self.connection, self._ledgers)

    @cached_property
    def stalls(self) -> Stalls:
        return Stalls(self.connection, self.queues.wake)

    @cached_property
    def timeline(self) -> Timeline:
        return Timeline(self.connection, partial(self.due.add, WakeupKind.TIMELINE))

    @cached_property
    def jobs(self) -> Jobs:
        return Jobs(self.connection, partial(self.due.add, WakeupKind.JOBS))

    @cached_property
    def dead_letters(self) -> DeadLetters:
        due = partial(self.due.add, WakeupKind.JOBS)
        return DeadLetters(self.connection, due, meter=self._meter, follow_up=self._follow_up)

    @cached_property
    def outbox(self) -> Outbox:
        return Outbox(self.connection, partial(self.due.add, WakeupKind.OUTBOX), dead_letters=self.dead_letters)


class Store:
    """Transactions on one database. The caller closes the database."""

    def __init__(self, database: Database, *, meter: Meter | None = None, follow_up: FollowUp = no_follow_up) -> None:
        """`follow_up` names the jobs that a dead letter causes."""
        self.database = database
        self._meter = meter or NullMeter()
        self._follow_up = follow_up
        self._ledgers = LRUCache[str, tuple[HeadConsent, ...]](_MOST_LEDGERS)
        self.notifier = DatabaseNotifier()
        """Notifies other processes of due work, at each commit."""

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Transaction]:
        """Begin a transaction that may write. It commits at its end, and rolls back on any exception. Never nest two.

        Raises StaleRecord when PostgreSQL rolled it back because of another one. Write entries before queues, so that
        no two transactions wait for each other.
        """
        try:
            async with self.database.transaction() as connection:
                tx = Transaction(connection, self._meter, follow_up=self._follow_up, ledgers=self._ledgers)
                yield tx
                await self.notifier.send(connection, tx.due)
        except DBAPIError as error:
            if lost_race(error):
                raise StaleRecord("another transaction wanted the same rows") from error
            raise

    @asynccontextmanager
    async def reading(self) -> AsyncGenerator[Transaction]:
        """Begin a read-only transaction on a snapshot of one instant."""
        async with self.database.reading() as connection:
            yield Transaction(connection)

    async def read(self, what: Callable[[Transaction], Awaitable[T]]) -> T:
        """Return what one call reads, in a `reading` of its own."""
        async with self.reading() as tx:
            return await what(tx)

    async def write(self, what: Callable[[Transaction], Awaitable[T]]) -> T:
        """Make one call that may write, in a `transaction` of its own; returns its result. Raises StaleRecord."""
        async with self.transaction() as tx:
            return await what(tx)
