"""CI runs and requests of trains, through the real bot with one run at once (virtual time).

All pull requests pass alone; the bad ones fail on the base that moves before all are queued at once. The share of bad
ones is exact, the seed decides which they are. The first quarter is left out: in it IMQ learns the share.

A pull request costs at least H(p) runs, by information alone (H: binary entropy), whatever the policy. With p = 10 %
that is more for each landing than for each pull request, so the goals are judged for each pull request.
"""

import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from benchmarks.merging import Queue, imq, without_sweeps
from benchmarks.table import Row
from bot.demo.trains.train_changes import BASE_LIMIT, CHECK, WORKFLOW, changes_of, passes, start_files
from queue_engine.planner.trains.new_runs import entropy
from sandbox.ci.workflow_runner import WorkflowRunner
from sandbox.ci.workflows import Job, Trigger
from sandbox.facade.pull_request_handle import PullRequestHandle
from sandbox.state import WorkflowRun
from tests.acceptance.world import LABEL

_CI = timedelta(minutes=10)
_GOALS = {0.02: 0.16, 0.10: 0.50}
_MOST_REQUESTS = 12
_WITHIN = timedelta(days=7)
_SETTINGS = {"IMQ_MAX_QUEUE_DEPTH": "0"}


@dataclass(frozen=True, slots=True)
class Cost:
    """What it took to resolve all pull requests."""

    pulls: int
    landed: int
    runs: int
    counted: tuple[int, int]
    """Pull requests after the first quarter, and the runs from then on."""
    repeated: int
    """Runs of a tree that had run before."""
    red: int
    """Commits on which the base rested and that fail."""
    wrong: int
    """Bad pull requests that landed, and good ones that did not."""
    requests: Counter[str]

    @property
    def runs_each(self) -> float:
        """Runs for each pull request after the first quarter."""
        pulls, runs = self.counted
        return runs / pulls


async def trains_rows(*, quick: bool, seed: int) -> list[Row]:
    """Runs for each pull request by share of bad ones, and requests for each landing in trains of five."""
    count = 12 if quick else 150
    rows = [_runs_row(bad, await resolved(count, bad, seed=seed)) for bad in _GOALS]
    five = await resolved(10 if quick else 50, 0.0, seed=seed, most=5)
    return [*rows, _requests_row(five)]


async def resolved(count: int, bad: float, *, seed: int, most: int | None = None) -> Cost:
    """Queue so many pull requests at once, and let IMQ resolve them all; `most`: the most members of a train."""
    changes = changes_of(count, bad, seed)
    with tempfile.TemporaryDirectory() as directory:
        async with imq(Path(directory), _CI, settings=_SETTINGS) as queue:
            runner = _set_up(queue, most)
            handle = queue.stage.repository
            pulls = [
                handle.open_pull_request(change.title, head=f"recipe-{change.number}", by="mona", files=change.files)
                for change in changes
            ]
            await queue.time.until(lambda: all(_is_green(pull) for pull in pulls))
            handle.push("main", BASE_LIMIT, "Limit temperatures", by="rhea")
            await queue.time.settle()
            before, runs, moves = queue.spent(), len(runner.runs), len(handle.record.activities)
            for pull in pulls:
                queue.ask(pull)
            await queue.time.until(lambda: _left(pulls) <= count - count // 4, within=_WITHIN)
            left, early = _left(pulls), _attempts(runner.runs[runs:])
            await queue.time.until(lambda: _left(pulls) == 0, within=_WITHIN)
            await queue.time.settle()
            spent = without_sweeps(queue.spent() - before)
            made = runner.runs[runs:]
            git = handle.record.git
            tips = [move.after for move in handle.record.activities[moves:] if move.ref == "refs/heads/main"]
            return Cost(
                pulls=count,
                landed=sum(pull.merged for pull in pulls),
                runs=_attempts(made),
                counted=(left, _attempts(made) - early),
                repeated=_attempts(made) - len({git.tree(run.tested_sha) for run in made}),
                red=sum(tip is not None and not passes(git.files(tip)) for tip in tips),
                wrong=sum(change.bad == pull.merged for change, pull in zip(changes, pulls, strict=True)),
                requests=spent,
            )


def _set_up(queue: Queue, most: int | None) -> WorkflowRunner:
    """Configure trains with one run at once, and a workflow of GitHub Actions that tests their branches."""
    stage = queue.stage
    stage.ci.reports = False
    files = dict(start_files(1))
    if most is not None:
        files[".github/imq.yml"] = files[".github/imq.yml"].replace("runs: 1", f"runs: 1, max_size: {most}")
    stage.repository.push("main", files, "Configure", by="rhea")
    triggers = [Trigger("push", branches=["imq/**"]), Trigger("pull_request")]
    job = Job(CHECK, duration=_CI, judge=passes)
    app = stage.github.actions.app(stage.repository.record)
    stage.repository.protect("main", required_checks=[(CHECK, app.id)], strict=True, by="rhea")
    return stage.repository.add_workflow("CI", jobs=[job], on=triggers, path=WORKFLOW)


def _runs_row(bad: float, cost: Cost) -> Row:
    goal, bound = _GOALS[bad], entropy(bad)
    met = cost.runs_each <= goal and not (cost.red or cost.wrong or cost.repeated)
    return Row(
        f"trains {bad:.0%}",
        f"CI runs per pull request in trains, one run at once, {bad:.0%} of {cost.pulls} fail",
        f"{cost.runs_each:.3f} (after the first quarter; red base {cost.red}, trees run twice {cost.repeated})",
        cost.runs_each,
        f"at most {goal}, red base 0, no tree twice",
        met,
        f"bound of information {bound:.3f}; one by one 1",
        bound,
        f"{cost.runs} runs, {cost.landed} landed: {cost.runs / max(1, cost.landed):.3f} runs per landing in all; "
        f"wrong outcomes {cost.wrong}; {cost.requests.total() / max(1, cost.landed):.1f} requests per landing",
    )


def _requests_row(cost: Cost) -> Row:
    value = cost.requests.total() / max(1, cost.landed)
    return Row(
        "trains requests",
        f"requests per landing in trains of five, {cost.pulls} pull requests",
        f"{value:.1f} (mean of {cost.landed} landings, virtual time)",
        value,
        f"at most {_MOST_REQUESTS}",
        value <= _MOST_REQUESTS and cost.landed == cost.pulls,
        note=", ".join(f"{number / max(1, cost.landed):.3g} {name}" for name, number in cost.requests.most_common()),
    )


def _attempts(runs: Sequence[WorkflowRun]) -> int:
    return sum(run.attempt for run in runs)


def _left(pulls: Sequence[PullRequestHandle]) -> int:
    return sum(not pull.merged and LABEL in pull.labels for pull in pulls)


def _is_green(pull: PullRequestHandle) -> bool:
    return any(run.conclusion == "success" for run in pull.check_runs)
