"""Whose work it is, and how urgent, wherever one is."""

import asyncio
from datetime import timedelta

from queue_engine.core.concurrency.request_context import RequestContext, RequestPriority, current_work, working


def test_work_without_a_context_is_urgent() -> None:
    """Work that is not marked as background is work that a person waits for."""
    assert current_work() == RequestContext(RequestPriority.NOW, None, None)


def test_work_begun_within_other_work_keeps_what_it_does_not_say() -> None:
    """A job that proves to be background work is the same job still; afterwards all is as before."""
    with working(RequestPriority.NOW, holder="job:1", again=timedelta(seconds=2)):
        with working(RequestPriority.BACKGROUND):
            assert current_work() == RequestContext(RequestPriority.BACKGROUND, "job:1", timedelta(seconds=2))
        assert current_work().priority is RequestPriority.NOW
    assert current_work().holder is None


async def test_work_of_tasks_side_by_side_is_their_own() -> None:
    """Two jobs at the same time never take each other's name."""

    async def one(name: str) -> str | None:
        with working(holder=name):
            await asyncio.sleep(0)
            return current_work().holder

    assert [*await asyncio.gather(one("a"), one("b"))] == ["a", "b"]
