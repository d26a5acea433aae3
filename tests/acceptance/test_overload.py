"""GitHub overloaded: every queue waits by itself in the series, through hints and restarts, then begins again."""

from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from github_emulator import Fault
from tests.acceptance.world import CI_TIME, LABEL, World

CHECKS = "GET /repos/{owner}/{repo}/commits/{ref}/check-runs"
UPDATE = "PUT /repos/{owner}/{repo}/pulls/{number}/update-branch"
SERIES = (1, 2, 4, 30, 60, 120, 240, 300, 300)


async def wake_queues(world: World) -> None:
    """Something happens that calls for attention, as a webhook does."""
    async with world.bot.engine.change() as change:
        for queue in await change.tx.queues.all():
            await change.tx.queues.wake(queue.id, change.now)


async def test_queue_in_an_outage_backs_off_through_webhooks_and_restarts(world: World) -> None:
    """P5, P7: 1, 2, 4, then 30 to 300 seconds, kept in the database; success restarts it; others go on."""
    world.repository.create_branch("release")
    pull, other = world.open("slow"), world.open("quick", base="release")
    for each in (pull, other):
        each.label(LABEL, by="mona")
    await world.until_status(pull, "checking")
    fault = world.server.faults.add(
        Fault(kind="fail", status=503, times=None, route=CHECKS, when=lambda exchange: pull.head_sha in exchange.path)
    )
    await world.until(lambda: fault.hits == 1)
    while fault.hits < len(SERIES):
        await wake_queues(world)
        await world.pass_time(timedelta(seconds=29))
        if fault.hits == 6:
            await world.kill()
            await world.restart()
    tries = [request.at for request in world.server.requests if request.fault and request.template == CHECKS]
    waits = [(later - earlier).total_seconds() for earlier, later in pairwise(tries)]
    assert waits[:3] == pytest.approx(SERIES[:3], rel=0.1, abs=0.2)
    assert waits[3:] == pytest.approx(SERIES[3:8], abs=0.5)
    assert other.merged, "the other queue of the installation had no trouble"
    world.server.faults.clear()
    await world.until(lambda: pull.merged, within=timedelta(minutes=6))
    await begins_again(world)


async def test_update_held_back_for_longer_than_an_update_may_take_is_made_afterwards(world: World) -> None:
    """P5: no entry leaves the queue because of the time that GitHub asked to wait."""
    pull = await world.behind("add")
    fault = world.server.faults.add(Fault(kind="secondary_limit", route=UPDATE, status=429, retry_after=3000, times=2))
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged)
    assert (fault.hits, await world.reasons(pull)) == (2, [])


async def begins_again(world: World) -> None:
    """The next trouble of the queue is waited out in seconds, not in minutes."""
    pull = world.open("next")
    await world.pass_time(CI_TIME * 2)
    start: datetime = world.clock.now()
    world.server.faults.add(Fault(kind="fail", status=503, method="GET", route=CHECKS, times=2))
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged)
    assert world.clock.now() - start < CI_TIME + timedelta(seconds=30)
