""" "Re-run" on IMQ's own check: which pull requests are read again, and what becomes of the check."""

import pytest

from queue_engine.core.database.database import Database
from queue_engine.domain.model import EntryStatus
from queue_engine.domain.notice import NoticeKind
from queue_engine.effects.context import Change
from queue_engine.effects.notices import notice_of, want_check_run
from queue_engine.handlers.check_events import rerun_requested
from queue_engine.store import Store
from tests.support.webhooks import a_webhook
from tests.unit.queue_engine.engine_setup import Setup
from tests.unit.queue_engine.examples import MINUTE, NOW, POLICY, REPOSITORY


@pytest.mark.parametrize(
    ("shown", "merges_now", "read", "due"),
    [(True, False, True, True), (True, True, True, False), (False, False, False, False)],
    ids=["under way", "passes for the merge", "no check run of IMQ"],
)
async def test_rerun_reads_by_the_head_and_answers_in_a_check_that_does_not_pass_for_the_merge(
    sqlite_database: Database, shown: bool, merges_now: bool, read: bool, due: bool
) -> None:
    """GitHub names no pull request of a fork in a check's webhook. P1: a check that passes stays as it is."""
    scene = Setup(Store(sqlite_database))
    await scene.front(status=EntryStatus.READY)
    async with scene.store.transaction() as tx:
        entry = await tx.entries.find(REPOSITORY.id, 1)
        assert entry is not None
        if shown:
            notice = notice_of(entry, NoticeKind.READY, POLICY, NOW, merges_now=merges_now)
            await want_check_run(Change(tx, NOW), entry, notice, POLICY)
            item = await tx.outbox.claim(owner="d", now=NOW, lease=MINUTE)
            assert item is not None
            await tx.outbox.done(item, NOW)
    webhook = a_webhook("rerun", delivery="d", installation_id=1, sender="kim", head_sha="head-1", numbers=())
    await rerun_requested(scene.engine, webhook)
    async with scene.store.reading() as tx:
        stored = await tx.entries.find(REPOSITORY.id, 1)
        state = await tx.outbox.check_run(REPOSITORY.id, 1)
        events = [each.event for each in await tx.timeline.of_pull_request(REPOSITORY.id, 1)]
    assert stored is not None
    assert (stored.needs_refetch, events) == (read, ["read_again"] if read else [])
    assert (state is not None and not state.shown) is due
