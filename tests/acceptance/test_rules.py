"""What branches require, in all the ways that GitHub lets them, and how IMQ reads it."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from github_emulator import CheckRunFields, CISettings
from tests.acceptance.choosing import configure
from tests.acceptance.world import CI_TIME, LABEL, World, a_world

CHECK_RUNS = "GET /repos/{owner}/{repo}/commits/{ref}/check-runs"
RED = {"red.txt": "70\n"}


@pytest.fixture
async def bare(tmp_path: Path) -> AsyncIterator[World]:
    """A world without CI and without rules."""
    async with a_world(tmp_path, ci=False, protect=False) as made:
        yield made


def report(world: World, pull: Any, app: str, name: str, conclusion: str | None) -> Any:
    """An App reports a check run on the pull request's head; None leaves it running."""
    found = next((one for one in world.github.state.apps.values() if one.slug == app), None)
    found = found or world.github.create_app(app, permissions={"checks": "write"})
    status = "in_progress" if conclusion is None else "completed"
    return world.github.checks.create_run(
        world.repository.record,
        app=found,
        name=name,
        head_sha=pull.head_sha,
        fields=CheckRunFields(status=status, conclusion=conclusion),
    )


async def leaves(world: World, pull: Any, reason: str, *, within: timedelta = timedelta(hours=1)) -> str:
    """The pull request leaves for this reason without landing; what its comment says."""
    await world.until(lambda: LABEL not in pull.labels, within=within)
    await world.settle()
    assert await world.reasons(pull) == [reason]
    assert not pull.merged
    return world.comment(pull)


@pytest.mark.thorough
@pytest.mark.parametrize("where", ["classic", "ruleset", "both"])
async def test_required_checks_are_waited_for_wherever_they_are_required(bare: World, where: str) -> None:
    """The last required one decides, be it asked for by protection, by a ruleset, or one by each."""
    quick = bare.repository.add_ci("ci/quick", settings=CISettings(app="quick", duration=timedelta(minutes=1)))
    slow = bare.repository.add_ci("ci/slow", settings=CISettings(app="slow", duration=timedelta(minutes=20)))
    bare.repository.add_ci("ci/optional", settings=CISettings(app="optional", duration=timedelta(hours=1)))
    bound = {"quick": ("ci/quick", quick.app.id), "slow": ("ci/slow", slow.app.id)}
    by_protection = {"classic": ["quick", "slow"], "ruleset": [], "both": ["quick"]}[where]
    by_ruleset = [name for name in bound if name not in by_protection]
    if by_protection:
        bare.repository.protect("main", required_checks=[bound[name] for name in by_protection])
    if by_ruleset:
        bare.repository.add_ruleset("checks", required_checks=[bound[name] for name in by_ruleset])
    pull = bare.open("add")
    pull.label(LABEL, by="mona")
    await bare.pass_time(timedelta(minutes=19))
    assert not pull.merged
    await bare.until(lambda: pull.merged, within=timedelta(minutes=2))
    # A look when the head is bound, one by the slow fallback after fifteen minutes, and one when the last one reports.
    assert len(bare.server.requests.of(CHECK_RUNS)) == 3


@pytest.mark.thorough
async def test_run_of_the_same_name_by_another_app_does_not_count(world: World) -> None:
    """P1: a check bound to an App is not passed, and not failed, by somebody else's run of that name."""
    passed = world.open("red", files=RED)
    report(world, passed, "impostor", "ci/test", "success")
    passed.label(LABEL, by="mona")
    assert "ci/test" in await leaves(world, passed, "checks_failed")
    failed = world.open("green")
    report(world, failed, "impostor", "ci/test", "failure")
    failed.label(LABEL, by="mona")
    await world.until(lambda: failed.merged)


@pytest.mark.thorough
async def test_required_commit_status_counts_like_a_check(bare: World) -> None:
    """IMQ distinguishes passed and failed commit statuses, the older kind of checks."""
    bare.repository.add_ci(
        "ci/status",
        settings=CISettings(app="jenkins", status=True, duration=CI_TIME, judge=lambda files: "red.txt" not in files),
    )
    bare.repository.protect("main", required_checks=["ci/status"])
    green, red = bare.open("green"), bare.open("red", files=RED)
    for pull in (green, red):
        pull.label(LABEL, by="mona")
        await bare.settle()
    await bare.until(lambda: green.merged, within=CI_TIME + timedelta(seconds=5))
    assert "ci/status" in await leaves(bare, red, "checks_failed")


