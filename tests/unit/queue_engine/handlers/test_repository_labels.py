"""Which labels IMQ creates, and when it tries again."""

from dataclasses import replace
from datetime import timedelta

import pytest

from queue_engine.core.database.database import Database
from queue_engine.domain.errors import Forbidden, GitHubError, Invalid, NotFound
from queue_engine.handlers.repositories import LABEL_JOB, RepositoryLabels, request_labels
from queue_engine.store import Store
from tests.unit.queue_engine.engine_setup import Setup
from tests.unit.queue_engine.examples import HOUR, REPOSITORY


@pytest.fixture
def scene(sqlite_database: Database) -> Setup:
    return Setup(Store(sqlite_database))


async def requested(scene: Setup, label: str, *, later: timedelta = timedelta(0)) -> bool:
    """Request the label; returns whether a job is to create it."""
    async with scene.engine.change() as change:
        await request_labels(replace(change, now=change.now + later), REPOSITORY, [label])
        return bool(await change.tx.jobs.unfinished_requests(LABEL_JOB, LABEL_JOB))


async def carry_out(scene: Setup, monkeypatch: pytest.MonkeyPatch, refusal: GitHubError | None = None) -> None:
    """Run the job that is there, with GitHub's answer to it."""

    async def create_label(*_: object) -> bool:
        if refusal is not None:
            raise refusal
        return True

    monkeypatch.setattr(scene.github, "create_label", create_label, raising=False)
    async with scene.store.transaction() as tx:
        (job,) = await tx.jobs.claim_some(1, owner="w", now=scene.engine.clock.now(), lease=HOUR)
    await RepositoryLabels(scene.engine).create(job)
    async with scene.store.transaction() as tx:
        await tx.jobs.finish([job])


async def test_label_that_was_created_is_the_same_in_any_case(scene: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    """GitHub knows one label for all spellings of a name, so a second request would only be refused (P7)."""
    assert await requested(scene, "merge-queue")
    await carry_out(scene, monkeypatch)
    assert not await requested(scene, "Merge-Queue", later=30 * 24 * HOUR)


@pytest.mark.parametrize("refusal", [Forbidden("no"), Invalid("no"), NotFound("no")])
async def test_label_that_github_does_not_create_is_tried_again_a_day_later(
    scene: Setup, monkeypatch: pytest.MonkeyPatch, refusal: GitHubError
) -> None:
    """GitHub answers 404 where it hides the repository from IMQ; no refusal fails the job."""
    assert await requested(scene, "merge-queue")
    await carry_out(scene, monkeypatch, refusal)
    assert not await requested(scene, "merge-queue", later=23 * HOUR)
    assert await requested(scene, "merge-queue", later=24 * HOUR)
