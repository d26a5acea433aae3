import asyncio
from contextlib import ExitStack

from queue_engine.core.concurrency.tasks import KeyOrder


async def _pass(order: KeyOrder, key: str, name: str, ready: asyncio.Event, passed: list[str]) -> None:
    with order.enter(key) as wait:
        await ready.wait()
        await wait()
        passed.append(name)


async def _settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_order_waits_for_a_slow_first_and_holds_up_no_other_key() -> None:
    """The first to begin is the first to end, however long that takes; another key does not wait."""
    order, slow, quick, passed = KeyOrder(), asyncio.Event(), asyncio.Event(), list[str]()
    quick.set()
    tasks = [
        asyncio.create_task(_pass(order, key, name, ready, passed))
        for key, name, ready in [("a", "first", slow), ("a", "second", quick), ("b", "other", quick)]
    ]
    await _settled()
    assert passed == ["other"]
    slow.set()
    await asyncio.gather(*tasks)
    assert passed == ["other", "first", "second"]


async def test_order_without_a_caller_that_gave_up_is_the_same_for_the_others() -> None:
    """An error of one in the middle neither blocks the callers behind nor lets them overtake."""
    order, slow, quick, passed = KeyOrder(), asyncio.Event(), asyncio.Event(), list[str]()
    quick.set()
    first = asyncio.create_task(_pass(order, "a", "first", slow, passed))
    await _settled()
    second = asyncio.create_task(_pass(order, "a", "second", asyncio.Event(), passed))
    await _settled()
    third = asyncio.create_task(_pass(order, "a", "third", quick, passed))
    await _settled()
    second.cancel()
    await _settled()
    assert second.cancelled()
    assert passed == []
    slow.set()
    await asyncio.gather(first, third)
    assert passed == ["first", "third"]


async def test_order_lets_a_lower_rank_pass_first_that_begins_later() -> None:
    """A task that is tried again begins after those that it precedes."""
    order, passed = KeyOrder(), list[str]()

    async def follow() -> None:
        with order.enter("a", 2) as wait:
            await wait()
            passed.append("second")

    with order.enter("a", 1) as first:
        task = asyncio.create_task(follow())
        await _settled()
        with order.enter("a", 0) as earlier:
            await earlier()
            passed.append("earlier")
        await first()
        passed.append("first")
    await task
    assert passed == ["earlier", "first", "second"]


async def test_order_lets_a_caller_wait_for_the_first_ahead_alone() -> None:
    """The order is still one: a wait for all ahead includes the others as well."""
    order, passed = KeyOrder(), list[str]()

    async def follow() -> None:
        with order.enter("a") as wait:
            await wait(1)
            passed.append("first left")
            await wait()
            passed.append("all left")

    with ExitStack() as second:
        with order.enter("a"):
            second.enter_context(order.enter("a"))
            task = asyncio.create_task(follow())
            await _settled()
            assert passed == []
        await _settled()
        assert passed == ["first left"]
    await task
    assert passed == ["first left", "all left"]
