"""Which entries wait for a scarce runner, and what is announced of that."""

from collections.abc import Awaitable
from dataclasses import replace

import pytest

from queue_engine.config.model import Policy
from queue_engine.core.database.database import Database
from queue_engine.domain.errors import Unavailable
from queue_engine.domain.facts import RequiredCheck
from queue_engine.domain.model import Entry
from queue_engine.domain.policy import RunSlots
from queue_engine.domain.reasons import Reason
from queue_engine.executor.run_slots import set_aside_for_runner
from queue_engine.store import Store
from tests.unit.queue_engine.engine_setup import Setup
from tests.unit.queue_engine.examples import CHECKING, HOUR, MINUTE, NOW, POLICY, report
from tests.unit.queue_engine.queues import entries, events, second

ONE = replace(POLICY, capacity=(RunSlots("gpu", ("gpu",), 1),))
ALONE = replace(ONE, checks=replace(POLICY.checks, queue_only=frozenset({RequiredCheck("gpu", None)})))


@pytest.fixture
def scene(sqlite_database: Database) -> Setup:
    return Setup(Store(sqlite_database))


async def two(scene: Setup) -> tuple[Entry, Entry]:
    """One whose run needs the runner, and one behind it."""
    queue = await scene.front(status=CHECKING)
    await second(scene, queue)
    front, behind = await entries(scene, queue)
    scene.engine.checks_of_heads[(front.repository.id, front.queued_head)] = {"gpu": True}
    return front, behind


@pytest.mark.parametrize(("policy", "lost", "waits"), [(ONE, False, False), (ALONE, False, True), (ONE, True, True)])
async def test_entry_waits_if_its_run_may_need_the_runner(
    scene: Setup, policy: Policy, lost: bool, waits: bool
) -> None:
    """Its head ran other checks; the queue alone may run one that needs it, and rules that no read shows may, too."""

    async def unavailable() -> None:
        raise Unavailable("no answer")

    _, behind = await two(scene)
    scene.github.reports = (report("ci"),)
    if lost:
        scene.github.meanwhile["rules"] = unavailable
    assert await set_aside_for_runner(scene.engine, [behind], policy, active=()) is waits


async def test_wait_is_announced_once_and_not_for_one_that_another_run_tests(scene: Setup) -> None:
    """P6: IMQ asks for a free runner each half minute, and announces it once."""
    _, behind = await two(scene)
    scene.github.reports = (report("gpu"),)

    def judged(*active: int) -> Awaitable[bool]:
        return set_aside_for_runner(scene.engine, [behind], ONE, active=active)

    assert await judged(behind.number)
    assert await events(scene) == []
    for _ in range(2):
        assert await judged()
        async with scene.store.reading() as tx:
            behind = await tx.entries.get(behind.id) or behind
    assert [(number, reason) for number, _, reason in await events(scene)] == [(2, Reason.RUNNERS_BUSY)]


@pytest.mark.parametrize("asks", [True, False])
async def test_runner_is_kept_for_an_earlier_one_only_while_its_queue_asks_for_it(scene: Setup, asks: bool) -> None:
    """P5: a queue that is paused since keeps no runner from others."""
    queue = await scene.front()
    async with scene.store.transaction() as tx:
        other = await tx.queues.find_or_create(queue.repository, "release", NOW)
    until = NOW + MINUTE if asks else NOW - MINUTE
    await second(scene, other, blocked_for="gpu: 1 of 1 busy", blocked_since=NOW - HOUR, blocked_until=until)
    scene.github.reports = (report("gpu"),)
    [front] = await entries(scene, queue)
    assert await set_aside_for_runner(scene.engine, [front], ONE, active=()) is asks
