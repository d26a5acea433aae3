"""A pull request gets its label while a required check has failed on its head: it waits, and joins when it passes."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.cli.author.terminal import details
from github_emulator import CISettings
from tests.acceptance.callers import Caller, path_of
from tests.acceptance.choosing import configure
from tests.acceptance.page_readers import reader
from tests.acceptance.test_check_outcomes import with_unit
from tests.acceptance.test_label_early import SOON, early, waiting
from tests.acceptance.world import CI_TIME, LABEL, World, a_world

REPORTS = "GET /repos/{owner}/{repo}/commits/{ref}/check-runs"
BROKEN = {"broken": "yes\n"}
MINUTE = timedelta(minutes=1)


@pytest.fixture
async def world(tmp_path: Path, lag: timedelta) -> AsyncIterator[World]:
    """A world whose one required check is `unit`, a job of the workflow `ci`."""
    async with a_world(tmp_path, ci=False, protect=False, lag=lag) as made:
        yield made


def rerun(world: World, pull: Any) -> None:
    """Somebody runs the failed check of the head again."""
    run = next(run for run in pull.check_runs if run.name == "unit")
    world.repository.rerun(run, by="mona")


@pytest.mark.thorough
@pytest.mark.lagging
@pytest.mark.parametrize("behind", [False, True])
async def test_failed_check_keeps_the_label_waiting_until_a_rerun_passes(world: World, behind: bool) -> None:
    """P6: one comment names the check, and whose move it is; also where the head is behind its base."""
    unit = with_unit(world)
    unit.plan = ("failure",)
    pull = await early(world)
    if behind:
        unit.plan = ()
        world.repository.push("main", {"other.py": "other\n"}, "Other", by="rhea")
        await world.pass_time(CI_TIME)
    assert await world.entries() == ()
    comment = world.comment(pull)
    assert "A required check failed on the head of the pull request." in comment
    assert "Failing checks:\n\n- [`unit`](http" in comment
    assert "**Next step for the author:** Push a fix, or rerun the check if it is flaky." in comment
    await world.pass_time(timedelta(minutes=15))
    unit.plan = ()
    rerun(world, pull)
    await world.pass_time(CI_TIME + MINUTE / 2)
    assert pull.merged or (await waiting(world, pull)).is_ready
    await world.until(lambda: pull.merged, within=CI_TIME * 3)
    await world.settle()
    assert world.spoken(pull) == 1
    assert LABEL not in pull.labels


async def test_all_who_ask_read_which_check_fails_with_its_link(world: World, mona: Caller) -> None:
    """The API and `imq why`, the page with its history, and the reply to `/why`."""
    with_unit(world)
    pull = await early(world, files=BROKEN)
    answer = (await mona.ask("GET", path_of(pull))).body
    [failing] = answer["failing"]
    assert (answer["state"], answer["reason"], failing["check"]) == ("not_ready", "checks_failed", "unit")
    assert failing["url"].startswith("http")
    assert f"  failing: unit (unit) {failing['url']}" in list(details(answer))
    async with reader(world, "rhea") as rhea:
        page = await rhea.get(f"/repositories/acme/widgets/pulls/{pull.number}")
    assert page.links.count(failing["url"]) == 2
    pull.comment("/why", by="mona")
    await world.settle()
    await world.pass_time(timedelta(seconds=30))
    assert f"Failing checks: [`unit`]({failing['url']})." in world.comment(pull)


@pytest.mark.lagging
async def test_push_of_a_fix_by_somebody_who_may_queue_lets_it_join(world: World) -> None:
    """P4: the new head is bound; its checks are under way, so that it joins at once."""
    with_unit(world)
    pull = await early(world, files=BROKEN)
    pull.push({"broken": None}, by="hubot")
    await world.pass_time(MINUTE / 2)
    assert (await waiting(world, pull)).is_ready
    await world.until(lambda: pull.merged, within=CI_TIME * 2)


@pytest.mark.thorough
@pytest.mark.lagging
async def test_check_that_fails_on_the_base_too_lets_the_pull_request_join_and_land_once_the_base_is_repaired(
    world: World,
) -> None:
    """Its author does nothing: the comment says that the base is red, and IMQ tests the pull request on the fix."""
    with_unit(world, on=("push", "pull_request"))
    world.repository.push("main", BROKEN, "Break the base", by="rhea")
    await world.pass_time(CI_TIME * 2)
    pull = world.open("innocent")
    await world.pass_time(CI_TIME * 2)
    pull.label(LABEL, by="mona")
    await world.pass_time(CI_TIME * 2)
    assert (await waiting(world, pull)).is_ready
    assert "`main` is broken, not your pull request" in world.comment(pull)
    world.repository.push("main", {"broken": None}, "Repair the base", by="rhea")
    await world.until(lambda: pull.merged, within=CI_TIME * 4)
    assert await world.reasons(pull) == []


@pytest.mark.thorough
@pytest.mark.lagging
async def test_failed_check_that_is_not_required_is_no_reason_to_wait(world: World) -> None:
    """What GitHub does not require for the merge, IMQ does not wait for."""
    with_unit(world)
    lint = world.repository.add_ci("lint", CISettings(duration=CI_TIME))
    lint.plan = ("failure",)
    pull = world.open("linted")
    await world.pass_time(CI_TIME * 2)
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged, within=SOON)


@pytest.mark.thorough
async def test_pending_check_joins_the_queue_as_before(world: World) -> None:
    """The queue waits for checks; that one fails there later takes the label off, as always."""
    with_unit(world)
    pull = world.open("pending", files=BROKEN)
    pull.label(LABEL, by="mona")
    await world.pass_time(timedelta(seconds=10))
    assert (await waiting(world, pull)).is_ready
    await world.until(lambda: LABEL not in pull.labels)
    assert await world.reasons(pull) == ["checks_failed"]


@pytest.mark.thorough
@pytest.mark.parametrize("conclusion", ["success", "neutral", "skipped"])
async def test_own_check_of_an_ejection_is_no_reason_to_wait(world: World, conclusion: str) -> None:
    """IMQ's check still shows the ejection when a rerun of the required check has passed, or need not pass."""
    unit = with_unit(world)
    unit.plan = ("failure", "failure")
    pull = world.open("ejected")
    pull.label(LABEL, by="mona")
    await world.until(lambda: LABEL not in pull.labels)
    await world.settle()
    assert any(run.app.slug == "imq" and run.conclusion == "failure" for run in pull.check_runs)
    unit.plan = (conclusion,)
    rerun(world, pull)
    await world.pass_time(CI_TIME * 2)
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged, within=SOON)


