"""P4: which pull requests of forks a branch of the repository never gets, each cause by itself."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import pytest

from queue_engine.config.model import TrainRules
from queue_engine.core.database.database import Database
from queue_engine.domain.errors import Forbidden
from queue_engine.domain.facts import Permission, Review, ReviewState
from queue_engine.domain.policy import Candidates, TrainForks
from queue_engine.executor.members import sets_aside
from queue_engine.planner.actions import Facts
from queue_engine.planner.trains.memory import ForkReason
from queue_engine.store import Store
from tests.unit.queue_engine.examples import pull
from tests.unit.queue_engine.executor.train_states import TrainGitHub, a_state

TEXTS = {
    ".github/workflows/ci.yml": """
jobs:
  lint:
    steps:
      - uses: ./tools/cache
      - {uses: actions/checkout@v4, with: {path: ./source}}
      - uses: ./source/build/setup
""",
}
APPROVED = Review("rhea", ReviewState.APPROVED, True, commit="head-1")
SOUND: dict[str, Any] = {
    "paths_of_head": frozenset({"idea.py", "tools/cached.py"}),
    "workflow_files": TEXTS,
    "texts": {},
    "reviews": (APPROVED,),
    "permission": Permission.WRITE,
}


class ForkGitHub(TrainGitHub):
    """A GitHub whose reviews and permissions are answers, too."""

    async def reviews(self, *_: object) -> tuple[Review, ...]:
        return cast(tuple[Review, ...], self.answers["reviews"])

    async def permission(self, *_: object) -> Permission:
        return cast(Permission, self.answers["permission"])


@pytest.mark.parametrize(
    ("forks", "answers", "why"),
    [
        (TrainForks.REVIEWED, {}, None),
        (TrainForks.ON, {"reviews": ()}, None),
        (TrainForks.OFF, {}, ForkReason.OFF),
        (TrainForks.REVIEWED, {"reviews": ()}, ForkReason.UNREVIEWED),
        (TrainForks.REVIEWED, {"reviews": (replace(APPROVED, commit="older"),)}, ForkReason.UNREVIEWED),
        (TrainForks.REVIEWED, {"reviews": (replace(APPROVED, commit=None),)}, ForkReason.UNREVIEWED),
        (TrainForks.REVIEWED, {"reviews": (replace(APPROVED, state=ReviewState.DISMISSED),)}, ForkReason.UNREVIEWED),
        (TrainForks.REVIEWED, {"permission": Permission.TRIAGE}, ForkReason.UNREVIEWED),
        (TrainForks.ON, {"paths_of_head": None}, ForkReason.UNKNOWN),
        (TrainForks.ON, {"workflow_files": Forbidden("no GraphQL")}, ForkReason.UNKNOWN),
        (TrainForks.ON, {"workflow_files": {**TEXTS, ".github/workflows/large.yml": ""}}, ForkReason.UNKNOWN),
    ],
)
async def test_fork_is_tested_alone_for_one_cause(
    sqlite_database: Database, forks: TrainForks, answers: Mapping[str, Any], why: ForkReason | None
) -> None:
    """Only the newest reviews of people who may write count, for the queued head alone; what is unknown counts too."""
    assert await why_alone(sqlite_database, forks, answers) is why


@pytest.mark.parametrize(
    "path",
    [
        ".github/workflows/new.yml",
        ".github/actions/cache/run.sh",
        ".github/workflows",
        "tools/new/action.yaml",
        "tools/cache/index.js",
        "tools/cache",
        "tools",
        "build/setup/index.js",
    ],
)
async def test_fork_that_changes_workflows_or_actions_is_tested_alone(sqlite_database: Database, path: str) -> None:
    """A link or a submodule in place of a folder is one path; a checkout into a folder moves all actions there."""
    answers = {"paths_of_head": frozenset({"idea.py", path})}
    assert await why_alone(sqlite_database, TrainForks.ON, answers) is ForkReason.WORKFLOWS


async def test_fork_that_is_gone_is_a_fork(sqlite_database: Database) -> None:
    """GitHub still merges its commits, and names no repository of the head."""
    assert await why_alone(sqlite_database, TrainForks.OFF, {}, head_repository=None) is ForkReason.OFF


async def why_alone(
    database: Database, forks: TrainForks, answers: Mapping[str, Any], head_repository: str | None = "fan/project"
) -> ForkReason | None:
    """Why pull request 1, of a fork, is tested alone; None if a train tests it."""
    state, _ = await a_state(Store(database), ForkGitHub(**{**SOUND, **answers}), (1,))
    state.trains = TrainRules(Candidates.AUTO, forks=forks)
    (entry,) = state.entries
    state.verified[entry.id, entry.version] = Facts(pull=pull(head_repository=head_repository))
    await sets_aside(state, state.entries, "base-1")
    found = state.memory.tested_alone.get(1)
    return None if found is None else found.why
