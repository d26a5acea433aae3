"""Checks as GitHub really reports them: late, twice under one name, parked, never started; untested bases."""

from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from github_emulator import CheckRunFields, CISettings, Job
from tests.acceptance.test_check_outcomes import sound
from tests.acceptance.world import CI_TIME, LABEL, World, a_world

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
RERUN = "POST /repos/{owner}/{repo}/actions/runs/{run_id}/rerun-failed-jobs"

MERGE = "PUT /repos/{owner}/{repo}/pulls/{number}/merge"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """A world without any check; nothing is required on `main`. The App receives workflow runs, too."""
    async with a_world(tmp_path, ci=False, protect=False) as made:
        made.app.events = frozenset({*made.app.events, "workflow_run"})
        yield made


def at_most_ten(files: Mapping[str, str]) -> bool:
    """Green alone, red together."""
    return sum(int(text) for path, text in files.items() if path.endswith(".txt")) <= 10


@pytest.mark.thorough
async def test_fast_app_that_is_green_does_not_land_what_the_slow_ci_has_not_tested(world: World) -> None:
    """P1: where nothing is required, what reported on the queued head reports on IMQ's update before it lands."""
    world.repository.add_ci("fast", settings=CISettings(app="fast", duration=SECOND))
    world.repository.add_ci(
        "slow", settings=CISettings(app="slow", waits=30 * SECOND, duration=CI_TIME, judge=at_most_ten)
    )
    bad, good = await world.behind("bad", files={"bad.txt": "6\n"}), await world.behind("good")
    world.repository.push("main", {"base.txt": "6\n"}, "Fill it up", by="rhea")
    for pull in (bad, good):
        pull.label(LABEL, by="mona")
        await world.settle()
    await world.until(lambda: good.merged)
    assert not bad.merged
    assert await world.reasons(bad) == ["checks_failed"]


@pytest.mark.thorough
@pytest.mark.parametrize("behind", [False, True])
async def test_workflow_that_starts_after_a_fast_app_has_passed_is_waited_for(world: World, behind: bool) -> None:
    """P1: the label is set in the instant of the push, where nothing is required; the workflow starts 30 s later."""
    world.repository.add_ci("fast", settings=CISettings(app="fast", duration=SECOND))
    world.repository.add_workflow("Slow", jobs=[Job("test", duration=CI_TIME, judge=sound)], on=["pull_request"])
    world.github.timings.workflow_run = 30 * SECOND
    pull = world.open("red", files={"broken": "yes\n"})
    if behind:
        world.repository.push("main", {"past.py": "moved\n"}, "Move the base", by="rhea")
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged or LABEL not in pull.labels)
    assert (pull.merged, await world.reasons(pull)) == (False, ["checks_failed"])


@pytest.mark.thorough
async def test_check_that_does_not_come_again_is_named(world: World) -> None:
    """P5: a check that ran once, by hand, holds its pull request as long as any check, and is named then."""
    world.repository.add_ci("fast", settings=CISettings(app="fast", duration=SECOND))
    pull = await world.behind("once")
    once = world.github.create_app("once", permissions={"checks": "write"})
    world.github.accounts.install(once, world.repository.record.owner)
    world.github.checks.create_run(
        world.repository.record,
        app=once,
        name="by hand",
        head_sha=pull.head_sha,
        fields=CheckRunFields(conclusion="success"),
    )
    pull.label(LABEL, by="mona")
    await world.pass_time(HOUR)
    assert await world.status(pull) == "checking"
    await world.until(lambda: LABEL not in pull.labels)
    assert await world.reasons(pull) == ["checks_not_repeated"]
    assert "by hand" in world.comment(pull)


@pytest.mark.thorough
async def test_success_of_one_workflow_hides_no_failure_of_another(world: World) -> None:
    """P1: two workflows have a job of one name; the required check goes by that name."""
    world.repository.add_workflow("Slow", jobs=[Job("test", duration=MINUTE, judge=sound)], on=["pull_request"])
    late = world.repository.add_workflow("Late", jobs=[Job("test", duration=2 * MINUTE)], on=["pull_request"])
    app = world.github.actions.app(world.repository.record)
    world.repository.protect("main", required_checks=[("test", app.id)])
    pull = world.open("bad", files={"broken": "yes\n"})
    pull.label(LABEL, by="mona")
    await world.until(lambda: LABEL not in pull.labels)
    assert (pull.merged, await world.reasons(pull)) == (False, ["checks_failed"])
    assert [run.suite.conclusion for run in late.runs] == ["success"]


@pytest.mark.thorough
async def test_check_whose_address_names_another_run_reruns_nothing(world: World) -> None:
    """An App chooses the address of its check: IMQ runs again what GitHub's list proves to be of this head."""
    deploy = world.repository.add_workflow("Deploy", jobs=[Job("deploy", plan=("failure",))], on=["push"])
    files = {"new.py": "new\n", ".github/imq.yml": "when_not_ready: refuse\n"}
    world.repository.push("main", files, "Deploy this", by="rhea")
    await world.pass_time(MINUTE)
    forged = world.repository.add_ci("unit", settings=CISettings(app="forged", duration=SECOND, judge=sound))
    world.repository.protect("main", required_checks=[("unit", forged.app.id)])
    pull = world.open("bad", files={"broken": "yes\n"})
    await world.pass_time(MINUTE)
    address = world.repository.page(deploy.runs[-1])
    for run in world.github.checks.runs(world.repository.record, pull.head_sha):
        world.github.checks.update_run(run, CheckRunFields(details_url=f"{address}/job/1"))
    pull.label(LABEL, by="mona")
    await world.until(lambda: LABEL not in pull.labels)
    assert await world.reasons(pull) == ["checks_failed"]
    assert world.requests(RERUN) == 0
    assert [run.attempt for run in deploy.runs if run.head_sha != pull.head_sha] == [1]


