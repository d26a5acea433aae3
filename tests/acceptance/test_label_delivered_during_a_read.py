"""P2: GitHub answers a read without the label, and IMQ's outbox sets the label before IMQ judges the answer.

The outbox delivers while passes and jobs run.
"""

from typing import Any

import pytest

from queue_engine.admission.case import load_case
from queue_engine.admission.revalidate import revalidate
from queue_engine.domain.model import Entry
from tests.acceptance.test_label_early import DRAFT
from tests.acceptance.world import CI_TIME, LABEL, World


def deliver_after_the_next_read(world: World, pull: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Have the outbox set the label once IMQ has compared its next read of the pull request; returns what was read."""
    reads, delivered = world.bot.engine.github, list[str]()

    def deliver_after(name: str) -> None:
        read = getattr(reads, name)

        async def slow_read(*args: Any, **options: Any) -> Any:
            answer = await read(*args, **options)
            if not delivered:
                delivered.append(name)
                assert LABEL not in pull.labels
                await world.bot.dispatcher.run_due()
                assert LABEL in pull.labels
            return answer

        monkeypatch.setattr(reads, name, slow_read)

    deliver_after("pull_request")
    deliver_after("snapshot")
    return delivered


async def queue_by_command(world: World, pull: Any) -> Entry:
    """Queue it by a comment; the outbox has not set the label yet."""
    pull.comment("/queue", by="mona")
    for _ in range(6):
        await world.github.schedule.run_due()
        await world.bot.worker.run_due()
    async with world.bot.engine.store.reading() as tx:
        entry = await tx.entries.find(world.repository.record.id, pull.number)
    assert entry is not None
    return entry


@pytest.mark.parametrize("first", ["scheduler", "worker"])
async def test_label_that_is_set_while_a_queued_pull_request_is_read_is_not_missing(
    world: World, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    """The pull request remains queued, and lands."""
    pull = world.open("add")
    await world.pass_time(CI_TIME * 2)
    entry = await queue_by_command(world, pull)
    delivered = deliver_after_the_next_read(world, pull, monkeypatch)
    if first == "scheduler":
        await world.bot.scheduler.run_due()
    else:
        await revalidate(world.bot.engine, await load_case(world.bot.engine, entry.repository, entry.number))
    assert delivered
    await world.until(lambda: pull.merged)


@pytest.mark.thorough
async def test_label_that_is_set_while_a_draft_is_read_is_not_missing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The draft that becomes ready joins its queue, and lands."""
    pull = world.open("add", options=DRAFT)
    await world.pass_time(CI_TIME * 2)
    entry = await queue_by_command(world, pull)
    delivered = deliver_after_the_next_read(world, pull, monkeypatch)
    await revalidate(world.bot.engine, await load_case(world.bot.engine, entry.repository, entry.number))
    assert delivered
    pull.ready_for_review(by="mona")
    await world.until(lambda: pull.merged)
