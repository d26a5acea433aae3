"""What operators do from the command line."""

from datetime import UTC, datetime

import pytest
from click import ClickException

from bot.cli.resume import resume_queue
from queue_engine.domain.model import Pause, RedBase, Repository
from queue_engine.domain.reasons import Reason
from queue_engine.store import Store

NOW = datetime(2026, 1, 5, tzinfo=UTC)
REPOSITORY = Repository(1, "acme", "widgets", 7)


async def test_resume_of_a_paused_queue_makes_it_due_and_returns_the_cause(store: Store) -> None:
    """A maintainer examined the mismatch; the queue is due at once."""
    async with store.transaction() as tx:
        queue = await tx.queues.find_or_create(REPOSITORY, "main", NOW)
        await tx.pauses.put(queue.id, Pause(Reason.TREE_MISMATCH, "#1 landed otherwise", NOW))
    cause = await resume_queue(store, "Acme/widgets", "main")
    async with store.reading() as tx:
        after = await tx.queues.get(queue.id)
    assert after is not None
    assert after.pauses == ()
    assert after.due_at is not None
    assert "#1 landed otherwise" in cause


async def test_resume_of_a_queue_paused_without_detail_returns_the_reason_alone(store: Store) -> None:
    """`/pause` needs no explanation, and no colon stands before nothing."""
    async with store.transaction() as tx:
        queue = await tx.queues.find_or_create(REPOSITORY, "main", NOW)
        await tx.pauses.put(queue.id, Pause(Reason.PAUSED_BY_HAND, "", NOW))
    assert await resume_queue(store, "acme/widgets", "main") == "paused_by_hand"


async def test_resume_of_a_queue_whose_base_is_red_tries_it_again(store: Store) -> None:
    """The operator overrides the report; the timeline names no person for it."""
    async with store.transaction() as tx:
        queue = await tx.queues.find_or_create(REPOSITORY, "main", NOW)
        await tx.red_bases.note(queue.id, RedBase("ci/test", "tip", NOW, 0, NOW))
    assert await resume_queue(store, "acme/widgets", "main") == "base_red: ci/test"
    async with store.reading() as tx:
        after = await tx.queues.get(queue.id)
        (event,) = await tx.timeline.latest(5)
    assert after is not None
    assert after.red is None
    assert (event.event, event.reason, event.data and event.data["by"]) == ("resumed", Reason.BASE_RED, None)


async def test_resume_of_what_is_not_paused_names_what_there_is(store: Store) -> None:
    """A mistyped branch is answered with the branches that have a queue."""
    async with store.transaction() as tx:
        await tx.queues.find_or_create(REPOSITORY, "main", NOW)
    with pytest.raises(ClickException, match="not paused"):
        await resume_queue(store, "acme/widgets", "main")
    with pytest.raises(ClickException, match="Its queues: main"):
        await resume_queue(store, "acme/widgets", "mian")
