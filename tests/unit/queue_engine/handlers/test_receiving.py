"""P2 of the receiver: what is answered as stored is stored, once, however many deliveries come at the same time."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, cast

import pytest
from sqlalchemy import select

from queue_engine.config.model import Policy
from queue_engine.core.database.database import Database
from queue_engine.core.jobs.job import jobs
from queue_engine.core.jobs.job_store import Jobs
from queue_engine.core.observability.progress import Meter, NullMeter
from queue_engine.core.timing.clock import SystemClock
from queue_engine.domain.errors import StaleRecord
from queue_engine.domain.known_facts import KEPT, Fact, KnownName
from queue_engine.domain.port import GitHub
from queue_engine.effects.context import Change, Engine
from queue_engine.handlers.inbox import Inbox
from queue_engine.handlers.reconciler import Reconciler
from queue_engine.store import Store
from tests.store.examples import NOW
from tests.support.policies import StaticPolicies
from tests.support.unfinished_jobs import unfinished_jobs
from tests.support.webhooks import a_webhook


class Counts:
    """A meter that remembers what was counted, by name and scope."""

    def __init__(self) -> None:
        self.counted: Counter[tuple[str, str]] = Counter()

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        self.counted[name, labels.get("scope", "")] += int(amount)

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        """Nothing is timed here."""


def an_inbox(database: Database, meter: Meter | None = None) -> Inbox:
    """An inbox of its own on this database, as each web process has one; receiving asks GitHub nothing."""
    engine = Engine(
        store=Store(database),
        github=cast(GitHub, None),
        clock=SystemClock(),
        policies=StaticPolicies(Policy()),
        random=lambda: 0.5,
        owner="test",
        meter=meter or NullMeter(),
    )
    return Inbox(engine, Reconciler(engine, interval=timedelta(minutes=10)))


def push(delivery: str, branch: str = "main") -> Any:
    """A hint that a branch moved."""
    return a_webhook(
        "base_moved",
        delivery=delivery,
        installation_id=1,
        repository_id=7,
        branch=branch,
        head_sha="a" * 40,
    )


async def stored_requests(database: Database) -> list[str]:
    """The deliveries that jobs follow, in the order of the jobs."""
    async with database.reading() as connection:
        rows = await connection.execute(select(jobs.c.request_json).order_by(jobs.c.seq))
        return [request["delivery"] for request in rows.scalars()]


async def test_receive_many_at_once_stores_each_once_in_order(database: Database) -> None:
    """A burst is stored whole, each delivery with one job, in the order in which they came."""
    inbox = an_inbox(database)
    guids = [f"guid-{n}" for n in range(300)]
    assert all(await asyncio.gather(*(inbox.receive(push(guid)) for guid in guids)))
    assert await stored_requests(database) == guids


async def test_receive_same_delivery_at_once_and_again_is_new_once(database: Database) -> None:
    """Two of one id in the same instant, one later, and one at another process: one job in all."""
    inbox, other = an_inbox(database), an_inbox(database)
    answers = await asyncio.gather(*(each.receive(push("guid")) for each in (inbox, inbox, other)))
    assert sorted(answers) == [False, False, True]
    assert not await inbox.receive(push("guid"))
    assert await stored_requests(database) == ["guid"]


async def test_receive_counts_new_deliveries_and_known_ones(database: Database) -> None:
    """Their counts show the share of duplicates, regardless of the process that stored the first one."""
    meter = Counts()
    inbox, other = an_inbox(database, meter), an_inbox(database, meter)
    for each, guid in ((inbox, "a"), (inbox, "a"), (other, "a"), (other, "b")):
        await each.receive(push(guid))
    assert meter.counted == {("requests_keyed", "webhook"): 2, ("duplicates", "webhook"): 2}


async def test_receive_failing_transaction_raises_in_all_callers_and_leaves_nothing(database: Database) -> None:
    """When the jobs cannot be stored the deliveries are not known either: a redelivery is taken as new."""
    inbox = an_inbox(database)
    async with database.transaction() as connection:
        await connection.exec_driver_sql("ALTER TABLE jobs RENAME TO away")
    try:
        answers = await asyncio.gather(*(inbox.receive(push(f"guid-{n}")) for n in range(3)), return_exceptions=True)
        assert all(isinstance(answer, Exception) for answer in answers)
    finally:
        async with database.transaction() as connection:
            await connection.exec_driver_sql("ALTER TABLE away RENAME TO jobs")
    assert await inbox.receive(push("guid-0"))


async def test_receive_stores_the_certain_facts_of_a_delivery_once_and_with_it(database: Database) -> None:
    """A redelivery is not newer than its first delivery: its facts may have changed since."""
    fact = Fact(subject="commit a", statement=KnownName())
    webhook = push("guid").model_copy(update={"facts": (fact,)})
    inbox, store = an_inbox(database), Store(database)
    for _ in range(2):
        await inbox.receive(webhook)
    async with store.reading() as tx:
        known = await tx.known.about(7, ["commit a", "commit b"], since=SystemClock().now() - KEPT)
    assert {subject: [one.statement for one in those] for subject, those in known.items()} == {
        "commit a": [fact.statement]
    }


async def test_enqueue_all_of_nothing_stores_nothing(database: Database) -> None:
    """A round in which every delivery was known enqueues no job."""
    async with database.transaction() as connection:
        await Jobs(connection).enqueue_all(kind="k", requests=[], now=NOW)
        assert await unfinished_jobs(Jobs(connection)) == 0


@pytest.mark.parametrize("losses", [1, 2, 3])
async def test_delivery_is_stored_again_after_its_transaction_lost_a_race(
    sqlite_database: Database, monkeypatch: pytest.MonkeyPatch, losses: int
) -> None:
    """P2: a deadlock with a migration must not lose a webhook; the third loss in a row is raised."""
    inbox, change = an_inbox(sqlite_database), Engine.change
    lost: list[Change] = []

    @asynccontextmanager
    async def losing(engine: Engine) -> AsyncGenerator[Change]:
        async with change(engine) as made:
            yield made
            if len(lost) < losses:
                lost.append(made)
                raise StaleRecord("another transaction wanted the same rows")

    monkeypatch.setattr(Engine, "change", losing)
    if losses == 3:
        with pytest.raises(StaleRecord):
            await inbox.receive(push("one"))
        return
    assert await inbox.receive(push("one"))
    assert await stored_requests(sqlite_database) == ["one"]