@pytest.mark.thorough
async def test_queue_only_check_that_failed_is_no_reason_to_wait(world: World) -> None:
    """It counts on IMQ's own update alone."""
    await configure(world, "checks: {queue_only: unit}\n")
    unit = with_unit(world)
    unit.plan = ("failure",)
    pull = world.open("two-step")
    await world.pass_time(CI_TIME * 2)
    pull.label(LABEL, by="mona")
    await world.pass_time(timedelta(seconds=10))
    assert (await waiting(world, pull)).is_ready


@pytest.mark.thorough
@pytest.mark.parametrize("switch", ["rollup_readable", "rollup_counts_replaced"])
async def test_rollup_that_github_refuses_or_keeps_red_leaves_all_as_before(world: World, switch: str) -> None:
    """IMQ judges the reports itself; without the rollup it queues the pull request, and reads no reports before."""
    unit = with_unit(world)
    unit.plan = ("failure",)
    pull = world.open("odd")
    await world.pass_time(CI_TIME * 2)
    if switch == "rollup_counts_replaced":
        unit.plan = ()
        rerun(world, pull)
        await world.pass_time(CI_TIME * 2)
    setattr(world.github.behaviour, switch, switch == "rollup_counts_replaced")
    pull.label(LABEL, by="mona")
    await world.pass_time(timedelta(seconds=10))
    assert pull.merged or (await waiting(world, pull)).is_ready


@pytest.mark.thorough
async def test_check_that_passed_without_a_webhook_is_found_within_the_hour(world: World) -> None:
    """P2: nothing else of the pull request changes with a check."""
    unit = with_unit(world)
    unit.plan = ("failure",)
    pull = await early(world)
    unit.plan = ()
    world.app.events = frozenset({*world.app.events} - {"check_run", "check_suite", "workflow_run"})
    rerun(world, pull)
    await world.until(lambda: pull.merged, within=timedelta(minutes=75))


async def test_wait_for_a_check_reads_it_only_when_it_may_have_passed(world: World) -> None:
    """P7: a rerun that fails, too, costs nothing, nor does the time that passes within the hour.

    At first IMQ reads the checks of the head, then those of the base branch, which may fail as well.
    """
    with_unit(world)
    pull = await early(world, files=BROKEN)
    assert world.requests(REPORTS) == 2
    await world.pass_time(timedelta(minutes=15))
    read = world.requests(REPORTS)
    rerun(world, pull)
    await world.pass_time(CI_TIME * 2)
    assert world.requests(REPORTS) == read
