"""Which entries have room in their queue follows from their positions and the depth limit alone."""

from dataclasses import replace
from datetime import timedelta

import pytest

from queue_engine.config.model import Policy, WaitLimits
from queue_engine.rules.depth import depth_within, held_behind, held_until, waits_for_room, with_room
from tests.unit.queue_engine.examples import HOUR, NOW, entry

LINE = [replace(entry(), id=f"{n}", number=n, position=n) for n in range(5)]


@pytest.mark.parametrize(
    ("most", "waits"), [(0, [False] * 5), (1, [False, True, True, True, True]), (3, [False, False, False, True, True])]
)
def test_entries_beyond_the_limit_wait_and_the_others_have_room(most: int, waits: list[bool]) -> None:
    """0 means no limit; what one function says of a position, the others say of the queue."""
    policy = Policy(depth=most)
    assert [waits_for_room(each.position, policy) for each in LINE] == waits
    within = with_room(LINE, policy)
    assert [each.number for each in within] == [n for n, wait in enumerate(waits) if not wait]
    assert depth_within(len(LINE), policy) == len(within)
    assert [held_behind(n, policy) for n, wait in enumerate(waits) if wait] == list(range(waits.count(True)))


def test_wait_for_room_ends_after_its_limit_and_an_entry_with_room_has_none() -> None:
    """P5: the time counts from when people read of the wait."""
    policy = Policy(depth=1, timeouts=WaitLimits(hold=HOUR))
    assert held_until(LINE[0], policy) is None
    assert held_until(replace(LINE[1], held_since=NOW + timedelta(days=3)), policy) == NOW + timedelta(days=3) + HOUR
