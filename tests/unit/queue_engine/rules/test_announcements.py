"""Find the entries on which IMQ announces a blocker, or its end."""

from dataclasses import replace

import pytest

from queue_engine.domain.blocker import BlockerNotice, BlockerNotices
from tests.unit.queue_engine.examples import CHECKING, NOW
from tests.unit.queue_engine.rules.blocker_examples import BASE_RED, FREEZE, HALT, NOT_STARTING, announced_to, line


def test_announcement_is_read_as_it_was_written() -> None:
    """The store keeps the notices as JSON."""
    announced = BlockerNotices.of([HALT, FREEZE], line({}, {}), NOW)
    assert BlockerNotices.from_json(announced.to_json()) == announced
    assert (announced.last, BlockerNotices.from_json(None)) == (2, None)


@pytest.mark.parametrize(
    ("before", "numbers"),
    [
        (None, [1, 2, 3]),
        (BlockerNotices.of([FREEZE], line({}, {})), [3]),
        (BlockerNotices.of([FREEZE], line({}, {}, {}, {})), []),
        (BlockerNotices.of([replace(FREEZE, until=NOW)], line({}, {}, {}, {})), [1, 2, 3]),
        (BlockerNotices.of([replace(FREEZE, detail="another")], line({}, {}, {}, {})), [1, 2, 3]),
        (BlockerNotices.of([HALT], line({}, {}, {}, {})), [1, 2, 3]),
        (BlockerNotices.of([HALT, FREEZE], line({}, {}, {}, {})), [1, 2, 3]),
    ],
)
def test_entries_to_notify_joined_since_or_all_when_the_blockers_are_others(
    before: BlockerNotices | None, numbers: list[int]
) -> None:
    """Each entry gets one announcement for each change."""
    assert announced_to(before, [FREEZE], line({}, {}, {})) == [(number, (FREEZE,)) for number in numbers]


def test_entry_is_notified_of_the_blockers_that_do_not_exempt_it() -> None:
    """It does not wait for the others; checks that do not start concern the front that waits for them, too."""
    assert announced_to(None, [FREEZE], line({"freeze_exempt": True}, {})) == [(2, (FREEZE,))]
    assert announced_to(None, [BASE_RED], line({"fixes_base": True}, {})) == [(2, (BASE_RED,))]
    assert announced_to(None, [NOT_STARTING], line({"status": CHECKING}, {})) == [
        (1, (NOT_STARTING,)),
        (2, (NOT_STARTING,)),
    ]
    both = line({"freeze_exempt": True}, {"fixes_base": True}, {"freeze_exempt": True, "fixes_base": True})
    assert announced_to(None, [FREEZE, BASE_RED], both) == [(1, (BASE_RED,)), (2, (FREEZE,))]


def test_entry_is_notified_of_an_end_only_if_that_concerned_it() -> None:
    """When the pause is lifted, an entry that the freeze exempts proceeds; the others show that the freeze remains."""
    entries = line({"freeze_exempt": True}, {})
    before = BlockerNotices.of([HALT, FREEZE], entries)
    assert announced_to(before, [FREEZE], entries) == [(1, ()), (2, (FREEZE,))]
    assert announced_to(before, [HALT], entries) == [(2, (HALT,))]
    assert announced_to(before, [], entries) == [(1, ()), (2, ())]
    assert announced_to(None, [], entries) == []


def test_announcement_names_the_blockers_that_began_and_ended() -> None:
    """A second freeze, of the configuration, is another blocker than the one by hand."""
    by_hand = replace(FREEZE, recorded=True)
    before = BlockerNotices.of([HALT, by_hand], ())
    assert before.began([by_hand, FREEZE]) == (FREEZE,)
    assert before.ended([by_hand, FREEZE]) == (BlockerNotice.of(HALT),)
