"""P3: a failure of GitHub's delays an answer, and costs no entry its position."""

from datetime import timedelta

import pytest
from sqlalchemy import func, select, update

from github_emulator import Fault
from queue_engine.core.jobs.job import jobs
from tests.acceptance.world import CI_TIME, LABEL, World


@pytest.mark.thorough
async def test_label_whose_pull_request_could_not_be_read_at_first_keeps_its_place(world: World) -> None:
    """The second label is answered after the first, once GitHub's trouble has passed."""
    front, first, second = world.open("front"), world.open("first"), world.open("second")
    await world.pass_time(CI_TIME * 2)
    world.repository.push("main", {"moved.py": "moved\n"}, "Move the base", by="rhea")
    front.label(LABEL, by="mona")
    await world.until_status(front, "checking")
    world.server.faults.add(Fault(kind="fail", route="/graphql", status=502))
    first.label(LABEL, by="mona")
    await world.pass_time(timedelta(milliseconds=100))
    second.label(LABEL, by="mona")
    await world.pass_time(timedelta(milliseconds=300))
    assert [entry.number for entry in await world.entries()] == [front.number]
    await world.pass_time(timedelta(seconds=10))
    assert [entry.number for entry in await world.entries()] == [front.number, first.number, second.number]


async def test_label_whose_worker_was_killed_does_not_overtake_one_that_waited_for_a_worker(world: World) -> None:
    """Both count from the instant at which their webhooks were stored, however late a worker came to each."""
    front, first, second = world.open("front"), world.open("first"), world.open("second")
    await world.pass_time(CI_TIME * 2)
    world.repository.push("main", {"moved.py": "moved\n"}, "Move the base", by="rhea")
    front.label(LABEL, by="mona")
    await world.until_status(front, "checking")
    for pull in (first, second):
        pull.label(LABEL, by="mona")
        await world.github.schedule.run_due()
        world.clock.set(world.clock.now() + timedelta(seconds=2))
    async with world.bot.engine.change() as change:
        newest = select(func.max(jobs.c.seq)).scalar_subquery()
        await change.tx.connection.execute(update(jobs).where(jobs.c.seq == newest).values(claims=1))
    await world.pass_time(timedelta(seconds=10))
    assert [entry.number for entry in await world.entries()] == [front.number, first.number, second.number]
