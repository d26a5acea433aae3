"""P5: an error of IMQ's own on one pull request blocks no queue, and people learn of it."""

import re
from collections.abc import Collection
from datetime import timedelta
from typing import Any

import pytest

from queue_engine.domain.facts import CheckReport, RequiredCheck
from queue_engine.domain.model import Repository
from queue_engine.domain.reasons import Reason
from queue_engine.effects import record
from queue_engine.executor import queue_pass
from tests.acceptance.world import LABEL, World

MINUTE = timedelta(minutes=1)


async def fail_on(world: World, monkeypatch: pytest.MonkeyPatch, pull: Any, *, times: int = 10_000) -> list[str]:
    """Have each pass fail that reads the checks of this pull request; the heads that it was tried on."""
    tried: list[str] = []
    gateway = world.bot.gateway
    read = gateway.check_reports

    async def fails(repository: Repository, sha: str, required: Collection[RequiredCheck]) -> tuple[CheckReport, ...]:
        if sha == pull.head_sha and len(tried) < times:
            tried.append(sha)
            raise RuntimeError("out of order")
        return await read(repository, sha, required)

    monkeypatch.setattr(gateway, "check_reports", fails)
    return tried


async def wake(world: World) -> None:
    """A hint comes."""
    async with world.bot.engine.store.transaction() as tx:
        for queue in await tx.queues.all():
            await tx.queues.wake(queue.id, world.clock.now())


@pytest.mark.thorough
async def test_pull_request_on_which_passes_fail_leaves_and_the_next_one_lands(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The errors are counted across a restart, hints shorten no wait, and the operator finds the trace."""
    first, second = await world.behind("first"), world.open("second")
    tried = await fail_on(world, monkeypatch, first)
    for pull in (first, second):
        pull.label(LABEL, by="mona")
    await world.until(lambda: len(tried) == 2)
    await world.kill()
    await world.restart()
    again = await fail_on(world, monkeypatch, first)
    for _ in range(20):
        await wake(world)
        await world.pass_time(timedelta(seconds=5))
    assert await world.status(first) is not None
    await world.until(lambda: second.merged, within=timedelta(minutes=30))
    assert await world.reasons(first) == [Reason.INTERNAL_ERROR.value]
    assert 4 <= len(tried + again) <= 9
    await world.pass_time(MINUTE)
    assert first.labels == []
    comment = world.comment(first)
    assert "RuntimeError, trace " in comment
    assert "out of order" not in comment
    assert re.search(r"^imq_pass_errors_total\{[^}]*\} [1-9]", await world.bot.reporter.page(), re.MULTILINE)


@pytest.mark.thorough
async def test_pull_request_on_which_a_pass_failed_once_lands(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass that succeeds resets the count."""
    pull = await world.behind("pull")
    await fail_on(world, monkeypatch, pull, times=3)
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged)
    assert await world.reasons(pull) == []
    async with world.bot.engine.store.reading() as tx:
        assert [queue.errors for queue in await tx.queues.all()] == [0]


@pytest.mark.thorough
async def test_pull_request_whose_dequeue_fails_too_leaves_all_the_same(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What people are to read is made from the same entry, and may be what is wrong."""
    world.unsettled = "its announcement failed by a fault of IMQ, which an operator reads in the log"
    first, second = await world.behind("first"), world.open("second")
    await fail_on(world, monkeypatch, first)

    async def fails(*_: Any, **__: Any) -> None:
        raise TypeError("no words")

    monkeypatch.setattr(record, "announce_dequeued", fails)
    for pull in (first, second):
        pull.label(LABEL, by="mona")
    await world.until(lambda: second.merged, within=timedelta(minutes=30))
    assert await world.reasons(first) == [Reason.INTERNAL_ERROR.value]


async def test_queue_whose_passes_fail_before_they_choose_an_entry_is_paused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No entry is blamed; the alert for paused queues fires."""
    pull = await world.behind("pull")

    async def fails(*_: Any) -> None:
        raise KeyError("state")

    monkeypatch.setattr(queue_pass, "find_members", fails)
    pull.label(LABEL, by="mona")
    await world.pass_time(9 * MINUTE)
    assert await world.paused() is None
    await world.pass_time(6 * MINUTE)
    assert await world.paused() == Reason.INVARIANT_BROKEN.value
    assert await world.status(pull) == "pending"
