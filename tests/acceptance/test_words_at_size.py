"""P6, P7: many labels at once: each pull request has a visible word soon, merges come first, and limits are kept."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from bot.gateway.http import pacing
from bot.gateway.http.pacing import Rates
from queue_engine.domain.facts import OWN_CHECK
from tests.acceptance.world import CI_TIME, LABEL, World, a_world

CREATE = "POST /repos/{owner}/{repo}/check-runs"
SOON = timedelta(minutes=5)
FEW = Rates(content_per_minute=4, content_per_hour=8)
"""Fewer contents than pull requests, as a thousand labels have: an hour's content is kept for what it can land."""


def without_word(world: World, pulls: list[Any]) -> list[int]:
    """The pull requests on which nothing of IMQ's can be seen: no comment, and no check run on the head."""
    return [
        pull.number
        for pull in pulls
        if not world.spoken(pull) and not any(run.name == OWN_CHECK for run in pull.check_runs)
    ]


def limit(world: World, rates: Rates) -> None:
    """Have GitHub allow so much content. All endpoints share the points of a minute: that reading is stricter."""
    limits = world.server.limits
    limits.creations_per_minute, limits.creations_per_hour = rates.content_per_minute, rates.content_per_hour
    limits.points_together = True


async def label_all(world: World, count: int) -> list[Any]:
    """Label so many green pull requests in one moment."""
    pulls = [world.open(f"add-{number}") for number in range(count)]
    await world.pass_time(CI_TIME * 2)
    for pull in pulls:
        pull.label(LABEL, by="mona")
    return pulls


@pytest.mark.thorough
async def test_each_of_many_pull_requests_labeled_at_once_has_a_word_although_content_is_kept_for_merges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A check run shows what no comment may: it creates no content. The queue lands as quickly as without words."""
    monkeypatch.setattr(pacing, "DOCUMENTED", FEW)
    async with a_world(tmp_path) as world:
        limit(world, FEW)
        pulls = await label_all(world, 8)
        await world.pass_time(timedelta(minutes=1))
        assert without_word(world, pulls) == []
        assert sum(world.spoken(pull) for pull in pulls) == 0, "the hour's content is kept for eight merges"
        assert world.requests(CREATE) < 8, "one mutation creates several"
        await world.pass_time(SOON - timedelta(minutes=1))
        assert sum(pull.merged for pull in pulls) == 2, "one at once, the next after its checks"
        assert world.server.limits.violations == []
        world.unsettled = "eight merges take longer than the content of an hour"


@pytest.mark.parametrize("points", [900, 60], ids=["comments first", "check runs later"])
async def test_each_of_many_labels_that_a_sweep_finds_has_a_word_although_content_is_scarce(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, points: int
) -> None:
    """IMQ looks for a check run of an earlier database first. Where there was none, it wrote none for hours."""
    monkeypatch.setattr(pacing, "DOCUMENTED", replace(FEW, points_per_minute=points))
    async with a_world(tmp_path) as world:
        limit(world, FEW)
        pulls = [world.open(f"add-{number}") for number in range(8)]
        await world.pass_time(CI_TIME * 2)
        await world.kill()
        world.app.webhook_url = None
        for pull in pulls:
            pull.label(LABEL, by="mona")
        await world.restart()
        await world.pass_time(SOON)
        assert without_word(world, pulls) == []
        assert world.server.limits.violations == []
        world.unsettled = "eight merges take longer than the content of an hour"


async def red(world: World, pulls: list[Any]) -> None:
    """Each fails its own checks."""
    for number, pull in enumerate(pulls):
        pull.push({f"red-{number}.txt": "99\n"}, by="mona")
    await world.pass_time(CI_TIME * 2)


async def drafts(world: World, pulls: list[Any]) -> None:
    """Each waits outside the queue."""
    for pull in pulls:
        pull.convert_to_draft(by="mona")
    await world.settle()


async def conflicting(world: World, pulls: list[Any]) -> None:
    """The base has another version of each file."""
    files = {f"add-{number}.py": "other\n" for number in range(len(pulls))}
    world.repository.push("main", files, "Write the same files", by="rhea")
    await world.pass_time(CI_TIME * 2)


@pytest.mark.thorough
@pytest.mark.parametrize("make", [red, drafts, conflicting])
async def test_each_of_many_pull_requests_that_cannot_land_has_a_word_although_content_is_scarce(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[World, list[Any]], Awaitable[None]]
) -> None:
    """An outcome, or what a pull request waits for, comes like the first word of one that lands."""
    monkeypatch.setattr(pacing, "DOCUMENTED", FEW)
    async with a_world(tmp_path) as world:
        limit(world, FEW)
        pulls = [world.open(f"add-{number}") for number in range(12)]
        await world.pass_time(CI_TIME * 2)
        await make(world, pulls)
        for pull in pulls:
            pull.label(LABEL, by="mona")
        await world.pass_time(SOON)
        assert without_word(world, pulls) == []
        assert world.server.limits.violations == []
        world.unsettled = "twelve comments take longer than the content of an hour"


@pytest.mark.long
async def test_each_of_a_thousand_pull_requests_labeled_at_once_has_a_word_within_minutes(tmp_path: Path) -> None:
    """The true size, at GitHub's documented limits."""
    async with a_world(tmp_path, settings={"IMQ_MAX_QUEUE_DEPTH": "0"}) as world:
        limit(world, pacing.DOCUMENTED)
        pulls = await label_all(world, 1_000)
        await world.pass_time(SOON)
        assert without_word(world, pulls) == []
        assert sum(pull.merged for pull in pulls) == 2, "one at once, the next after its checks"
        assert world.server.limits.violations == []
        world.unsettled = "a thousand merges take days"


async def test_check_runs_that_count_as_content_after_all_are_refused_once_an_hour_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No source counts them; should GitHub do it, IMQ counts them as well for an hour after a refusal."""
    monkeypatch.setattr(pacing, "DOCUMENTED", FEW)
    async with a_world(tmp_path) as world:
        limit(world, FEW)
        world.server.limits.check_runs_create = True
        pulls = await label_all(world, 6)
        await world.until(lambda: all(pull.merged for pull in pulls), within=timedelta(hours=3))
        refused = sorted({violation.at for violation in world.server.limits.violations})
        assert refused
        assert all(after - before >= timedelta(hours=1) for before, after in pairwise(refused))
        await world.until(lambda: without_word(world, pulls) == [], within=timedelta(hours=3))
