"""A bot whose clock is set wrong for a while, and then right: GitHub refuses it meanwhile, and nothing is lost."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import func, select

from queue_engine.core.database.database import DatabaseInstant, metadata
from tests.acceptance.starting import SharedClock, start_bot
from tests.acceptance.world import CI_TIME, LABEL, World, a_world
from tests.support.unfinished_jobs import unfinished_jobs

HOUR = timedelta(hours=1)


class SetClock(SharedClock):
    """The bot's own clock: the world's time, and what it was set wrong by."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._right = world.clock
        self.wrong_by = timedelta(0)

    def now(self) -> datetime:
        return self._right.now() + self.wrong_by

    async def sleep(self, duration: timedelta) -> None:
        await self._right.sleep(duration)


async def put_together_again(world: World, clock: SetClock) -> None:
    """As a process does when it sees that its clock was set back."""
    await world.kill()
    world.bot, world.runner = await start_bot(world.environment, clock)
    world._point_webhooks()


async def furthest_ahead(world: World) -> timedelta:
    """How far ahead of now the latest instant lies that anything waits for or counts from."""
    latest = datetime.min.replace(tzinfo=UTC)
    async with world.bot.database.reading() as connection:
        for table in metadata.sorted_tables:
            for column in table.columns:
                if isinstance(column.type, DatabaseInstant) and column.name not in ("at", "expires_at"):
                    found = (await connection.execute(select(func.max(column)))).scalar_one()
                    latest = latest if found is None else max(latest, found)
    return latest - world.clock.now()


@pytest.mark.thorough("a year ahead", "a year back")
@pytest.mark.parametrize(
    "wrong_by",
    [HOUR, timedelta(days=400), -HOUR, timedelta(days=-400)],
    ids=["an hour ahead", "a year ahead", "an hour back", "a year back"],
)
async def test_clock_set_wrong_and_right_again_lands_everything_once(tmp_path: Path, wrong_by: timedelta) -> None:
    """Leases, waits and checks of the time in between end within their bounds, and no entry is ejected for it."""
    async with a_world(tmp_path) as world:
        clock = SetClock(world)
        await put_together_again(world, clock)
        before, during = world.open("before"), world.open("during")
        # GitHub proves a label whose webhook was lost only where no push came in the minute before it.
        await world.pass_time(timedelta(minutes=2))
        before.label(LABEL, by="mona")
        await world.until_status(before, "checking")
        clock.wrong_by = wrong_by
        if wrong_by < timedelta(0):
            await put_together_again(world, clock)
        during.label(LABEL, by="mona")
        await world.pass_time(CI_TIME * 2)
        clock.wrong_by = timedelta(0)
        if wrong_by > timedelta(0):
            await put_together_again(world, clock)
        assert await furthest_ahead(world) <= HOUR
        await world.until(lambda: before.merged and during.merged, within=HOUR + CI_TIME * 3)
        await world.pass_time(HOUR)
        assert sorted(world.landed()) == [before.number, during.number]
        for pull in (before, during):
            assert "anded" in world.comment(pull)
            assert await world.reasons(pull) == []
        async with world.bot.engine.store.reading() as tx:
            # GitHub's refusal of a token is final for a job: it is shown, and the sweep has done what it was about.
            assert {letter.job_type for letter in await tx.dead_letters.list(9)} <= {"webhook"}
            assert await unfinished_jobs(tx.jobs) == 0
