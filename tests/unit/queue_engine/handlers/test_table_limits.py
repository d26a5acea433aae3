"""The timeline is deleted by age, without the events that a decision needs."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import cast

import pytest
import structlog
from sqlalchemy import func, select

from queue_engine.admission import throttle
from queue_engine.config.model import Policy
from queue_engine.core.jobs.job import Job
from queue_engine.core.timing.clock import SystemClock
from queue_engine.domain import known_facts
from queue_engine.domain.known_facts import Fact, Push, of_branch
from queue_engine.domain.model import WHOLE_QUEUE, TimelineEvent
from queue_engine.domain.port import GitHub
from queue_engine.effects.context import Engine
from queue_engine.handlers import table_limits
from queue_engine.handlers.table_limits import SHADOW_KEPT, TableLimits
from queue_engine.store import Store, Transaction, tables
from queue_engine.store.action_records import ActionKind
from queue_engine.store.github_tokens import TokenKey
from queue_engine.store.rejections import Throttle
from queue_engine.store.repositories import ConfigFile
from queue_engine.store.tables import outbox, shadow_pulls
from tests.store.examples import NOW, OTHER, REPOSITORY, queue, stand
from tests.store.outbox.outbox_examples import take, want
from tests.store.test_shadow_pulls import PULL
from tests.support.policies import StaticPolicies

KEPT = timedelta(days=365)
EVENTS = (
    (WHOLE_QUEUE, "paused"),
    (1, "queued"),
    (1, "landed"),
    (2, "queued"),
    (2, "failed"),
    (2, "queued"),
    (2, "cancelled"),
    (3, "queued"),
    (3, "checking"),
    (4, "failed"),
    (4, "landed"),
)
"""Number 1 and 4 landed, 2 was dequeued, and 3 is queued."""


class At(SystemClock):
    """A clock that stays at one instant."""

    def __init__(self, now: datetime) -> None:
        self._now = now

    def now(self) -> datetime:
        return self._now


async def purged(store: Store, *, after: timedelta, kept: timedelta | None = KEPT) -> list[tuple[int, str]]:
    """The events that are left once the job has run so long after the last event."""
    engine = Engine(store, cast(GitHub, None), At(NOW + after), StaticPolicies(Policy()), lambda: 0.5, "test")
    await TableLimits(engine, timeline_kept=kept).purge(cast(Job, None))
    async with store.reading() as tx:
        return [(event.number, event.event) for event in await tx.timeline.since(0, limit=100)]


async def store_events(store: Store) -> None:
    async with store.transaction() as tx:
        await stand(tx, await queue(tx), 3)
        for seconds, (number, event) in enumerate(EVENTS, 1 - len(EVENTS)):
            at = NOW + timedelta(seconds=seconds)
            await tx.timeline.append(TimelineEvent(at, event, REPOSITORY.id, "main", number))


@pytest.mark.parametrize("batch", [1, 1000])
async def test_purge_deletes_old_events_but_not_those_that_a_decision_needs(
    store: Store, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    """P4: what is queued keeps its events, and a label does not count again because a dequeue was forgotten."""
    monkeypatch.setattr(table_limits, "_BATCH", batch)
    await store_events(store)
    with structlog.testing.capture_logs() as lines:
        left = await purged(store, after=KEPT + timedelta(seconds=1))
    assert left == [(2, "cancelled"), (3, "queued"), (3, "checking")]
    assert [(line["event"], line["events"]) for line in lines] == [("timeline_purged", 8)]
    async with store.reading() as tx:
        assert await tx.timeline.dequeued_at(REPOSITORY.id, 2) == NOW - timedelta(seconds=4)


async def test_purge_does_not_mistake_a_pull_request_for_another_repositorys(store: Store) -> None:
    """P4: each repository has a number 2; a refused label stays refused, too."""
    async with store.transaction() as tx:
        await stand(tx, await queue(tx), 3)
        for repository, number, event in (
            (REPOSITORY, 2, "refused"),
            (OTHER, 2, "landed"),
            (OTHER, 3, "landed"),
            (REPOSITORY, 2, "updating"),
        ):
            await tx.timeline.append(TimelineEvent(NOW, event, repository.id, "main", number))
    assert await purged(store, after=2 * KEPT) == [(2, "refused")]


async def test_purge_keeps_events_that_are_younger_and_all_without_an_age(store: Store) -> None:
    """An event is deleted once it is older than the operator's number of days, never before."""
    await store_events(store)
    assert len(await purged(store, after=KEPT - timedelta(minutes=1))) == len(EVENTS)
    assert len(await purged(store, after=10 * KEPT, kept=None)) == len(EVENTS)
    assert await purged(store, after=KEPT - timedelta(seconds=8)) == list(EVENTS[2:])


async def test_purge_of_one_job_is_bounded_and_the_next_job_continues(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A timeline of years is deleted in small transactions, over several sweeps."""
    monkeypatch.setattr(table_limits, "_BATCH", 2)
    monkeypatch.setattr(table_limits, "_MOST_BATCHES", 3)
    async with store.transaction() as tx:
        for number in range(1, 11):
            await tx.timeline.append(TimelineEvent(NOW, "landed", OTHER.id, "main", number))
    assert [number for number, _ in await purged(store, after=2 * KEPT)] == [7, 8, 9, 10]
    assert await purged(store, after=2 * KEPT) == []


HOUR = timedelta(hours=1)
AGES = {
    outbox: timedelta(days=30),
    shadow_pulls: SHADOW_KEPT,
    tables.known_facts: known_facts.KEPT,
    tables.throttles: throttle.KEPT,
    tables.installation_tokens: HOUR,
    tables.configuration_files: HOUR,
    tables.audit_log: KEPT,
}
"""How long each table keeps its rows; `tests/acceptance/test_purge.py` has keys and replies."""


async def store_one_of_each(tx: Transaction, number: int, ago: dict[object, timedelta]) -> None:
    """A row in each of the tables, written so long ago; none belongs to a queued pull request."""
    at = {table: NOW - before for table, before in ago.items()}
    await want(tx, number=number, now=at[outbox])
    await tx.outbox.done(await take(tx, now=at[outbox]), at[outbox])
    await tx.shadow.put(replace(PULL, number=number), at[shadow_pulls])
    fact = Fact(subject=of_branch("main"), statement=Push(before="old", after="new"))
    await tx.known.record(REPOSITORY.id, [fact], at[tables.known_facts])
    await tx.throttles.put(REPOSITORY.id, f"ada-{number}", Throttle(1, at[tables.throttles]))
    await tx.installation_tokens.put(TokenKey(number, None, "read"), "sealed", at[tables.installation_tokens])
    await tx.configuration_files.put(f"file-{number}", 0, ConfigFile(None), at[tables.configuration_files])
    kind, at_once = ActionKind.TOKEN_REVOKED, at[tables.audit_log]
    await tx.actions.add(kind, "ops", by="root", via="command_line", at=at_once)


async def test_purge_deletes_what_has_expired_from_each_table_and_nothing_younger(store: Store) -> None:
    """No table grows for good: a webhook's facts, GitHub's tokens and delivered comments are for a time only."""
    second = timedelta(seconds=1)
    async with store.transaction() as tx:
        await store_one_of_each(tx, 1, {table: age + second for table, age in AGES.items()})
        await store_one_of_each(tx, 2, {table: age - second for table, age in AGES.items()})
    await purged(store, after=timedelta(0))
    async with store.reading() as tx:
        left = {table.name: await tx.connection.scalar(select(func.count()).select_from(table)) for table in AGES}
    assert left == {table.name: 1 for table in AGES}
