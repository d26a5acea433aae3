"""What admission stores: refusals and known deliveries."""

import asyncio

from queue_engine.core.jobs.idempotency import KEPT
from queue_engine.domain.reasons import Reason
from queue_engine.store import Store, Transaction
from queue_engine.store.rejections import Rejection
from tests.store.examples import NOW, SOON


async def test_refusal_is_remembered_until_another_or_none_stands(t: Transaction) -> None:
    """The last refusal of a pull request is what is known of it."""
    await t.rejections.put(7, 1, "old", Reason.DRAFT, NOW)
    await t.rejections.put(7, 1, "new", Reason.CONFLICT, NOW + SOON)
    await t.rejections.put(7, 2, "old", Reason.DRAFT, NOW)
    assert await t.rejections.find(7, 1) == Rejection("new", Reason.CONFLICT, NOW + SOON)
    await t.rejections.clear(7, 1)
    assert await t.rejections.find(7, 1) is None
    assert await t.rejections.find(7, 2) is not None


async def test_delivery_recorded_twice_is_known_the_second_time(t: Transaction) -> None:
    """A redelivery keeps its id and does nothing, until it is forgotten."""
    one, other = ("guid-1", "push"), ("guid-2", "push")
    assert await t.keys.record("webhook", [one], NOW) == {"guid-1"}
    assert await t.keys.record("webhook", [one, other], NOW + SOON) == {"guid-2"}
    assert await t.keys.purge(NOW + KEPT) == 1
    assert await t.keys.record("webhook", [other, one], NOW + SOON) == {"guid-1"}


async def test_delivery_recorded_by_many_at_once_is_new_to_one(store: Store) -> None:
    """The same delivery arriving doubled is stored once."""

    async def record() -> bool:
        async with store.transaction() as t:
            return bool(await t.keys.record("webhook", [("guid-1", "push")], NOW))

    assert sorted(await asyncio.gather(*(record() for _ in range(6)))) == [False] * 5 + [True]
