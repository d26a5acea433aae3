"""How long a person without the right is ignored, and what is remembered of them."""

from dataclasses import replace
from datetime import timedelta

import pytest

from queue_engine.admission.throttle import (
    KEPT,
    count_without_right,
    ignored_until,
    is_outsider,
    is_throttled,
    requested_by,
)
from queue_engine.store import Store
from queue_engine.store.rejections import Throttle
from tests.support.policies import StaticPolicies
from tests.unit.queue_engine.engine_setup import Setup
from tests.unit.queue_engine.examples import NOW, POLICY, REPOSITORY


@pytest.fixture
def scene(store: Store) -> Setup:
    """On both databases."""
    return Setup(store)


@pytest.mark.parametrize(
    ("times", "seconds"), [(1, 0), (3, 0), (4, 30), (5, 60), (6, 120), (10, 1920), (11, 3600), (500, 3600)]
)
def test_person_without_the_right_is_ignored_for_twice_as_long_each_time(times: int, seconds: int) -> None:
    """Three times are free: everybody may err."""
    assert ignored_until(Throttle(times, NOW)) - NOW == timedelta(seconds=seconds)


async def test_person_without_the_right_is_counted_by_repository_and_folded_login(scene: Setup) -> None:
    """A renamed case is the same person; another repository knows nothing of it."""
    for login in ("Eve", "eve", "EVE", "eve"):
        async with scene.engine.change() as change:
            await count_without_right(change, REPOSITORY, login)
    assert await is_throttled(scene.engine, REPOSITORY, "eVe")
    assert not await is_throttled(scene.engine, replace(REPOSITORY, id=2), "eve")
    async with scene.engine.change() as change:
        await change.tx.throttles.clear(REPOSITORY.id, "eve")
    assert not await is_throttled(scene.engine, REPOSITORY, "eve")


async def test_person_may_queue_again_at_the_very_instant_that_was_announced(scene: Setup) -> None:
    """IMQ must not ignore again what it has put off until then."""
    for at, ignored in ((NOW - timedelta(seconds=30), False), (NOW - timedelta(seconds=29), True)):
        async with scene.engine.change() as change:
            await change.tx.throttles.put(REPOSITORY.id, "eve", Throttle(4, at))
        assert await is_throttled(scene.engine, REPOSITORY, "eve") is ignored


async def test_questions_that_everybody_may_ask_are_counted_by_themselves(scene: Setup) -> None:
    """A maintainer who asked too often can still pause the queue."""
    for _ in range(4):
        async with scene.engine.change() as change:
            await count_without_right(change, REPOSITORY, requested_by("rhea"))
    assert await is_throttled(scene.engine, REPOSITORY, requested_by("Rhea"))
    assert not await is_throttled(scene.engine, REPOSITORY, "rhea")


@pytest.mark.parametrize(
    ("login", "readers", "outsider"),
    [("eve", (), True), ("eve", ("eve",), False), ("tria", (), False), ("mona", (), False)],
    ids=["a reader", "a reader who may queue", "a triager", "a writer"],
)
async def test_outsider_is_who_may_only_read_and_is_counted(
    scene: Setup, login: str, readers: tuple[str, ...], outsider: bool
) -> None:
    """One request to GitHub shows it, and counts for no other person."""
    policies = StaticPolicies(replace(POLICY, who_may_queue=replace(POLICY.who_may_queue, people=frozenset(readers))))
    engine = replace(scene.engine, policies=policies)
    assert await is_outsider(engine, REPOSITORY, login) is outsider
    assert scene.github.asked == ["permission"]
    async with scene.store.reading() as tx:
        assert (await tx.throttles.find(REPOSITORY.id, login) is not None) is outsider


async def test_count_of_a_person_starts_again_after_a_quiet_day(scene: Setup) -> None:
    """And what is older is dropped."""
    async with scene.engine.change() as change:
        await change.tx.throttles.put(REPOSITORY.id, "eve", Throttle(9, change.now - KEPT - timedelta(seconds=1)))
        await count_without_right(change, REPOSITORY, "eve")
        assert await change.tx.throttles.find(REPOSITORY.id, "eve") == Throttle(1, change.now)
        assert await change.tx.throttles.purge(change.now) == 0
        assert await change.tx.throttles.purge(change.now + timedelta(seconds=1)) == 1


async def test_count_of_a_person_continues_within_a_quiet_day(scene: Setup) -> None:
    """IMQ ignores a person for ever longer, even one who waits out each refusal."""
    async with scene.engine.change() as change:
        await change.tx.throttles.put(REPOSITORY.id, "eve", Throttle(9, change.now - KEPT))
        await count_without_right(change, REPOSITORY, "eve")
        assert await change.tx.throttles.find(REPOSITORY.id, "eve") == Throttle(10, change.now)
