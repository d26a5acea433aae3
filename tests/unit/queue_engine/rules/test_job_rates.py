"""Prices of runners by their labels, and the billed minutes of a run's jobs."""

from dataclasses import asdict, replace
from datetime import timedelta
from typing import Any

import pytest

from queue_engine.domain.facts import CheckReport, CheckState
from queue_engine.domain.run import CheckTiming, Run
from queue_engine.rules.check_progress import with_reports, without_reruns
from queue_engine.rules.job_rates import JobFigures, figures_of_run, price_of, shown, total
from tests.unit.queue_engine.examples import MINUTE, NOW

SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("labels", "private", "public"),
    [
        ("ubuntu-latest", 0.006, 0),
        ("ubuntu-slim", 0.002, 0),
        ("ubuntu-24.04-arm", 0.005, 0),
        ("Windows-2025", 0.010, 0),
        ("windows-11-arm", 0.010, 0),
        ("macos-15", 0.062, 0),
        ("macos-latest-large", 0.077, 0.077),
        ("macos-15-xlarge", 0.102, 0.102),
        ("ubuntu-24.04-16core-64gb", 0.042, 0.042),
        ("windows-latest-8-cores", 0.042, 0.042),
        ("ubuntu-22.04-arm64-8core-32gb", 0.014, 0.014),
        ("linux-4-core-gpu", 0.052, 0.052),
        ("charm-linux", 0.006, 0),
        ("big-16-cores", 0.042, 0.042),
        ("self-hosted linux x64", 0, 0),
        ("self-hosted Builder", 0.5, 0.5),
        ("ubuntu-3-cores", None, None),
        ("arc-runner-set", None, None),
        ("", None, None),
    ],
)
def test_price_is_that_of_the_runner(labels: str, private: float | None, public: float | None) -> None:
    """GitHub's table since January 2026; a price of one's own comes first, and standard runners are free in public.

    A name that people chose may be a scale set of self-hosted runners, and a job with a group alone has no label.
    """
    names, own = labels.split(), {"builder": 0.5}
    assert price_of(names, own) == private
    assert price_of(names, own, public=True) == public


def job(name: str, start: int, end: int | None, *, suite: int = 1, price: float | None = None) -> CheckReport:
    """A job of GitHub Actions that ran from one second to another."""
    return CheckReport(
        name=name,
        app_id=15368,
        state=CheckState.PENDING if end is None else CheckState.PASSED,
        conclusion="in_progress" if end is None else "success",
        url=f"https://github.test/{name}/{suite}",
        started_at=NOW + start * SECOND,
        completed_at=None if end is None else NOW + end * SECOND,
        run_id=suite,
        suite=suite,
        by_actions=True,
        price=price,
    )


def test_each_job_counts_its_own_whole_minutes() -> None:
    """Also jobs of one name in several workflow runs; another App's check is no job, and one that ended before counts
    nothing."""
    other = replace(job("circle", 0, 600), by_actions=False)
    reports = [job("build", 0, 61, price=0.01), job("test", 0, 10), job("test", 0, 130, suite=2), other]
    run = with_reports(Run(), reports)
    assert figures_of_run(run, NOW + 10 * MINUTE)[0] == JobFigures(2 + 1 + 3, 0.02)
    assert figures_of_run(run, NOW + 10 * MINUTE, since=NOW + 100 * SECOND)[0].minutes == 3 + 1
    running = with_reports(Run(), [job("build", 0, None), job("skip", 5, 5), job("back", 70, 5)])
    assert figures_of_run(running, NOW + 61 * SECOND)[0] == JobFigures(2, None)


def test_attempt_that_is_run_again_stays_in_the_figures() -> None:
    """Its minutes are in vain, and the check's new attempt is added; also if webhooks alone report it."""
    failed = replace(job("test", 0, 61, price=0.01), state=CheckState.FAILED, conclusion="failure")
    run = replace(with_reports(Run(), [failed]), rerun_checks=("1:test",))
    again = without_reruns(run)
    assert figures_of_run(again, NOW) == (JobFigures(2, 0.02), JobFigures(2, 0.02))
    renewed = with_reports(again, [job("test", 100, 130, suite=2)])
    assert figures_of_run(renewed, NOW) == (JobFigures(3, 0.03), JobFigures(2, 0.02))
    third = without_reruns(replace(renewed, rerun_checks=("1:test", "2:test")))
    assert figures_of_run(third, NOW) == (JobFigures(3, 0.03), JobFigures(3, 0.03))


def test_pending_job_that_nothing_reported_counts_from_the_start_of_the_run() -> None:
    """If a job of its name ran on the branch before, at the price that it had then."""
    run = Run(pending_checks=("build", "legacy"), job_prices={"build": 0.01})
    assert figures_of_run(run, NOW + 61 * SECOND, begun=NOW)[0] == JobFigures(2, 0.02)
    ended = replace(run, timings=(CheckTiming("build", None, NOW, NOW + SECOND, passed=True, is_job=True),))
    assert figures_of_run(ended, NOW + 61 * SECOND, begun=NOW)[0] == JobFigures(1, 0.01)


def test_cost_that_is_known_counts_beside_one_that_is_not() -> None:
    """Minutes add up in any case."""
    assert total([JobFigures(1), JobFigures(2, 0.5), JobFigures(3, 0.25)]) == JobFigures(6, 0.75)
    assert JobFigures(4).times(0.5) == JobFigures(2)


def test_programs_get_rounded_figures_and_parts_that_add_up() -> None:
    """Shares of a run have no end in binary; what is stored stays exact, so that a sum of parts is the whole."""
    parts = [JobFigures(3.4 / 10, 3.4 * 0.006 / 10)] * 10
    whole = total(parts).minutes
    assert whole != 3.4
    data: dict[str, Any] = {"run": 1, "jobs": asdict(total(parts)), "check_jobs": {"test": asdict(parts[0])}}
    assert shown(data) == {
        "run": 1,
        "jobs": {"minutes": 3.4, "cost": 0.0204},
        "check_jobs": {"test": {"minutes": 0.34, "cost": 0.002}},
    }
    assert shown({"jobs": {"minutes": 3.0, "cost": None}}) == {"jobs": {"minutes": 3.0, "cost": None}}
    assert data["jobs"]["minutes"] == whole
