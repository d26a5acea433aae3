"""Places that readers share."""

import asyncio
from contextlib import ExitStack

import pytest

from bot.http.connections import SharedSlots, SlotRefused


def taking(stack: ExitStack, slots: SharedSlots, *readers: str) -> list[asyncio.Event]:
    """Take a slot for each of these readers."""
    return [stack.enter_context(slots.take(each)) for each in readers]


def test_reader_has_its_own_limit_however_many_places_are_free() -> None:
    """The refusal says how many it has; a slot that ended is free again."""
    slots = SharedSlots(9, 2)
    with ExitStack() as stack:
        taking(stack, slots, "a", "a")
        with pytest.raises(SlotRefused) as refused, slots.take("a"):
            pass
        assert (refused.value.own, slots.taken) == (2, 2)
    assert slots.taken == 0
    with slots.take("a"):
        assert slots.taken == 1


def test_reader_with_most_places_gives_its_oldest_to_one_with_fewer() -> None:
    """One client cannot use up the slots of all, and the others keep theirs."""
    slots = SharedSlots(4, 9)
    with ExitStack() as stack:
        first, second, other, third = taking(stack, slots, "a", "a", "b", "a")
        (new,) = taking(stack, slots, "c")
        assert [each.is_set() for each in (first, second, other, third, new)] == [True, False, False, False, False]
        assert slots.taken == 4


def test_places_are_shared_evenly_and_not_passed_to_and_fro() -> None:
    """Readers with as many as the newcomer would have keep theirs: an answer that ended does not get its slot back."""
    slots = SharedSlots(4, 9)
    with ExitStack() as stack:
        taken = taking(stack, slots, "a", "a", "a", "a", "b", "b")
        assert [each.is_set() for each in taken] == [True, True, False, False, False, False]
        for reader in ("a", "b"):
            with pytest.raises(SlotRefused) as refused, slots.take(reader):
                pass
            assert refused.value.own is None
    assert slots.taken == 0


def test_reader_with_one_place_more_keeps_it() -> None:
    """To take it would only exchange the two readers."""
    slots = SharedSlots(3, 9)
    with ExitStack() as stack:
        taken = taking(stack, slots, "a", "a", "b")
        with pytest.raises(SlotRefused), slots.take("b"):
            pass
        assert not any(each.is_set() for each in taken)


def test_reader_that_stands_for_many_persons_has_no_limit_of_its_own() -> None:
    """It still gives slots to others."""
    slots = SharedSlots(3, 1)
    with ExitStack() as stack:
        taken = [stack.enter_context(slots.take("proxy", limited=False)) for _ in range(3)]
        taking(stack, slots, "a")
        assert [each.is_set() for each in taken] == [True, False, False]
