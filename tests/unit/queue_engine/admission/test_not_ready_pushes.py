"""Who pushed to a pull request that waits outside its queue."""

import pytest

from queue_engine.admission.not_ready_pushes import pushers_since
from queue_engine.domain.facts import HeadPush
from tests.unit.queue_engine.examples import NOW, entry


def moves(*pushes: tuple[str, str, str | None]) -> tuple[HeadPush, ...]:
    """Moves of the branch, newest first, each with the head before and after, and the pusher."""
    return tuple(HeadPush(before, after, NOW, by) for before, after, by in pushes)


@pytest.mark.parametrize(
    ("pushes", "pushers"),
    [
        ([("head-1", "head-3", "ada")], ("ada",)),
        ([("head-2", "head-3", "ada"), ("head-1", "head-2", "tria"), ("head-0", "head-1", "max")], ("ada", "tria")),
        ([("head-2", "head-3", "ada")], None),
        ([("head-2", "head-3", "ada"), ("head-1", "head-2", None)], None),
        ([("head-2", "head-3", "ada"), ("head-1", "other", "tria")], None),
        ([("head-1", "head-2", "ada")], None),
        ([], None),
    ],
)
def test_everybody_who_pushed_since_the_known_head_is_named(
    pushes: list[tuple[str, str, str | None]], pushers: tuple[str, ...] | None
) -> None:
    """P4: with one unknown push IMQ knows no pushers."""
    assert pushers_since(entry(head="head-1"), "head-3", moves(*pushes)) == pushers
