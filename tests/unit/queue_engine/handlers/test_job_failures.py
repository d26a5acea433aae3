"""What becomes of the engine's jobs when something is in their way, on a real worker."""

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, cast

import pytest
from sqlalchemy import select
from structlog.testing import capture_logs

from queue_engine.config.model import Policy
from queue_engine.core.database.database import Database
from queue_engine.core.jobs.dead_letters import DeadLetter
from queue_engine.core.jobs.job import jobs
from queue_engine.core.jobs.job_store import Jobs
from queue_engine.core.jobs.worker import Worker, WorkerSettings
from queue_engine.core.observability.progress import Meter, NullMeter
from queue_engine.core.observability.trace import of_delivery
from queue_engine.domain.errors import (
    Disorder,
    Forbidden,
    Invalid,
    NotFound,
    RateLimitError,
    Refused,
    StaleRecord,
    Unauthorized,
    Unavailable,
    is_retryable,
)
from queue_engine.domain.facts import RepositoryState
from queue_engine.domain.model import Repository
from queue_engine.domain.port import GitHub
from queue_engine.domain.webhooks import WEBHOOK_JOB
from queue_engine.effects.context import Engine
from queue_engine.handlers.inbox import RETRIED_JOB, Inbox
from queue_engine.handlers.reconciler import REPOSITORY_JOB, SWEEP_JOB, Reconciler
from queue_engine.store import Store
from queue_engine.store.outbox.items import OUTBOX_JOB
from tests.store.examples import LEASE, NOW, REPOSITORY
from tests.support.policies import StaticPolicies
from tests.support.webhooks import a_webhook


class Clock:
    """A clock that stays at one instant."""

    def now(self) -> datetime:
        return NOW

    async def sleep(self, duration: timedelta) -> None:
        raise AssertionError("nobody sleeps here")