@pytest.mark.thorough
@pytest.mark.parametrize("parked_by", ["fork", "own update"])
async def test_runs_that_await_approval_are_reported_at_once_with_their_link(world: World, parked_by: str) -> None:
    """P5: the pull request behind it lands; the comment links the run and says whose move it is."""
    ci = world.repository.add_workflow("CI", jobs=[Job("test", duration=CI_TIME)], on=["pull_request"])
    app = world.github.actions.app(world.repository.record)
    world.repository.protect("main", required_checks=[("test", app.id)])
    if parked_by == "fork":
        world.github.create_user("newcomer")
        world.repository.record.fork_approval = "first_time_contributors"
        pull = world.open("first", by="newcomer", fork_of="newcomer")
    else:
        pull = await world.behind("first")
        world.repository.record.app_approval = True
    behind = world.open("behind")
    await world.pass_time(2 * CI_TIME)
    pull.label(LABEL, by="mona")
    await world.settle()
    behind.label(LABEL, by="mona")
    await world.until(lambda: LABEL not in pull.labels, within=2 * MINUTE)
    await world.until(lambda: behind.merged, within=2 * MINUTE)
    assert await world.reasons(pull) == ["workflows_unapproved"]
    parked = next(run for run in ci.runs if run.parked)
    assert world.repository.page(parked) in world.comment(pull)
    assert "Approve the workflow runs" in world.comment(pull)


async def test_slow_day_pauses_the_queue_and_ejects_no_entry(world: World) -> None:
    """Runners are short for a day: no entry leaves, comments say why, and the queue resumes when a check starts."""
    ci = world.repository.add_workflow("CI", jobs=[Job("test", duration=CI_TIME)], on=["pull_request"])
    app = world.github.actions.app(world.repository.record)
    world.repository.protect("main", required_checks=[("test", app.id)])
    pulls = [await world.behind(f"pull-{number}") for number in range(3)]
    ci.jobs = (Job("test", duration=CI_TIME, waits=3 * HOUR),)
    for pull in pulls:
        pull.label(LABEL, by="mona")
        await world.settle()
    await world.pass_time(2 * HOUR + 10 * MINUTE)
    assert all("No check starts" in world.comment(pull) for pull in pulls)
    await world.until(lambda: pulls[0].merged, within=2 * HOUR)
    ci.jobs = (Job("test", duration=CI_TIME),)
    await world.until(lambda: all(pull.merged for pull in pulls))
    assert [await world.reasons(pull) for pull in pulls] == [[], [], []]
    assert "No check starts" not in world.comment(pulls[2])


@pytest.mark.thorough
async def test_failed_jobs_of_a_red_base_run_again_once_and_the_queue_resumes(world: World) -> None:
    """A flake on the base pauses the queue only until its rerun passes."""
    unit = world.repository.add_ci("unit", settings=CISettings(workflow="ci", duration=CI_TIME, judge=sound))
    world.repository.protect("main", required_checks=[("unit", unit.app.id)])
    pull = await world.behind("add")
    await world.pass_time(2 * CI_TIME)
    unit.plan = ("failure",)
    world.repository.push("main", {"flake.py": "flake\n"}, "Push by hand", by="rhea")
    await world.pass_time(2 * CI_TIME)
    unit.plan = ("failure", "failure")
    pull.label(LABEL, by="mona")
    await world.until_status(pull, "checking")
    unit.plan = ("failure",)
    await world.until(lambda: pull.merged, within=HOUR)
    assert await world.reasons(pull) == []


@pytest.mark.parametrize("breaks", [False, True])
async def test_push_by_hand_in_the_moment_of_a_merge_is_resolved_by_its_checks(world: World, breaks: bool) -> None:
    """P1: the tree differs from the tested one, and the queue stops; the checks of the new tip let it go on."""
    unit = world.repository.add_ci("unit", settings=CISettings(duration=CI_TIME, judge=sound))
    world.repository.protect("main", required_checks=[("unit", unit.app.id)])
    pull, other = world.open("add"), world.open("other")
    await world.pass_time(2 * CI_TIME)
    files = {"broken" if breaks else "by-hand.py": "yes\n"}
    world.meanwhile(MERGE, lambda: world.repository.push("main", files, "Push by hand", by="rhea"))
    for each in (pull, other):
        each.label(LABEL, by="mona")
    await world.until(lambda: pull.merged)
    await world.settle()
    assert await world.paused() == "tree_mismatch"
    if breaks:
        await world.until(lambda: "is broken, not your pull request" in world.comment(other), within=HOUR)
        world.repository.push("main", {"broken": None}, "Mend the base", by="rhea")
    await world.until(lambda: other.merged, within=HOUR)
    assert await world.paused() is None
