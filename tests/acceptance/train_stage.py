"""A world whose `main` has trains, and a workflow of GitHub Actions that tests their branches."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from github_emulator import Job, Trigger, WorkflowRun, WorkflowRunner
from tests.acceptance.project import total_at_most_ten
from tests.acceptance.world import CI_TIME, LABEL, World, a_world

CHECK = "test"
WORKFLOW = ".github/workflows/ci.yml"
_TRIGGERS = {
    "push": (Trigger("push", branches=["main", "imq/**"]), "push: {branches: [main, 'imq/**']}"),
    "pull_request": (Trigger("pull_request"), "pull_request: {}"),
    "dispatch": (Trigger("workflow_dispatch"), "workflow_dispatch: {}"),
}
NO_DEPTH = {"IMQ_MAX_QUEUE_DEPTH": "0"}


@dataclass
class TrainWorld:
    """A world, and the runs of its workflow."""

    world: World
    runner: WorkflowRunner
    number: int = 0
    judges: list[Callable[[Any], bool]] = field(default_factory=list)
    """What has to hold of a tree beside its total, for its check to pass."""

    def open(self, size: int = 0, **more: Any) -> Any:
        """Open a pull request of its own file; `size` counts in every tree, which is green while all add up to ten."""
        self.number += 1
        name = f"add-{self.number}"
        files = {f"{name}.txt": f"{size}\n"} if size else {f"{name}.py": f"{name}\n"}
        return self.world.open(name, files=files, **more)

    async def queued(self, *sizes: int) -> list[Any]:
        """Open pull requests of these sizes, wait for their own checks, and queue them all at one instant."""
        pulls = [self.open(size) for size in sizes]
        await self.world.pass_time(CI_TIME * 2)
        for pull in pulls:
            pull.label(LABEL, by="mona")
        return pulls

    def candidate_runs(self) -> list[WorkflowRun]:
        """The CI runs on branches of trains, oldest first."""
        return [run for run in self.runner.runs if str(run.suite.head_branch).startswith("imq/")]

    def branches(self) -> list[str]:
        """The branches of trains that exist."""
        return [name for name in self.world.repository.record.git.branches() if name.startswith(("imq/", "imq-build/"))]


def configure_at(trains: str, *, method: str = "merge", more: str = "") -> dict[str, str | None]:
    """The configuration, by its path."""
    return {".github/imq.yml": f"merge: {{method: {method}}}\ntrains: {trains}\n{more}"}


def configure(world: World, trains: str, *, method: str = "merge", more: str = "") -> None:
    """Put the configuration on main."""
    world.repository.push("main", configure_at(trains, method=method, more=more), "Configure", by="rhea")


@asynccontextmanager
async def a_train_world(
    directory: Path,
    *,
    trains: str = "{candidates: auto}",
    on: tuple[str, ...] = ("push", "pull_request"),
    method: str = "merge",
    strict: bool = False,
    more: str = "",
    lag: timedelta = timedelta(0),
    settings: dict[str, str] | None = None,
) -> AsyncIterator[TrainWorld]:
    """A world with this configuration of trains, whose workflow starts on these events."""
    async with a_world(directory, settings=NO_DEPTH | (settings or {}), ci=False, protect=False, lag=lag) as world:
        events = ", ".join(_TRIGGERS[each][1] for each in on)
        jobs = f"jobs: {{{CHECK}: {{runs-on: ubuntu-latest, steps: [{{run: make test}}]}}}}\n"
        world.repository.push("main", {WORKFLOW: f"on: {{{events}}}\n{jobs}"}, "CI", by="rhea")
        judges: list[Callable[[Any], bool]] = [total_at_most_ten]
        runner = world.repository.add_workflow(
            "CI",
            jobs=[Job(CHECK, duration=CI_TIME, judge=lambda files: all(judge(files) for judge in judges))],
            on=[_TRIGGERS[each][0] for each in on],
            path=WORKFLOW,
        )
        actions = world.github.actions.app(world.repository.record)
        world.repository.protect("main", required_checks=[(CHECK, actions.id)], strict=strict, by="rhea")
        configure(world, trains, method=method, more=more)
        await world.pass_time(CI_TIME * 2)
        yield TrainWorld(world, runner, judges=judges)
