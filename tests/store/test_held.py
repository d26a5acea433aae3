"""What admission stores: refusals, held pull requests, and known deliveries.

Covers `queue_engine/store/rejections.py`.
"""

import asyncio
from collections.abc import AsyncIterator

import pytest

from queue_engine.core.jobs.idempotency import KEPT
from queue_engine.domain.reasons import Reason
from queue_engine.store import Store, Transaction
from queue_engine.store.held import HeldPullRequest
from queue_engine.store.rejections import Rejection
from tests.store.examples import NOW, OTHER, REPOSITORY, SOON, queue


@pytest.fixture
async def t(store: Store) -> AsyncIterator[Transaction]:
    async with store.transaction() as transaction:
        yield transaction


async def test_refusal_is_remembered_until_another_or_none_stands(t: Transaction) -> None:
    """The last refusal of a pull request is what is known of it."""
    await t.refusals.put(7, 1, "old", Reason.DRAFT, NOW)
    await t.refusals.put(7, 1, "new", Reason.CONFLICT, NOW + SOON)
    await t.refusals.put(7, 2, "old", Reason.DRAFT, NOW)
    assert await t.refusals.find(7, 1) == Rejection("new", Reason.CONFLICT, NOW + SOON)
    await t.refusals.clear(7, 1)
    assert await t.refusals.find(7, 1) is None
    assert await t.refusals.find(7, 2) is not None


async def test_held_pull_requests_get_places_in_the_order_of_arrival(t: Transaction) -> None:
    """Who waits longest is next; who asks again keeps the place, with the newer consent."""
    main, other = await queue(t), await queue(t, "main", OTHER)
    for number in (3, 1, 2):
        await t.held.add(HeldPullRequest(main.id, REPOSITORY.id, number, f"head-{number}", "max", NOW))
    await t.held.add(HeldPullRequest(other.id, OTHER.id, 3, "head-3", "max", NOW))
    await t.held.add(HeldPullRequest(main.id, REPOSITORY.id, 3, "newer", "eve", NOW + SOON))
    assert await t.held.count(main.id) == 3
    assert await t.held.next(main.id) == HeldPullRequest(main.id, REPOSITORY.id, 3, "newer", "eve", NOW)
    await t.held.remove(REPOSITORY.id, 3)
    following = await t.held.next(main.id)
    assert following == await t.held.find(REPOSITORY.id, 1)
    assert following is not None
    assert await t.held.find(REPOSITORY.id, 3) is None
    assert await t.held.count(other.id) == 1


async def test_held_tells_how_many_are_before_it_in_its_own_line(t: Transaction) -> None:
    """A pull request that is not held yet comes behind all held ones; other queues' lines do not count."""
    main, other = await queue(t), await queue(t, "main", OTHER)
    for number in (3, 1, 2):
        await t.held.add(HeldPullRequest(main.id, REPOSITORY.id, number, f"head-{number}", "max", NOW))
    await t.held.add(HeldPullRequest(other.id, OTHER.id, 3, "head-3", "max", NOW))
    assert [await t.held.ahead(main.id, REPOSITORY.id, number) for number in (3, 1, 2, 9)] == [0, 1, 2, 3]
    assert await t.held.ahead(other.id, OTHER.id, 9) == 1


async def test_held_stepping_back_lets_all_others_go_first_and_keeps_its_consent(t: Transaction) -> None:
    """The place in the line changes, and nothing else of it."""
    main = await queue(t)
    for number in (1, 2, 3):
        await t.held.add(HeldPullRequest(main.id, REPOSITORY.id, number, "head", "max", NOW, "00-a", "guid"))
    await t.held.stand_by(REPOSITORY.id, 1, trusted_labels={"urgent", "hotfix"}, priority=10)
    before = await t.held.find(REPOSITORY.id, 1)
    await t.held.step_back(REPOSITORY.id, 1)
    await t.held.step_back(REPOSITORY.id, 9)
    assert [await t.held.ahead(main.id, REPOSITORY.id, number) for number in (2, 3, 1)] == [0, 1, 2]
    after = await t.held.find(REPOSITORY.id, 1)
    assert after == before
    assert after is not None
    assert (after.trusted_labels, after.priority) == (("hotfix", "urgent"), 10)
    assert await t.held.count(main.id) == 3


async def test_held_requested_again_has_the_labels_of_that_request_and_keeps_its_priority(t: Transaction) -> None:
    """The requester vouches for the present labels; a new request never removes what a maintainer gave by command."""
    main = await queue(t)
    await t.held.add(HeldPullRequest(main.id, REPOSITORY.id, 1, "head", "max", NOW, trusted_labels=("urgent",)))
    await t.held.stand_by(REPOSITORY.id, 1, trusted_labels={"urgent"}, priority=10)
    await t.held.add(HeldPullRequest(main.id, REPOSITORY.id, 1, "newer", "eve", NOW, trusted_labels=("later",)))
    waiting = await t.held.find(REPOSITORY.id, 1)
    assert waiting is not None
    assert (waiting.trusted_labels, waiting.priority) == (("later",), 10)


async def test_held_in_an_empty_line_is_nobody(t: Transaction) -> None:
    """Nobody waits where nobody was held."""
    assert await t.held.next((await queue(t)).id) is None


async def test_delivery_recorded_twice_is_known_the_second_time(t: Transaction) -> None:
    """A redelivery keeps its id and does nothing, until it is forgotten."""
    one, other = ("guid-1", "push"), ("guid-2", "push")
    assert await t.keys.record("webhook", [one], NOW, status=202) == {"guid-1"}
    assert await t.keys.record("webhook", [one, other], NOW + SOON, status=202) == {"guid-2"}
    assert await t.keys.purge(NOW + KEPT) == 1
    assert await t.keys.record("webhook", [other, one], NOW + SOON, status=202) == {"guid-1"}


async def test_delivery_recorded_by_many_at_once_is_new_to_one(store: Store) -> None:
    """The same delivery arriving doubled is stored once."""

    async def record() -> bool:
        async with store.transaction() as t:
            return bool(await t.keys.record("webhook", [("guid-1", "push")], NOW, status=202))

    assert sorted(await asyncio.gather(*(record() for _ in range(6)))) == [False] * 5 + [True]
