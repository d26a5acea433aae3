"""Worlds whose repository has trains: CI runs on pushes of candidates, and not on the branches that build them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from github_emulator import CISettings
from tests.acceptance.project import total_at_most_ten
from tests.acceptance.world import CI_TIME, LABEL, World, a_world

CANDIDATES = ("main", "imq/*")
"""The branches whose pushes CI tests, and the bases whose pull requests it tests."""


@asynccontextmanager
async def a_train_world(
    directory: Path,
    *,
    trains: str = "{candidates: push}",
    more: str = "",
    lag: timedelta = timedelta(0),
    ci: dict[str, Any] | None = None,
    **settings: Any,
) -> AsyncIterator[World]:
    """A world in which pull requests are tested together."""
    async with a_world(directory, ci=False, protect=False, lag=lag, **settings) as world:
        wanted: dict[str, Any] = {"duration": CI_TIME, "judge": total_at_most_ten, "branches": CANDIDATES} | (ci or {})
        made = world.repository.add_ci("ci/test", settings=CISettings(**wanted))
        world.repository.protect("main", required_checks=[("ci/test", made.app.id)])
        text = f"trains: {trains}\n{more}"
        world.repository.push("main", {".github/imq.yml": text}, "Configure IMQ", by="rhea")
        await world.pass_time(CI_TIME * 2)
        yield world


def commits_tested(world: World) -> int:
    """How many commits CI has tested."""
    suites = world.repository.record.suites_by_sha.values()
    return sum(any(suite.app.slug == "ci" and suite.runs for suite in of_commit) for of_commit in suites)


async def ready(world: World, *names: str, files: Sequence[dict[str, str]] | None = None) -> list[Any]:
    """Pull requests whose own checks have passed."""
    given = [None] * len(names) if files is None else files
    pulls = [world.open(name, files=its_own) for name, its_own in zip(names, given, strict=True)]
    await world.pass_time(CI_TIME * 2)
    return pulls


def queue_all(pulls: Sequence[Any]) -> None:
    """Set the label on all of them."""
    for pull in pulls:
        pull.label(LABEL, by="mona")
