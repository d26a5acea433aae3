"""What all processes reserved of an installation's limits: for how long each kind counts, and for whom."""

from datetime import timedelta

import pytest

from queue_engine.store import Store
from queue_engine.store.figures import POINTS, VALID, RateLimitRequest, SharedLimits
from tests.store.examples import NOW, TICK

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
MERGE = "content"


async def in_use(store: Store, after: timedelta, installation_id: int = 70) -> SharedLimits:
    async with store.transaction() as tx:
        return await tx.pace.lock(installation_id, NOW + after)


@pytest.mark.parametrize(
    ("after", "points_at", "content"),
    [
        (VALID / 2, VALID / 2, True),
        (timedelta(seconds=20), VALID, True),
        (MINUTE + VALID - TICK, VALID, True),
        (MINUTE + VALID, None, True),
        (HOUR - TICK, None, True),
        (HOUR, None, False),
    ],
)
async def test_reservation_counts_from_its_last_possible_use_for_its_window(
    store: Store, after: timedelta, points_at: timedelta | None, content: bool
) -> None:
    """P7: points that are reserved ahead may be used later, content was created at once and counts by the hour."""
    async with store.transaction() as tx:
        await tx.pace.reserve(70, "one", [(POINTS, 7), (MERGE, 1)], NOW)
        await tx.pace.reserve(71, "one", [(POINTS, 1)], NOW + after)
    found = [each for each in (await in_use(store, after)).reservations if each.owner == "one"]
    expected = [] if points_at is None else [RateLimitRequest(POINTS, NOW + points_at, 7, "one")]
    expected += [RateLimitRequest(MERGE, NOW, 1, "one")] if content else []
    assert found == expected


async def test_reservations_that_have_left_all_windows_are_deleted_many_together(store: Store) -> None:
    """One statement for each request would be a sixth of what a reservation costs."""
    async with store.transaction() as tx:
        await tx.pace.reserve(70, "one", [(POINTS, 1)] * 20 + [(MERGE, 1)], NOW)
        await tx.pace.reserve(71, "one", [(POINTS, 1)] * 19 + [(MERGE, 1)], NOW)
    left = []
    for installation_id in (70, 71):
        await in_use(store, MINUTE + VALID, installation_id)
        left.append(len((await in_use(store, VALID, installation_id)).reservations))
    assert left == [1, 20]


async def test_pause_holds_its_installation_and_a_shorter_one_does_not_end_it(store: Store) -> None:
    """P7: GitHub asked one process to wait for an hour, and another one for a minute."""
    for until in (MINUTE, HOUR, 2 * MINUTE):
        async with store.transaction() as tx:
            await tx.pace.pause(70, NOW + until)
    assert (await in_use(store, MINUTE)).paused_until == NOW + HOUR
    assert (await in_use(store, MINUTE, 71)) == SharedLimits((), None)
