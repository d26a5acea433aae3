"""Calls that come together are done together."""

import asyncio
from collections.abc import Sequence

import pytest

from queue_engine.core.concurrency.micro_batch import MicroBatch


class Store:
    """Doubles what it is given, round by round; a gate holds each round until it is opened."""

    def __init__(self) -> None:
        self.rounds: list[list[int]] = []
        self.gate = asyncio.Event()
        self.fails = False

    async def do(self, items: Sequence[int]) -> list[int]:
        self.rounds.append(list(items))
        await self.gate.wait()
        if self.fails:
            raise OSError("disk full")
        return [item * 2 for item in items]


async def begun(store: Store, calls: int) -> None:
    """Let tasks run until `store` has begun its first round and all calls have been made."""
    for _ in range(calls + 5):
        await asyncio.sleep(0)


async def test_batch_serves_calls_during_a_round_in_the_next_one_in_order() -> None:
    """The first call goes alone and at once; those behind it go together, each with its own answer."""
    store = Store()
    batch = MicroBatch(store.do)
    calls = [asyncio.create_task(batch(1))]
    await begun(store, 1)
    calls += [asyncio.create_task(batch(n)) for n in (2, 3, 4)]
    await begun(store, 3)
    store.gate.set()
    assert await asyncio.gather(*calls) == [2, 4, 6, 8]
    assert store.rounds == [[1], [2, 3, 4]]


async def test_batch_of_more_calls_than_a_round_holds_takes_several() -> None:
    """A round stays small enough not to hold up others who write."""
    store = Store()
    store.gate.set()
    batch = MicroBatch(store.do, most=2)
    assert await asyncio.gather(*(batch(n) for n in range(5))) == [0, 2, 4, 6, 8]
    assert store.rounds == [[0, 1], [2, 3], [4]]


async def test_batch_that_fails_raises_in_all_of_its_callers_and_no_others() -> None:
    """No caller takes a thing as stored that was not; the next call is tried again."""
    store = Store()
    store.gate.set()
    store.fails = True
    batch = MicroBatch(store.do)
    answers = await asyncio.gather(batch(1), batch(2), return_exceptions=True)
    assert [type(answer) for answer in answers] == [OSError, OSError]
    store.fails = False
    assert await batch(3) == 6


async def test_batch_survives_a_caller_that_gives_up() -> None:
    """A sender that hangs up leaves its delivery to be stored, and the others their answers."""
    store = Store()
    batch = MicroBatch(store.do)
    gone, stays = asyncio.create_task(batch(1)), asyncio.create_task(batch(2))
    await begun(store, 2)
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    store.gate.set()
    assert await stays == 4


async def test_batch_is_under_burst_by_many_calls_in_a_moment_and_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller that can wait learns that many calls come at once, and learns when that is over."""
    store = Store()
    store.gate.set()
    batch = MicroBatch(store.do)
    now = asyncio.get_running_loop().time()
    await batch(0)
    bursts = [batch.under_burst]
    await asyncio.gather(*(batch(n) for n in range(100)))
    bursts.append(batch.under_burst)
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now + 2)
    bursts.append(batch.under_burst)
    assert bursts == [False, True, False]
