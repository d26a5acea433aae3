import asyncio
from contextlib import ExitStack

from queue_engine.core.concurrency.key_order import KeyOrder


async def _pass(line: KeyOrder, key: str, name: str, ready: asyncio.Event, passed: list[str]) -> None:
    with line.enter(key) as wait:
        await ready.wait()
        await wait()
        passed.append(name)


async def _settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_line_slow_first_is_waited_for_and_other_lines_are_not_held_up() -> None:
    """The first to begin is the first to end, however long that takes; another key does not wait."""
    line, slow, quick, passed = KeyOrder(), asyncio.Event(), asyncio.Event(), list[str]()
    quick.set()
    tasks = [
        asyncio.create_task(_pass(line, key, name, ready, passed))
        for key, name, ready in [("a", "first", slow), ("a", "second", quick), ("b", "other", quick)]
    ]
    await _settled()
    assert passed == ["other"]
    slow.set()
    await asyncio.gather(*tasks)
    assert passed == ["other", "first", "second"]


async def test_line_one_that_gives_up_lets_those_behind_pass_but_not_those_ahead_be_overtaken() -> None:
    """An error of one in the middle neither blocks the line nor shortens it."""
    line, slow, quick, passed = KeyOrder(), asyncio.Event(), asyncio.Event(), list[str]()
    quick.set()
    first = asyncio.create_task(_pass(line, "a", "first", slow, passed))
    await _settled()
    second = asyncio.create_task(_pass(line, "a", "second", asyncio.Event(), passed))
    await _settled()
    third = asyncio.create_task(_pass(line, "a", "third", quick, passed))
    await _settled()
    second.cancel()
    await _settled()
    assert second.cancelled()
    assert passed == []
    slow.set()
    await asyncio.gather(first, third)
    assert passed == ["first", "third"]


async def test_line_one_that_waits_for_the_first_ahead_passes_before_the_others_have_left() -> None:
    """The order is still one: a wait for all ahead includes the others as well."""
    line, passed = KeyOrder(), list[str]()

    async def follow() -> None:
        with line.enter("a") as wait:
            await wait(1)
            passed.append("first left")
            await wait()
            passed.append("all left")

    with ExitStack() as second:
        with line.enter("a"):
            second.enter_context(line.enter("a"))
            task = asyncio.create_task(follow())
            await _settled()
            assert passed == []
        await _settled()
        assert passed == ["first left"]
    await task
    assert passed == ["first left", "all left"]