class Refusing:
    """A GitHub of which every question is answered with the same error, until there is none."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error

    async def own_login(self) -> str:
        if self.error is not None:
            raise self.error
        return "imq"

    async def installations(self) -> tuple[int, ...]:
        if self.error is not None:
            raise self.error
        return (REPOSITORY.installation_id,)

    async def repositories(self, installation_id: int) -> tuple[Any, ...]:
        return (REPOSITORY,)

    async def repository(self, repository: Repository) -> RepositoryState:
        return RepositoryState(repository.owner, repository.name, archived=False)

    async def latest_pull_requests(self, repository: object) -> tuple[Any, ...]:
        raise NotFound("Not Found", status=404)


class RecordedHandler:
    """A worker with the handlers of the engine."""

    def __init__(self, database: Database, github: Refusing, *, meter: Meter | None = None) -> None:
        self.engine = Engine(
            store=Store(database),
            github=cast(GitHub, github),
            clock=Clock(),
            policies=StaticPolicies(Policy()),
            random=lambda: 0.5,
            owner="test",
            meter=meter or NullMeter(),
        )
        self.sweeper = Reconciler(self.engine, interval=timedelta(minutes=10))
        self.inbox = Inbox(self.engine, self.sweeper)
        self.worker = Worker(
            database, Clock(), self.inbox.handlers(), WorkerSettings("test", lambda: 0.5, is_retryable=is_retryable)
        )

    async def work(self) -> None:
        with capture_logs():
            await self.worker.run_due()

    async def dead(self) -> tuple[DeadLetter, ...]:
        async with self.engine.store.reading() as tx:
            return await tx.dead_letters.list(100)


def labeled(delivery: str = "guid") -> Any:
    """A label was set."""
    return a_webhook(
        "labeled",
        delivery=delivery,
        installation_id=1,
        repository_id=7,
        owner="o",
        name="r",
        number=1,
        label="merge-queue",
        sender="ann",
    )


@pytest.mark.parametrize(
    ("error", "wait"),
    [
        (RateLimitError("slow down", retry_after=timedelta(minutes=17)), timedelta(minutes=17)),
        (Unavailable("no answer"), timedelta(seconds=1)),
        (RuntimeError("a bug"), timedelta(seconds=1)),
    ],
)
async def test_webhook_job_that_met_a_passing_error_is_tried_later(
    database: Database, error: Exception, wait: timedelta
) -> None:
    """Limits, an outage and our own faults cost a wait, not the webhook."""
    handler = RecordedHandler(database, Refusing(error))
    await handler.inbox.receive(labeled())
    await handler.work()
    assert await handler.worker.next_due() == NOW + wait
    assert await handler.dead() == ()


async def test_webhook_job_that_lost_a_race_is_tried_at_once(database: Database) -> None:
    """Another worker changed the same thing: read again, decide again."""
    github = Refusing(StaleRecord("entry 1"))
    handler = RecordedHandler(database, github)
    await handler.inbox.receive(labeled())
    await handler.worker.start_due()
    await handler.worker.drain()
    assert await handler.worker.next_due() == NOW
    assert await handler.dead() == ()


@pytest.mark.parametrize(
    ("error", "retryable"),
    [
        (Forbidden("Resource not accessible", status=403), True),
        (NotFound("Not Found", status=404), False),
        (Invalid("Validation Failed", status=422), False),
    ],
)
async def test_webhook_job_that_github_refuses_is_dead_at_once(
    database: Database, error: Exception, retryable: bool
) -> None:
    """IMQ retries no 4xx that would repeat; after an operator grants a permission, a retry is worthwhile."""
    handler = RecordedHandler(database, Refusing(error))
    await handler.inbox.receive(labeled())
    await handler.work()
    (letter,) = await handler.dead()
    assert (letter.job_type, letter.attempts, letter.retryable) == (WEBHOOK_JOB, 1, retryable)
    assert letter.error_message == f"{type(error).__name__}: {error}"


@pytest.mark.parametrize(
    "error",
    [
        Unauthorized("Bad credentials", status=401),
        Refused("Resource not accessible by integration", status=403),
        Refused("This installation has been suspended", status=403, disorder=Disorder.SUSPENDED),
    ],
)
async def test_webhook_job_that_github_may_accept_later_waits(database: Database, error: Exception) -> None:
    """P2: for a key that is replaced, for trouble that passes, and for an installation that is out of order."""
    handler = RecordedHandler(database, Refusing(error))
    await handler.inbox.receive(labeled())
    await handler.worker.start_due()
    await handler.worker.drain()
    assert (await handler.worker.next_due() or NOW) > NOW
    assert await handler.dead() == ()


async def test_webhook_job_that_cannot_be_read_is_dead_at_once(database: Database) -> None:
    """Written by another version: it will never be readable, and stops no other job."""
    handler = RecordedHandler(database, Refusing())
    async with database.transaction() as connection:
        await Jobs(connection).enqueue(kind=WEBHOOK_JOB, request={"kind": "unheard of"}, process_id="p", now=NOW)
    await handler.work()
    (letter,) = await handler.dead()
    assert (letter.attempts, letter.retryable) == (1, False)
    assert letter.error_message.startswith("ValidationError: ")


async def test_webhook_jobs_that_are_stored_together_keep_the_trace_of_each(database: Database) -> None:
    """A burst shares transactions, not traces."""
    handler = RecordedHandler(database, Refusing())
    guids = [f"72d3162e-cc78-11e3-81ab-4c9367dc09{n:02}" for n in range(5)]
    waiting = []
    for guid in guids:
        with of_delivery(guid):
            waiting.append(asyncio.create_task(handler.inbox.receive(labeled(guid))))
    await asyncio.gather(*waiting)
    async with database.reading() as connection:
        stored = await connection.execute(select(jobs.c.request_json, jobs.c.trace))
        traces = {request["delivery"]: trace.split("-")[1] for request, trace in stored}
    assert traces == {guid: guid.replace("-", "") for guid in guids}


async def test_dead_outbox_item_is_sent_again_when_a_person_retries_it(database: Database) -> None:
    """IMQ retries it like any dead job, and it is due at once with all its tries."""
    handler = RecordedHandler(database, Refusing())
    async with handler.engine.change() as change:
        await change.tx.outbox.want_label(REPOSITORY, 1, "merge-queue", on=False, due=NOW)
        letter = await change.tx.outbox.claim(owner="w", now=NOW, lease=LEASE)
        assert letter is not None
        await change.tx.outbox.dead(letter, "Forbidden: locked", NOW, retryable=True)
    (dead,) = await handler.dead()
    assert dead.job_type == OUTBOX_JOB
    async with handler.engine.change() as change:
        assert await change.tx.dead_letters.reprocess(dead.id, NOW)
    await handler.work()
    async with handler.engine.change() as change:
        again = await change.tx.outbox.claim(owner="w", now=NOW, lease=LEASE)
    assert again is not None
    assert (again.label, again.attempts) == ("merge-queue", 0)
    assert await handler.dead() == ()
    assert await handler.worker.next_due() is None


async def test_sweep_that_failed_for_good_is_forgotten_when_the_next_one_is_asked_for(database: Database) -> None:
    """A sweep comes every ten minutes: what is refused each time is one dead letter, not one more each time."""
    github = Refusing(Invalid("no", status=422))
    handler = RecordedHandler(database, github)
    for _ in range(3):
        await handler.sweeper.request()
        await handler.work()
    assert [letter.job_type for letter in await handler.dead()] == [SWEEP_JOB]
    github.error = None
    for _ in range(3):
        await handler.sweeper.request()
        for _ in range(3):
            await handler.work()
    (letter,) = await handler.dead()
    assert letter.job_type == REPOSITORY_JOB
    assert letter.error_message == "NotFound: repository acme/rocket: Not Found"


async def test_retries_by_command_are_counted_by_a_worker(database: Database) -> None:
    """The command's own process is gone before anybody asks it for figures."""
    counted: dict[str, float] = {}

    class Counting(NullMeter):
        def count(self, name: str, amount: float = 1, **labels: str) -> None:
            if name == "jobs_reprocessed":
                counted[labels["kind"]] = amount

    handler = RecordedHandler(database, Refusing(), meter=Counting())
    async with handler.engine.change() as change:
        await change.tx.jobs.enqueue(kind=RETRIED_JOB, request={"webhook": 2, "letter": 1}, process_id="x", now=NOW)
    await handler.work()
    assert counted == {"webhook": 2, "letter": 1}


async def test_rename_that_a_webhook_reports_is_stored_before_any_request(database: Database) -> None:
    """Queues, entries and outbox items refer to the id; the next request uses the new name."""
    handler = RecordedHandler(database, Refusing())
    async with handler.engine.change() as change:
        await change.tx.queues.find_or_create(REPOSITORY, "main", NOW)
    renamed = a_webhook(
        "installed",
        delivery="guid",
        action="renamed",
        installation_id=REPOSITORY.installation_id,
        repository_id=REPOSITORY.id,
        owner="acme",
        name="gears",
    )
    await handler.inbox.receive(renamed)
    await handler.work()
    async with handler.engine.store.reading() as tx:
        (queue,) = await tx.queues.all()
    assert queue.repository == replace(REPOSITORY, name="gears")
