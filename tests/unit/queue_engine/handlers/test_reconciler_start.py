"""When the sweep is asked for: at the start, every interval, after an outage, and never too often."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from queue_engine.core.database.database import Database
from queue_engine.core.database.outage import ReadOnly
from queue_engine.domain.errors import StaleRecord
from queue_engine.domain.model import EntryStatus
from queue_engine.handlers.reconciler import SWEEP_JOB, Reconciler
from queue_engine.store import Store
from queue_engine.store.entries import Entries
from tests.store.examples import LEASE
from tests.support.real_time import LIMIT
from tests.unit.bot.conftest import ManualClock
from tests.unit.queue_engine.engine_setup import Setup
from tests.unit.queue_engine.examples import REPOSITORY

INTERVAL = timedelta(minutes=10)


class Sweeping:
    """A process that sweeps, and may be restarted."""

    def __init__(self, database: Database) -> None:
        self.scene, self.clock = Setup(Store(database)), ManualClock()
        self.engine = replace(self.scene.engine, clock=self.clock)
        self.start()

    def start(self) -> None:
        self.sweeper = Reconciler(self.engine, interval=INTERVAL)

    async def begun(self) -> int:
        """How many sweeps are due now; they are done."""
        async with self.scene.store.transaction() as tx:
            jobs = await tx.jobs.claim_some(9, owner="t", now=self.clock.instant, lease=LEASE)
            await tx.jobs.finish(jobs)
            sweeps = [job for job in jobs if job.kind == SWEEP_JOB]
            if sweeps:
                await tx.sweeps.done(SWEEP_JOB, self.clock.instant)
        return len(sweeps)


@pytest.fixture
def sweeping(sqlite_database: Database) -> Sweeping:
    return Sweeping(sqlite_database)


async def test_sweep_that_could_not_be_stored_is_still_due(sweeping: Sweeping, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that is away when a sweep is due costs no ten minutes."""

    async def away(*_: Any) -> None:
        raise ReadOnly("a standby")

    with monkeypatch.context() as patched:
        patched.setattr(sweeping.sweeper, "request_deliveries", away)
        with pytest.raises(ReadOnly):
            await sweeping.sweeper.run_due()
    assert await sweeping.sweeper.run_due()
    assert not await sweeping.sweeper.run_due()
    assert await sweeping.sweeper.next_due() == sweeping.clock.instant + INTERVAL


async def test_sweep_after_an_outage_is_due_at_once_and_polls_checks(sweeping: Sweeping) -> None:
    """IMQ answered webhooks with 503 meanwhile: only a poll finds that a check has completed."""
    await sweeping.scene.front(status=EntryStatus.CHECKING)
    assert await sweeping.sweeper.run_due()
    sweeping.clock.instant += timedelta(minutes=1)
    waiter = sweeping.engine.wakeup.waiter(())
    sweeping.sweeper.schedule_now()
    async with asyncio.timeout(LIMIT):
        await waiter.wait(timedelta(hours=1))
    assert await sweeping.sweeper.run_due()
    async with sweeping.scene.store.reading() as tx:
        entry = await tx.entries.find(REPOSITORY.id, 1)
    assert entry is not None
    assert entry.run.next_poll_at == sweeping.clock.instant


async def test_sweep_polls_checks_although_an_entry_changes_meanwhile(
    sweeping: Sweeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that changes the entry polls it; the sweep polls the fronts of other queues."""
    await sweeping.scene.front(status=EntryStatus.CHECKING)

    async def stale(*_: Any) -> None:
        raise StaleRecord("the entry of pull request 1 is no longer at version 1")

    monkeypatch.setattr(Entries, "save", stale)
    assert await sweeping.sweeper.run_due()
    assert await sweeping.sweeper.next_due() == sweeping.clock.instant + INTERVAL


async def test_sweeps_of_processes_that_start_again_and_again_begin_half_a_minute_apart(sweeping: Sweeping) -> None:
    """P7: a sweep costs requests; one that is not yet due serves all requests for a sweep."""
    begun = 0
    for _ in range(60):
        sweeping.start()
        assert await sweeping.sweeper.run_due()
        begun += await sweeping.begun()
        sweeping.clock.instant += timedelta(seconds=1)
    assert begun == 2
    await sweeping.sweeper.request(renew=True)
    assert await sweeping.begun() == 1, "repositories that are known to have changed do not wait"
