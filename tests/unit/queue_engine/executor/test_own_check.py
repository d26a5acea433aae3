"""IMQ's own check before a merge: when the pass may merge, waits, or gives up."""

from datetime import datetime, timedelta

import pytest

from queue_engine.core.database.database import Database
from queue_engine.domain.errors import StaleRecord, Unavailable
from queue_engine.domain.model import Entry, EntryStatus
from queue_engine.domain.reasons import Reason
from queue_engine.effects.context import Change
from queue_engine.effects.notices import pass_own_check
from queue_engine.executor.run_store import EntryUpdates, await_own_check
from queue_engine.planner.actions import Dequeue
from queue_engine.store import Store
from queue_engine.store.outbox.items import OutboxKind
from tests.store.examples import changed
from tests.unit.queue_engine.engine_setup import Setup
from tests.unit.queue_engine.examples import NOW, POLICY, REPOSITORY

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


@pytest.fixture
def scene(sqlite_database: Database) -> Setup:
    return Setup(Store(sqlite_database))


async def passing(scene: Setup, *, ago: timedelta = MINUTE, sent: bool = True, error: str | None = None) -> Entry:
    """The ready front, whose check was to pass on its head so long ago; the dispatcher wrote that, or gave it up."""
    await scene.front(status=EntryStatus.READY, own_check_required=True)
    entry = await present(scene)
    async with scene.store.transaction() as tx:
        await pass_own_check(Change(tx, NOW - ago), entry, POLICY)
        if sent or error is not None:
            item = await tx.outbox.claim(owner="d", now=NOW, lease=MINUTE)
            assert item is not None
            if error is not None:
                await tx.outbox.dead(item, error, NOW, retryable=True)
            else:
                await tx.outbox.done(item, NOW)
    return entry


async def present(scene: Setup) -> Entry:
    async with scene.store.reading() as tx:
        entry = await tx.entries.find(REPOSITORY.id, 1)
    assert entry is not None
    return entry


async def asked(scene: Setup, entry: Entry) -> datetime | Dequeue | None:
    return await await_own_check(scene.engine, entry, POLICY)


async def test_merge_waits_until_github_shows_that_the_check_passes(scene: Setup) -> None:
    """What the outbox has not sent does not count."""
    entry = await passing(scene, sent=False)
    assert await asked(scene, entry) == NOW + timedelta(seconds=10)


async def test_merge_follows_the_check_that_passes_on_its_head_and_no_other(scene: Setup) -> None:
    """P1: a check that passes on a former head opens nothing for this one: IMQ has it pass there first."""
    entry = await passing(scene)
    assert await asked(scene, entry) is None
    await scene.change_entry(head_sha="head-2")
    assert await asked(scene, await present(scene)) == NOW + timedelta(seconds=10)
    async with scene.store.reading() as tx:
        shown = await tx.outbox.wanted(OutboxKind.CHECK_RUN, REPOSITORY.id, 1)
    assert shown is not None
    assert (shown.merges_now, shown.head_sha) == (True, "head-2")


@pytest.mark.parametrize("requested", [None, NOW])
async def test_check_is_withdrawn_while_the_entry_waits_for_a_retry_unless_its_merge_may_have_happened(
    scene: Setup, requested: datetime | None
) -> None:
    """Otherwise people could merge for as long as GitHub fails."""
    entry = await passing(scene)
    waiting = changed(entry, merge_requested_at=requested, github_failures=1)
    await EntryUpdates(scene.engine, POLICY).save_retrying(waiting, NOW + MINUTE, Unavailable("down"), depth=1)
    async with scene.store.reading() as tx:
        shown = await tx.outbox.wanted(OutboxKind.CHECK_RUN, REPOSITORY.id, 1)
    assert shown is not None
    assert shown.merges_now is (requested is not None)


async def test_check_passes_for_no_entry_that_changed_since_it_was_judged(scene: Setup) -> None:
    """P4: a webhook may have withdrawn the consent meanwhile."""
    await scene.front(status=EntryStatus.READY, own_check_required=True)
    judged = await present(scene)
    await scene.change_entry(needs_refetch=True)
    with pytest.raises(StaleRecord):
        await asked(scene, judged)


@pytest.mark.parametrize(
    ("ago", "error", "reason"),
    [(HOUR, None, Reason.GITHUB_TROUBLE), (MINUTE, "403", Reason.PERMISSION_MISSING)],
)
async def test_check_that_cannot_be_written_ends_the_wait(
    scene: Setup, ago: timedelta, error: str | None, reason: Reason
) -> None:
    """P5: after the time limit of an outage, or at once if GitHub refuses it for good."""
    entry = await passing(scene, ago=ago, sent=False, error=error)
    answer = await asked(scene, entry)
    assert isinstance(answer, Dequeue)
    assert answer.reason is reason
