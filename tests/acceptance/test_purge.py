"""What is long done with is dropped, whatever else goes wrong."""

from datetime import timedelta
from pathlib import Path

import pytest

from github_emulator import Fault
from queue_engine.core.jobs.idempotency import KEPT
from queue_engine.domain.model import TimelineEvent
from queue_engine.domain.notice import CommandReply
from queue_engine.handlers.lost_deliveries import DELIVERIES
from queue_engine.handlers.table_limits import PURGED_EVERY
from queue_engine.store.outbox import outbox
from tests.acceptance.world import World, a_world
from tests.store.test_landing_records import record


@pytest.mark.thorough
async def test_what_has_expired_is_purged_also_while_github_is_down(world: World) -> None:
    """A job of its own with the first sweep of each hour: a sweep that fails does not let the tables grow."""
    world.server.faults.add(Fault(kind="fail", status=503, times=None))
    now = world.clock.now()
    async with world.bot.engine.store.transaction() as tx:
        await tx.keys.record(DELIVERIES, [("expired", "push")], now - KEPT)
        await tx.keys.record(DELIVERIES, [("remembered", "push")], now)
        answer = CommandReply(at=now - outbox.KEPT, by="mona", replies=())
        await tx.answers.put(1, 1, 1, answer)
        await tx.answers.put(1, 1, 2, answer.model_copy(update={"at": now}))
        for age in (366, 364):
            await tx.timeline.append(TimelineEvent(now - timedelta(days=age), "landed", 1, "main", age))
    await world.pass_time(PURGED_EVERY + timedelta(minutes=1))
    async with world.bot.engine.store.reading() as tx:
        # At the instant at which it was recorded it would still be known, were it there.
        assert not await tx.keys.known(DELIVERIES, "expired", now - KEPT)
        assert await tx.keys.known(DELIVERIES, "remembered", now)
        assert await tx.answers.find(1, 1, comment_id=1) is None
        assert await tx.answers.find(1, 1, comment_id=2) is not None
        assert [event.number for event in await tx.timeline.since(0, limit=1000)] == [364], (
            "a year is what operators get unasked"
        )


async def test_records_of_landings_are_kept_as_long_as_the_operator_says(tmp_path: Path) -> None:
    """A setting of their own, which nothing else follows."""
    async with a_world(tmp_path, settings={"IMQ_LANDINGS_DAYS": "30"}) as world:
        now = world.clock.now()
        async with world.bot.engine.store.transaction() as tx:
            for age in (31, 29):
                await tx.landings.add(record(age), now - timedelta(days=age), None, ())
                await tx.timeline.append(TimelineEvent(now - timedelta(days=age), "queued", 1, "main", age))
        await world.pass_time(PURGED_EVERY + timedelta(minutes=1))
        async with world.bot.engine.store.reading() as tx:
            assert [each.number for each in await tx.landings.since(None, 9)] == [29]
            assert [event.number for event in await tx.timeline.since(0, limit=9)] == [31, 29]
        async with world.bot.engine.store.transaction() as tx:
            await tx.landings.purge(now, at_most=9)