@pytest.mark.thorough
async def test_check_run_and_status_of_one_name_must_both_pass(bare: World) -> None:
    """GitHub requires both when both report; the green one does not hide the red one."""
    bare.repository.add_ci("ci/test", settings=CISettings(app="runs", duration=timedelta(minutes=1)))
    bare.repository.add_ci(
        "ci/test",
        settings=CISettings(app="statuses", status=True, duration=CI_TIME, judge=lambda files: "red.txt" not in files),
    )
    bare.repository.protect("main", required_checks=["ci/test"])
    red = bare.open("red", files=RED)
    red.label(LABEL, by="mona")
    await bare.pass_time(timedelta(minutes=2))
    assert await bare.status(red) == "checking"
    await leaves(bare, red, "checks_failed")
    green = bare.open("green")
    green.label(LABEL, by="mona")
    await bare.until(lambda: green.merged, within=CI_TIME + timedelta(seconds=5))


@pytest.mark.thorough
async def test_skipped_and_neutral_checks_pass(bare: World) -> None:
    """GitHub's rule: `success`, `skipped` and `neutral` pass."""
    bare.repository.protect("main", required_checks=["ci/a", "ci/b"])
    pull = bare.open("add")
    report(bare, pull, "ci", "ci/a", "skipped")
    report(bare, pull, "ci", "ci/b", "neutral")
    pull.label(LABEL, by="mona")
    await bare.until(lambda: pull.merged, within=timedelta(seconds=5))


async def test_red_workflow_that_starts_late_counts_where_nothing_is_required(bare: World) -> None:
    """P1: all runs known so far being green is not green before later workflows have had a moment to start."""
    pull = bare.open("add")
    pull.label(LABEL, by="mona")
    await bare.settle()
    report(bare, pull, "ci", "build", "success")
    await bare.pass_time(timedelta(seconds=5))
    late = report(bare, pull, "ci", "deploy preview", None)
    await bare.pass_time(timedelta(minutes=5))
    assert not pull.merged
    bare.github.checks.update_run(late, CheckRunFields(conclusion="failure"))
    assert "deploy preview" in await leaves(bare, pull, "checks_failed", within=timedelta(minutes=1))


@pytest.mark.thorough
async def test_everything_reported_must_pass_where_nothing_is_required(bare: World) -> None:
    """Checks and statuses alike; when the last of them is green, it lands after the moment for late ones."""
    bare.repository.add_ci("build", settings=CISettings(app="build", duration=timedelta(minutes=1)))
    bare.repository.add_ci("lint", settings=CISettings(app="lint", status=True, duration=CI_TIME))
    pull = bare.open("add")
    pull.label(LABEL, by="mona")
    await bare.pass_time(timedelta(minutes=2))
    assert not pull.merged
    await bare.until(lambda: pull.merged, within=timedelta(minutes=1, seconds=20))


@pytest.mark.thorough
async def test_pull_request_that_nothing_checks_leaves_with_that_explanation(bare: World) -> None:
    """P1, P5: nothing required and nothing reported is no green; after ten minutes its author reads so."""
    pull = bare.open("add")
    pull.label(LABEL, by="mona")
    text = await leaves(bare, pull, "no_checks", within=timedelta(minutes=11))
    assert "No check reported" in text


async def test_branch_that_requires_githubs_own_queue_is_refused_at_admission(world: World) -> None:
    """Only GitHub's own queue can merge there: the refusal comes at once, before any CI is spent."""
    world.repository.add_ruleset("queue", merge_queue=True, by="rhea")
    pull = world.open("add")
    pull.label(LABEL, by="mona")
    text = await leaves(world, pull, "native_queue_required", within=timedelta(seconds=5))
    assert "requires GitHub's merge queue" in text


@pytest.mark.parametrize("where", ["classic", "ruleset"])
async def test_missing_approval_is_reported_and_an_approval_helps(world: World, where: str) -> None:
    """P5: at admission, before any CI is spent; the approval and a new label land it."""
    await configure(world, "when_not_ready: refuse\n")
    if where == "classic":
        checks = [("ci/test", world.app_id("ci"))]
        world.repository.protect("main", required_checks=checks, required_approvals=1, by="rhea")
    else:
        world.repository.add_ruleset("reviews", required_approvals=1, by="rhea")
    pull = world.open("add")
    await world.pass_time(CI_TIME * 2)
    pull.label(LABEL, by="mona")
    text = await leaves(world, pull, "approval_missing", within=timedelta(minutes=1))
    assert "0 of 1" in text
    assert world.requests("PUT /repos/{owner}/{repo}/pulls/{number}/merge") == 0
    pull.review("APPROVED", by="hubot")
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged, within=timedelta(seconds=5))


@pytest.mark.thorough
async def test_missing_permission_to_merge_is_named(world: World) -> None:
    """The operator reads which permission the App lacks, and the pull request waits for it."""
    pull = world.open("add")
    await world.pass_time(CI_TIME * 2)
    world.grant("contents", "read")
    pull.label(LABEL, by="mona")
    await world.pass_time(timedelta(minutes=5))
    assert await world.reasons(pull) == []
    assert "contents=write" in world.comment(pull)
