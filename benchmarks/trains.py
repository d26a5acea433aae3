"""CI runs, requests and speed of trains, through the real bot on virtual time, with one run at once.

All pull requests pass alone; the bad ones fail on the base that moves before all are queued at once. The share of bad
ones is exact, the seed decides which they are: runs are counted over several seeds, as one may be below or above the
mean by chance. The first quarter is left out: in it IMQ learns the share.

A pull request costs at least H(p) runs, by information alone (H: binary entropy), whatever the policy. A landing costs
H(p) / (1 - p), with p = 10 % 0.521 runs: so the goals are judged for each pull request that landed or left.
"""

import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce
from operator import add
from pathlib import Path

from benchmarks.merging import without_sweeps
from benchmarks.sizes import Size
from benchmarks.table import Row
from github_emulator import Activity, Job, PullRequestHandle, Trigger, WorkflowRun, WorkflowRunner
from imq_demo.trains.train_changes import (
    BASE_LIMIT,
    CHECK,
    WORKFLOW,
    TrainChange,
    changes_of,
    passes,
    start_files,
)
from queue_engine.planner.trains.plan import entropy
from tests.acceptance.world import LABEL, World, a_world

_CI = timedelta(minutes=10)
_SEEDS = 4
_GOALS = {0.02: 0.16, 0.10: 0.50}
_MOST_REQUESTS = {0.0: 12, 0.10: 15}
_FAST_CI = timedelta(minutes=2)
"""CI of the row of speed: GitHub's limits are what it measures, and not how long CI takes."""
_LANDINGS_AN_HOUR = 400
_CREATES = ("issues/{number}/comments", "pulls/{number}/merge", "/pulls")
"""How the routes end that create content, by GitHub's "Rate limits for the REST API"."""
_CONTENT, _REST, _POINTS, _GRAPHQL, _GRAPHQL_POINTS = 500, 5_000, 900 * 60, 5_000, 2_000 * 60
"""What an installation may do in an hour at least, by the same page."""
_WITHIN = timedelta(days=7)
_SETTINGS = {"IMQ_MAX_QUEUE_DEPTH": "0"}


@dataclass(frozen=True, slots=True)
class Cost:
    """What it took to resolve all pull requests."""

    pulls: int
    landed: int
    runs: int
    counted: tuple[int, int, int]
    """Pull requests after the first quarter, those of them that landed, and the runs from then on."""
    repeated: int
    """Runs of a tree that had passed before."""
    confirmed: int
    """Further runs of a tree that had failed: IMQ ejects a member once its tree failed twice, as one may be a flake."""
    red: int
    """Commits on which the base rested and that fail."""
    wrong: int
    """Bad pull requests that landed, and good ones that did not."""
    took: timedelta
    """From the labels until all had landed or left, and their comments said so."""
    requests: Counter[str]

    @property
    def runs_each(self) -> float:
        """Runs for each pull request after the first quarter."""
        pulls, _, runs = self.counted
        return runs / max(1, pulls)

    def __add__(self, other: "Cost") -> "Cost":
        ours, theirs = self.counted, other.counted
        return Cost(
            pulls=self.pulls + other.pulls,
            landed=self.landed + other.landed,
            runs=self.runs + other.runs,
            counted=(ours[0] + theirs[0], ours[1] + theirs[1], ours[2] + theirs[2]),
            repeated=self.repeated + other.repeated,
            confirmed=self.confirmed + other.confirmed,
            red=self.red + other.red,
            wrong=self.wrong + other.wrong,
            took=self.took + other.took,
            requests=self.requests + other.requests,
        )


async def trains_rows(size: Size, seed: int, *, landings: int = 96) -> list[Row]:
    """Runs for each pull request by share of bad ones, requests and landings an hour.

    `landings`: how many pull requests the speed is measured with.
    """
    count, few, many, seeded = size.of((150, 50, landings, _SEEDS), (12, 10, 10, 1), (2, 2, 2, 1))
    shares, costly = size.of((*_GOALS,), (*_GOALS,), (0.10,)), size.of((*_MOST_REQUESTS,), (*_MOST_REQUESTS,), (0.10,))
    seeds = range(seed, seed + seeded)
    rows = [_runs_row(bad, [await resolved(count, bad, seed=each) for each in seeds]) for bad in shares]
    rows += [_requests_row(bad, await resolved(few, bad, seed=seed, most=5)) for bad in costly]
    largest = await resolved(many, 0.0, seed=seed, most=32, ci=_FAST_CI)
    return [*rows, _limits_row(largest), _speed_row(largest)]


