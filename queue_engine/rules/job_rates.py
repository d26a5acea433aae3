"""Compute what jobs of GitHub Actions cost: minutes as GitHub bills them, and the price of each by runner. Pure.

GitHub rounds each job up to whole minutes. Its prices are those since 2026-01-01, in US dollars ("Actions runner
pricing" in GitHub's documents, and the announcement "Pricing changes for GitHub Actions"). Both agree on them. Sources
disagree on a charge for self-hosted runners: GitHub announced $0.002 for March 2026 and postponed it, and some guides
still count it. So a self-hosted runner costs nothing here, unless `checks.prices` names a price.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from math import ceil
from typing import Annotated, Any

from queue_engine.core.read_model import adapter, rounded
from queue_engine.domain.run import CheckTiming, Run

LINUX = 0.006
"""The price of a minute on a runner with Linux and two cores."""

_STANDARD = {"linux": LINUX, "linux arm": 0.005, "windows": 0.010, "windows arm": 0.010, "macos": 0.062}
_SLIM = 0.002
"""That of Linux with one core."""
_LARGER = {
    "linux": {2: 0.006, 4: 0.012, 8: 0.022, 16: 0.042, 32: 0.082, 64: 0.162, 96: 0.252},
    "linux arm": {2: 0.005, 4: 0.008, 8: 0.014, 16: 0.026, 32: 0.050, 64: 0.098},
    "windows": {4: 0.022, 8: 0.042, 16: 0.082, 32: 0.162, 64: 0.322, 96: 0.552},
    "windows arm": {2: 0.008, 4: 0.014, 8: 0.026, 16: 0.050, 32: 0.098, 64: 0.194},
}
_LARGER_MACOS = {"xlarge": 0.102, "large": 0.077}
_GPU = {"linux": 0.052, "windows": 0.102}
_CORES = re.compile(r"(\d+)[-_ ]?(?:v?cpus?|cores?)\b")
_SELF_HOSTED = "self-hosted"


def price_of(labels: Collection[str], own: Mapping[str, float], *, public: bool = False) -> float | None:
    """Return the price of a minute on the runner with these labels; `own` are prices by label, which come first.

    Standard runners are free for public repositories, larger ones are not. None where labels do not tell the runner:
    administrators choose those of larger runners, and the one of a scale set of self-hosted runners ("About runner
    scale sets" in GitHub's documents). A job that names a group alone has none (awslabs/aws-athena-query-federation
    #1621, github-aws-runners/terraform-aws-github-runner #3548). Cores without a system count as Linux.
    """
    names = [each.casefold() for each in labels]
    if (known := next((own[each] for each in names if each in own), None)) is not None:
        return known
    if _SELF_HOSTED in names:
        return 0.0
    text = " ".join(names)
    found = next((each for each in ("windows", "macos", "linux", "ubuntu") if each in text), None)
    if found == "macos":
        larger = next((_LARGER_MACOS[each] for each in _LARGER_MACOS if each in text), None)
        return larger or (0.0 if public else _STANDARD[found])
    system = "windows" if found == "windows" else "linux"
    if "gpu" in text:
        return _GPU[system]
    system += " arm" if re.search(r"\barm(64)?\b", text) else ""
    if (cores := _CORES.search(text)) is not None:
        return _LARGER[system].get(int(cores[1]))
    if found is None or public:
        return None if found is None else 0.0
    return _SLIM if "slim" in text else _STANDARD[system]


Minutes = Annotated[float, rounded(2)]
Dollars = Annotated[float, rounded(4)]
"""As programs get them. IMQ stores and adds what is exact, so that parts and their sum agree."""


@dataclass(frozen=True, slots=True)
class JobFigures:
    """Minutes of jobs as GitHub bills them, and their cost in US dollars; None while no price is known."""

    minutes: Minutes = 0.0
    cost: Dollars | None = None

    def __add__(self, other: "JobFigures") -> "JobFigures":
        """Add both; a cost that is known counts alone."""
        costs = [each.cost for each in (self, other) if each.cost is not None]
        return JobFigures(self.minutes + other.minutes, sum(costs) if costs else None)

    def times(self, factor: float) -> "JobFigures":
        """Return them multiplied."""
        return JobFigures(self.minutes * factor, None if self.cost is None else self.cost * factor)


NO_JOBS = JobFigures()


def shown(data: Any) -> Any:
    """Return an event's data as programs get them: what jobs cost is rounded, wherever it stands."""
    if not isinstance(data, Mapping):
        return data
    if data.keys() == {"minutes", "cost"}:
        return adapter(JobFigures).dump_python(JobFigures(**data))
    return {name: shown(each) for name, each in data.items()}


def total(figures: Iterable[JobFigures]) -> JobFigures:
    """Add them up."""
    return sum(figures, NO_JOBS)


def minutes_of(timing: CheckTiming, begun: datetime | None, now: datetime) -> int:
    """Return the whole minutes of a job that began at `begun`, if nothing else says when; until now while it runs."""
    started, ended = timing.started or begun, timing.ended or now
    return 0 if started is None else ceil(max((ended - started).total_seconds(), 0.0) / 60)


def figures_of_job(timing: CheckTiming, prices: Mapping[str, float | None]) -> JobFigures:
    """Return what one job that has ended cost; `prices` are those of its runner before, by name."""
    price = prices.get(timing.name) if timing.price is None else timing.price
    return _priced(minutes_of(timing, None, timing.ended), price) if timing.ended is not None else NO_JOBS


def figures_of_run(
    run: Run, now: datetime, *, begun: datetime | None = None, since: datetime | None = None
) -> tuple[JobFigures, JobFigures]:
    """Return what the jobs on a run's candidate cost until now, and what of that reruns replaced.

    Jobs that ended before `since` do not count. `begun` is when those began of which nothing else says that: also
    pending ones that IMQ has not read yet, if a job of that name ran on the branch before.
    """
    spent = again = NO_JOBS
    before, known = run.job_prices or {}, {each.name for each in run.timings}.union(run.completed_checks)
    unread = [CheckTiming(each, is_job=True) for each in run.pending_checks if each in before and each not in known]
    for each in (*run.timings, *unread):
        if not each.is_job:
            continue
        counts = since is None or each.ended is None or each.ended > since
        minutes = (minutes_of(each, begun, now) if counts else 0) + (each.same_name or 0)
        reruns = each.rerun_minutes or 0
        price = before.get(each.name) if each.price is None else each.price
        spent += _priced(minutes + reruns, price)
        again += _priced(reruns, price)
    return spent, again


def _priced(minutes: int, price: float | None) -> JobFigures:
    return JobFigures(float(minutes), None if price is None else minutes * price)
