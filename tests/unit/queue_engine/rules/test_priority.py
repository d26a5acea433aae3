"""What labels give in a queue, and whom that delays by how much."""

from datetime import timedelta
from typing import Any

import pytest

from queue_engine.config.model import FreezeRules, Policy, PriorityRules
from queue_engine.domain.model import Entry, EntryOrder
from queue_engine.domain.policy import PriorityLabel
from queue_engine.rules.priority import PriorityEffect, delay, overtakes, precedence_of
from tests.store import examples as stored
from tests.unit.queue_engine.examples import CHECKING, MINUTE, NOW, PENDING

POLICY = Policy(
    priority=PriorityRules(
        labels=(
            PriorityLabel("urgent", 3),
            PriorityLabel("Later", -3),
            PriorityLabel("hotfix", 1, hotfix=True, preempts=True),
            PriorityLabel("mends", 0, fixes_base=True),
        )
    ),
    freeze=FreezeRules(exempt_labels=frozenset({"allowed"})),
)


@pytest.mark.parametrize(
    ("labels", "standing"),
    [
        ([], EntryOrder()),
        (["docs", "merge-queue"], EntryOrder()),
        (["URGENT"], EntryOrder(priority=3)),
        (["later"], EntryOrder(priority=-3)),
        (["later", "urgent"], EntryOrder(priority=3)),
        (["hotfix"], EntryOrder(priority=1, hotfix=True, preempts=True)),
        (["hotfix", "urgent"], EntryOrder(priority=3, hotfix=True, preempts=True)),
        (["mends"], EntryOrder(fixes_base=True)),
        (["mends", "later", "Allowed"], EntryOrder(fixes_base=True, freeze_exempt=True)),
    ],
)
def test_standing_is_the_highest_priority_and_every_permission_of_its_labels(
    labels: list[str], standing: EntryOrder
) -> None:
    """A label that lowers counts alone, and is outweighed by any that raises; case is ignored."""
    assert precedence_of(labels, POLICY) == standing


def line(*entries: tuple[int, dict[str, Any]]) -> list[Entry]:
    """A queue in order; the number of each is when it came."""
    return [
        stored.changed(stored.entry(number), position=position, **changes)
        for position, (number, changes) in enumerate(entries)
    ]


def test_overtakes_names_those_who_came_before_and_stand_behind() -> None:
    """Who came later was not overtaken, and who stands before was not either."""
    entries = line((1, {}), (4, {}), (2, {}), (3, {}), (5, {}))
    assert [overtakes(entries, entry) for entry in entries] == [(), (2, 3), (), (), ()]


def test_delay_of_those_overtaken_is_the_median_of_recent_durations() -> None:
    """About: the median, so that one night's outage does not distort the estimate."""
    entries = line((1, {}), (4, {}), (2, {}), (3, {}))
    durations = [5 * MINUTE, 7 * MINUTE, timedelta(hours=9)]
    assert delay(entries, entries[1], durations, NOW) == PriorityEffect((2, 3), 7 * MINUTE, None, None)
    assert delay(entries, entries[1], [], NOW) == PriorityEffect((2, 3), None, None, None)


@pytest.mark.parametrize(
    ("front", "interrupted"),
    [
        ({"status": CHECKING, "started_at": NOW - 4 * MINUTE}, True),
        ({"status": CHECKING, "started_at": NOW, "hotfix": True}, False),
        ({"status": PENDING}, False),
    ],
)
def test_delay_by_a_preemption_counts_the_run_that_is_lost(front: dict[str, Any], interrupted: bool) -> None:
    """The preempted entry also loses its time at the front, since its checks start over after the hotfix."""
    entries = line((1, front), (3, {"hotfix": True, "preempts": True}), (2, {}))
    lost = PriorityEffect((1, 2), MINUTE, 1, 4 * MINUTE)
    assert delay(entries, entries[1], [MINUTE], NOW) == (
        lost if interrupted else PriorityEffect((2,), MINUTE, None, None)
    )
