"""A queue's figures against the limits that its users expect."""

from collections.abc import Sequence

import pytest

from queue_engine.queries.queue_states import FAILURES_LIMIT, MEDIAN_LIMIT, P95_LIMIT, health_of, health_of_last


@pytest.mark.parametrize(
    ("median", "p95", "failed", "left", "met"),
    [
        (MEDIAN_LIMIT - 1, P95_LIMIT - 1, 4, 100, (True, True, True)),
        (MEDIAN_LIMIT, P95_LIMIT - 1, 4, 100, (False, True, True)),
        (MEDIAN_LIMIT - 1, P95_LIMIT, 4, 100, (True, False, True)),
        (MEDIAN_LIMIT - 1, P95_LIMIT - 1, 5, 100, (True, True, False)),
        (None, None, 1, 1, (True, True, False)),
        (None, None, 0, 0, (True, True, True)),
    ],
)
def test_health_is_good_while_every_figure_is_below_its_limit(
    median: float | None, p95: float | None, failed: int, left: int, met: tuple[bool, bool, bool]
) -> None:
    """At the limit itself it is exceeded; a figure that is not known exceeds nothing."""
    health = health_of(median, p95, failed=failed, left=left)
    assert (health.median_wait.met, health.p95_wait.met, health.failures.met) == met
    assert health.good == all(met)
    assert health.is_known == bool(left)


def test_limits_are_half_an_hour_two_hours_and_five_in_a_hundred() -> None:
    """The overview and the statistics show the same limits."""
    assert (MEDIAN_LIMIT, P95_LIMIT, FAILURES_LIMIT) == (1800, 7200, 0.05)


@pytest.mark.parametrize(
    ("minutes", "ejected", "median", "p95", "failures", "good"),
    [
        ((), 0, None, None, None, True),
        ((1, 2, 3, 4), 0, None, None, None, True),
        ((5, 4, 3, 2, 1), 0, 3, 5, 0, True),
        ((*[29] * 19, 119), 0, 29, 29, 0, True),
        ((*[30] * 18, 120, 120), 0, 30, 120, 0, False),
        ([1] * 19, 1, 1, 1, 0.05, False),
        ([1] * 20, 1, 1, 1, 1 / 21, True),
        ((), 5, None, None, 1, False),
    ],
)
def test_last_departures_have_figures_once_there_are_five(
    minutes: Sequence[int], ejected: int, median: int | None, p95: int | None, failures: float | None, good: bool
) -> None:
    """Fewer say little about a queue: the page names only their number."""
    health = health_of_last([each * 60.0 for each in minutes], failed=ejected)
    assert health.median_wait.figure == (None if median is None else median * 60)
    assert health.p95_wait.figure == (None if p95 is None else p95 * 60)
    assert (health.failures.figure, health.good, health.is_known) == (failures, good, failures is not None)
    assert health.counted == len(minutes) + ejected