async def resolved(count: int, bad: float, *, seed: int, most: int | None = None, ci: timedelta = _CI) -> Cost:
    """Queue so many pull requests at once, and let IMQ resolve them all.

    `most`: the most members of a train; `ci`: how long a CI run takes.
    """
    changes = changes_of(count, bad, seed)
    with tempfile.TemporaryDirectory() as directory:
        async with a_world(Path(directory), settings=_SETTINGS, ci=False, protect=False) as world:
            runner = _set_up(world, most, ci)
            pulls = [_opened(world, change) for change in changes]
            await world.until(lambda: all(_is_green(pull) for pull in pulls))
            world.repository.push("main", BASE_LIMIT, "Limit temperatures", by="rhea")
            await world.pass_time(_CI * 2)
            now = world.clock.now()
            begun = _Begun(now, world.server.requests.by_template(), len(runner.runs), len(_moves(world)))
            for pull in pulls:
                pull.label(LABEL, by="mona")
            await world.until(lambda: len(_waiting(pulls)) <= count - count // 4, within=_WITHIN)
            warm = _waiting(pulls), _attempts(runner.runs[begun.runs :])
            await world.until(lambda: not _waiting(pulls), within=_WITHIN)
            await world.until(lambda: all(_has_outcome(pull) for pull in pulls), within=_WITHIN)
            took = world.clock.now() - begun.at
            await world.pass_time(_CI)
            return _cost(world, runner, changes, pulls, begun, warm, took)


@dataclass(frozen=True, slots=True)
class _Begun:
    """How much there was before the pull requests were queued."""

    at: datetime
    requests: Counter[str]
    runs: int
    moves: int


def _cost(
    world: World,
    runner: WorkflowRunner,
    changes: Sequence[TrainChange],
    pulls: Sequence[PullRequestHandle],
    begun: _Begun,
    warm: tuple[Sequence[PullRequestHandle], int],
    took: timedelta,
) -> Cost:
    made = runner.runs[begun.runs :]
    git = world.repository.record.git
    tips = [move.after for move in _moves(world)[begun.moves :] if move.ref == "refs/heads/main"]
    waited, runs_before = warm
    trees: dict[str, bool] = {}
    repeated = 0
    for run in made:
        tree = git.tree(run.tested_sha)
        repeated += trees.get(tree, False)
        trees[tree] = trees.get(tree, False) or all(job.conclusion == "success" for job in run.jobs)
    return Cost(
        pulls=len(pulls),
        landed=_merged(pulls),
        runs=_attempts(made),
        counted=(len(waited), _merged(waited), _attempts(made) - runs_before),
        repeated=repeated,
        confirmed=_attempts(made) - len(trees) - repeated,
        red=sum(tip is not None and not passes(git.files(tip)) for tip in tips),
        wrong=sum(change.bad == pull.merged for change, pull in zip(changes, pulls, strict=True)),
        took=took,
        requests=without_sweeps(world.server.requests.by_template() - begun.requests),
    )


def _opened(world: World, change: TrainChange) -> PullRequestHandle:
    pull: PullRequestHandle = world.repository.open_pull_request(
        change.title, head=f"recipe-{change.number}", by="mona", files=change.files
    )
    return pull


def _moves(world: World) -> Sequence[Activity]:
    moves: Sequence[Activity] = world.repository.record.activities
    return moves


def _set_up(world: World, most: int | None, ci: timedelta) -> WorkflowRunner:
    """Configure trains with one run at once, and a workflow of GitHub Actions that tests their branches."""
    files = dict(start_files(1))
    if most is not None:
        files[".github/imq.yml"] = files[".github/imq.yml"].replace("runs: 1", f"runs: 1, max_size: {most}")
    world.repository.push("main", files, "Configure", by="rhea")
    triggers = [Trigger("push", branches=["imq/**"]), Trigger("pull_request")]
    job = Job(CHECK, duration=ci, judge=passes)
    app = world.github.actions.app(world.repository.record)
    world.repository.protect("main", required_checks=[(CHECK, app.id)], strict=True, by="rhea")
    runner: WorkflowRunner = world.repository.add_workflow("CI", jobs=[job], on=triggers, path=WORKFLOW)
    return runner


def _runs_row(bad: float, costs: Sequence[Cost]) -> Row:
    """The row of all seeds together."""
    cost = reduce(add, costs)
    goal, bound = _GOALS[bad], entropy(bad)
    _, landed, runs = cost.counted
    met = cost.runs_each <= goal and not (cost.red or cost.wrong or cost.repeated)
    met = met and cost.confirmed <= cost.pulls - cost.landed
    return Row(
        f"trains {bad:.0%}",
        f"CI runs per pull request in trains, one run at once, {bad:.0%} of {costs[0].pulls} fail",
        f"{cost.runs_each:.3f} (after the first quarter; red base {cost.red}, passed trees run again {cost.repeated}, "
        f"failed ones {cost.confirmed})",
        cost.runs_each,
        f"at most {goal}, red base 0, no passed tree again, a failed one once for each that leaves",
        met,
        f"bound of information {bound:.3f}; one by one 1",
        bound,
        f"seeds: {len(costs)}; {cost.runs} runs in all: {cost.runs / cost.pulls:.3f} for each pull request; "
        f"{cost.landed} landed: {cost.runs / max(1, cost.landed):.3f} for each, {runs / max(1, landed):.3f} after the "
        f"first quarter, bound {bound / (1 - bad):.3f}; "
        f"wrong outcomes {cost.wrong}",
    )


def _requests_row(bad: float, cost: Cost) -> Row:
    value, goal = cost.requests.total() / max(1, cost.landed), _MOST_REQUESTS[bad]
    return Row(
        f"trains requests {bad:.0%}",
        f"requests per landing in trains of five, {bad:.0%} of {cost.pulls} pull requests fail",
        f"{value:.1f} (mean of {cost.landed} landings, virtual time)",
        value,
        f"at most {goal}",
        value <= goal and not cost.wrong,
        note=", ".join(f"{number / max(1, cost.landed):.3g} {name}" for name, number in cost.requests.most_common()),
    )


def _limits_row(cost: Cost) -> Row:
    """How many landings GitHub's limits allow in an hour, by each limit; mutations and writes cost five points."""
    each = {name: number / max(1, cost.landed) for name, number in cost.requests.items()}
    rest = {name: number for name, number in each.items() if name != "POST /graphql"}
    graphql = each.get("POST /graphql", 0.0)
    hourly = {
        "content": _CONTENT / sum(rest[name] for name in rest if name.startswith("P") and name.endswith(_CREATES)),
        "REST requests": _REST / sum(rest.values()),
        "REST points": _POINTS / sum(number * (1 if name.startswith("GET") else 5) for name, number in rest.items()),
        "GraphQL": _GRAPHQL / graphql,
        "GraphQL points": _GRAPHQL_POINTS / (5 * graphql),
    }
    value = min(hourly.values())
    return Row(
        "trains an hour",
        "landings an hour that GitHub's limits allow in trains of 32",
        f"{value:.0f} (of {cost.landed} landings, {cost.requests.total() / max(1, cost.landed):.1f} requests each)",
        value,
        f"at least {_LANDINGS_AN_HOUR}",
        value >= _LANDINGS_AN_HOUR and cost.landed == cost.pulls,
        note=", ".join(f"{limit} {count:.0f}" for limit, count in sorted(hourly.items(), key=lambda each: each[1])),
    )


def _speed_row(cost: Cost) -> Row:
    value = cost.landed / (cost.took / timedelta(hours=1))
    minutes = _FAST_CI / timedelta(minutes=1)
    return Row(
        "trains speed",
        f"landings an hour in trains of up to 32, comments included, CI {minutes:.0f} min",
        f"{value:.0f} ({cost.landed} landings in {cost.took / timedelta(minutes=1):.0f} min, virtual time)",
        value,
        f"at least {_LANDINGS_AN_HOUR}",
        value >= _LANDINGS_AN_HOUR and cost.landed == cost.pulls,
        note=f"{cost.runs} runs; all pull requests were queued at once, and IMQ knew nothing of their share that fails",
    )


def _attempts(runs: Sequence[WorkflowRun]) -> int:
    return sum(run.attempt for run in runs)


def _has_outcome(pull: PullRequestHandle) -> bool:
    """Whether a comment says that the pull request landed, or left."""
    return any("Landed on" in each.body or "Removed from" in each.body for each in pull.comments)


def _waiting(pulls: Sequence[PullRequestHandle]) -> Sequence[PullRequestHandle]:
    return [pull for pull in pulls if not pull.merged and LABEL in pull.labels]


def _merged(pulls: Sequence[PullRequestHandle]) -> int:
    return sum(pull.merged for pull in pulls)


def _is_green(pull: PullRequestHandle) -> bool:
    return any(run.conclusion == "success" for run in pull.check_runs)
