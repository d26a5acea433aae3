"""The sums of what trains saved."""

from dataclasses import replace

from queue_engine.domain.model import TimelineEvent
from queue_engine.domain.run import RUN_ENDED, RUN_PASSED
from queue_engine.queries.train_status import TrainStatistics, train_sums
from tests.unit.queue_engine.queries.test_train_status import started


def ended(outcome: str, *members: int) -> TimelineEvent:
    data = {"outcome": outcome, "members": list(members)}
    return replace(started(*members), event=RUN_ENDED, data=data)


def test_train_sums_count_each_run_and_the_landings_by_those_that_landed() -> None:
    """Runs that failed cost as much as those that passed."""
    passed = replace(started(1), event=RUN_PASSED, data={"seconds": 600.0})
    found = train_sums([started(1, 2, 3), ended("failed", 1, 2, 3), started(1, 2), passed, ended("landed", 1, 2)])
    assert found == TrainStatistics(2, 2, 600.0)
    assert (found.runs_saved, found.seconds_saved) == (0, 0.0)
    assert TrainStatistics(1, 5, 600.0).seconds_saved == 2400.0
    assert TrainStatistics(3, 1, None).runs_saved == 0
