"""Required checks that cannot come: people read it within minutes, and no other pull request waits for them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from github_emulator import CheckRunFields, CISettings, Job, Trigger
from tests.acceptance.test_workflow_permission import accept
from tests.acceptance.train_stage import WORKFLOW, TrainWorld, a_train_world
from tests.acceptance.world import CI_TIME, LABEL, World, a_world

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
SOON = 20 * MINUTE
EVENTS = ("blocked", "paused", "resumed", "trains_off")


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """A world without any check; nothing is required on `main` yet."""
    async with a_world(tmp_path, ci=False, protect=False) as made:
        yield made


def with_workflow(world: World, *more: tuple[str, int | None], paths_ignore: Any = None) -> Any:
    """The workflow `CI` with the job `test`, which `main` requires of GitHub Actions, and `more` required checks."""
    on = [Trigger("pull_request", paths_ignore=paths_ignore)]
    ci = world.repository.add_workflow("CI", jobs=[Job("test", duration=CI_TIME)], on=on)
    app = world.github.actions.app(world.repository.record)
    world.repository.protect("main", required_checks=[("test", app.id), *more])
    return ci


async def outside(world: World, pull: Any) -> tuple[str, str | None]:
    """The reason and the detail for which a pull request waits outside its queue."""
    async with world.bot.engine.store.reading() as tx:
        entry = await tx.entries.find(world.repository.record.id, pull.number)
    assert entry is not None
    assert not entry.is_ready, "it is in the queue"
    return entry.unmet[0].reason.value, entry.unmet[0].detail


async def whole_queue(world: World) -> list[tuple[str, str]]:
    """The events of the queue's blockers."""
    async with world.bot.engine.store.reading() as tx:
        events = await tx.timeline.latest(200)
    return [(e.event, e.reason.value) for e in reversed(events) if e.event in EVENTS and e.number == 0 and e.reason]


def says(world: World, pull: Any, words: str) -> bool:
    """Whether IMQ's comment on a pull request, if there is one, has these words."""
    return world.spoken(pull) == 1 and words in world.comment(pull)


async def label(world: World, *pulls: Any) -> None:
    """Label these in order."""
    for pull in pulls:
        pull.label(LABEL, by="mona")
        await world.settle()


@pytest.mark.thorough
async def test_check_that_no_commit_ever_had_is_announced_once_and_no_author_is_ejected(world: World) -> None:
    """P5, P6: a maintainer reads it within minutes as the queue's own blocker; four authors wait, and then land."""
    with_workflow(world, ("ci/misspelt", None))
    pulls = [world.open(f"change-{number}", by=by) for number, by in enumerate(("mona", "hubot", "rhea", "mona"))]
    await world.pass_time(2 * CI_TIME)
    await label(world, *pulls)
    await world.until(lambda: all(says(world, pull, "ci/misspelt") for pull in pulls), within=SOON)
    assert all("no recent commit of this repository has" in world.comment(pull) for pull in pulls)
    assert all("Next step for a maintainer" in world.comment(pull) for pull in pulls)
    await world.pass_time(5 * HOUR)
    assert [await world.reasons(pull) for pull in pulls] == [[], [], [], []]
    assert await whole_queue(world) == [("paused", "check_never_reported")]
    app = world.github.actions.app(world.repository.record)
    world.repository.protect("main", required_checks=[("test", app.id)])
    await world.until(lambda: all(pull.merged for pull in pulls), within=HOUR)
    assert await whole_queue(world) == [("paused", "check_never_reported"), ("resumed", "check_never_reported")]


async def test_check_that_is_required_since_the_tests_ended_is_announced_as_soon_as_any(world: World) -> None:
    """P5: IMQ learns of the rule by GitHub's refusal to merge; the author is not ejected two hours later."""
    with_workflow(world)
    pull = world.open("change")
    await world.pass_time(2 * CI_TIME)
    app = world.github.actions.app(world.repository.record)
    checks = [("test", app.id), "ci/misspelt"]
    world.meanwhile(
        "PUT /repos/{owner}/{repo}/pulls/{number}/merge",
        lambda: world.repository.protect("main", required_checks=checks, webhook=False),
    )
    await label(world, pull)
    await world.until(lambda: says(world, pull, "which no recent commit of this repository has"), within=2 * SOON)
    await world.pass_time(3 * HOUR)
    assert await world.reasons(pull) == []
    assert await whole_queue(world) == [("paused", "check_never_reported")]


@pytest.mark.thorough
async def test_check_that_no_commit_had_ends_its_blocker_when_it_reports_anywhere(world: World) -> None:
    """P5: the CI is set up after the rule; the queue resumes by itself."""
    with_workflow(world, ("lint", None))
    first = world.open("first")
    await world.pass_time(HOUR)
    await label(world, first)
    await world.until(lambda: says(world, first, "`lint`"), within=SOON)
    world.repository.add_ci("lint", settings=CISettings(app="linter", duration=MINUTE))
    first.push({"more.py": "more\n"}, by="mona")
    await world.pass_time(2 * CI_TIME)
    await label(world, second := world.open("second"))
    await world.until(lambda: second.merged, within=SOON)


@pytest.mark.thorough
@pytest.mark.parametrize("behind", [False, True])
async def test_check_that_a_path_filter_skips_waits_outside_and_the_next_one_lands_at_once(
    world: World, behind: bool
) -> None:
    """P5: the check had been absent for hours; the healthy one behind it does not wait for it."""
    with_workflow(world, paths_ignore=["docs/**"])
    other = world.open("other")
    docs = world.open("docs", files={"docs/page.md": "words\n"})
    await world.pass_time(3 * HOUR)
    if behind:
        world.repository.push("main", {"past.py": "moved\n"}, "Move the base", by="rhea")
        await world.settle()
    await label(world, docs, other)
    await world.until(lambda: other.merged, within=SOON + 2 * CI_TIME if behind else MINUTE)
    assert await outside(world, docs) == ("check_absent", "test")
    assert await world.reasons(docs) == ["check_absent"]
    assert LABEL in docs.labels
    assert world.spoken(docs) == 1
    assert "IMQ queues it by itself" in world.comment(docs)


@pytest.mark.thorough
async def test_skip_ci_in_the_head_is_named_and_a_push_lets_it_join(world: World) -> None:
    """P6: the reason names the words; the author's next push brings the check, and the pull request lands."""
    with_workflow(world)
    done = world.open("done")
    pull = world.open("quiet")
    pull.push({"word.py": "word\n"}, by="mona", message="Correct a word [skip ci]")
    await world.pass_time(HOUR)
    await label(world, pull)
    await world.pass_time(MINUTE)
    reason, detail = await outside(world, pull)
    assert (reason, detail) == ("check_absent", "test: the message of the head has [skip ci]")
    assert "[skip ci]" in world.comment(pull)
    pull.push({"more.py": "more\n"}, by="mona")
    await world.until(lambda: pull.merged, within=SOON)
    assert not done.merged


async def test_check_that_comes_late_lets_the_pull_request_join(world: World) -> None:
    """P5: an App reports late, or is installed again: the pull request joins by itself."""
    external = world.github.create_app("builder", permissions={"checks": "write", "statuses": "write"})
    world.github.accounts.install(external, world.repository.record.owner)
    with_workflow(world, ("build", external.id))
    had, late = world.open("had"), world.open("late")
    await world.pass_time(HOUR)

    def report(pull: Any, conclusion: str) -> None:
        fields = CheckRunFields(conclusion=conclusion)
        place = world.repository.record
        world.github.checks.create_run(place, app=external, name="build", head_sha=pull.head_sha, fields=fields)

    report(had, "success")
    await label(world, late)
    await world.pass_time(MINUTE)
    assert (await outside(world, late))[0] == "check_absent"
    report(late, "failure")
    await world.pass_time(MINUTE)
    assert (await outside(world, late))[0] == "checks_failed"
    report(late, "success")
    await world.until(lambda: late.merged, within=MINUTE)


@pytest.mark.thorough
@pytest.mark.parametrize("concludes", ["failure", "startup_failure"])
async def test_run_that_ended_without_a_job_leaves_soon_with_its_link(world: World, concludes: Any) -> None:
    """P5: an invalid workflow file; only the list of runs shows it."""
    ci = with_workflow(world)
    ci.valid = lambda files: "invalid" not in files
    world.github.actions.invalid_concludes = concludes
    healthy = world.open("healthy")
    await world.pass_time(2 * CI_TIME)
    broken = world.open("broken", files={"invalid": "yes\n"})
    await label(world, broken, healthy)
    await world.until(lambda: LABEL not in broken.labels, within=5 * MINUTE)
    await world.until(lambda: healthy.merged, within=MINUTE)
    assert await world.reasons(broken) == ["workflow_without_jobs"]
    [run] = [run for run in ci.runs if run.head_sha == broken.head_sha]
    assert world.repository.page(run) in world.comment(broken)


@pytest.mark.parametrize("required", [True, pytest.param(False, marks=pytest.mark.long)])
async def test_workflow_that_is_broken_on_the_base_is_announced_once_and_ejects_none(
    world: World, required: bool
) -> None:
    """P5, P6: its runs end without a job on every head; the queue continues when the base has another file."""
    ci = with_workflow(world)
    ci.workflow.path, ci.valid = WORKFLOW, lambda files: "invalid" not in files.get(WORKFLOW, "")
    if not required:
        world.repository.protect("main", required_checks=[])
    world.repository.push("main", {WORKFLOW: "jobs: invalid\n"}, "Break the workflow", by="rhea")
    pulls = [world.open(name, by=by) for name, by in (("one", "mona"), ("two", "hubot"), ("three", "rhea"))]
    await world.pass_time(2 * CI_TIME)
    await label(world, *pulls)
    await world.until(lambda: all(says(world, pull, WORKFLOW) for pull in pulls), within=SOON)
    await world.pass_time(HOUR)
    assert [await world.reasons(pull) for pull in pulls] == [[], [], []]
    assert await whole_queue(world) == [("paused", "base_red")]
    assert all("Next step for a maintainer" in world.comment(pull) for pull in pulls)
    world.repository.push("main", {WORKFLOW: "jobs: valid\n"}, "Repair the workflow", by="rhea")
    await world.until(lambda: all(pull.merged for pull in pulls), within=HOUR)
    assert await whole_queue(world) == [("paused", "base_red"), ("resumed", "base_red")]


@pytest.mark.thorough
async def test_repair_of_a_workflow_that_is_broken_on_the_base_may_land_meanwhile(world: World) -> None:
    """P5: it is labelled as the fix, and its own run has jobs."""
    ci = with_workflow(world)
    ci.workflow.path, ci.valid = WORKFLOW, lambda files: "invalid" not in files.get(WORKFLOW, "")
    world.repository.push("main", {WORKFLOW: "jobs: invalid\n"}, "Break the workflow", by="rhea")
    accept(world, webhook=True)
    pull, fix = world.open("waits"), world.open("fix", files={WORKFLOW: "jobs: valid\n"})
    await world.pass_time(2 * CI_TIME)
    await label(world, pull)
    await world.until(lambda: says(world, pull, WORKFLOW), within=SOON)
    fix.label("merge-queue-fix", by="rhea")
    await label(world, fix)
    await world.until(lambda: fix.merged and pull.merged, within=HOUR)


async def test_queue_continues_when_a_run_that_broke_for_a_moment_runs_again(world: World) -> None:
    """P5: GitHub could not start it, and the file of the base is fine: a person reruns it, and the base never moves."""
    ci = with_workflow(world)
    world.repository.push("main", {WORKFLOW: "jobs: valid\n"}, "Add the workflow", by="rhea")
    ci.workflow.path, ci.valid = WORKFLOW, lambda files: "one.py" not in files
    pull = world.open("one")
    await label(world, pull)
    await world.until(lambda: says(world, pull, WORKFLOW), within=SOON)
    ci.valid = lambda files: True
    [run] = ci.runs
    ci._start(run)
    await world.until(lambda: pull.merged, within=HOUR)
    assert await world.reasons(pull) == []


@pytest.mark.thorough
async def test_run_without_a_job_is_no_reason_where_another_app_reports_the_check(world: World) -> None:
    """P6, unknown never blames: a broken workflow of no importance, and an App that takes its time."""
    builder = world.repository.add_ci("build", settings=CISettings(app="builder", waits=5 * MINUTE, duration=MINUTE))
    world.repository.protect("main", required_checks=[("build", builder.app.id)])
    extra = world.repository.add_workflow("Extra", jobs=[Job("extra")], on=["pull_request"])
    extra.valid = lambda _files: False
    pull = world.open("fine")
    await label(world, pull)
    await world.until(lambda: pull.merged, within=SOON)
    assert await world.reasons(pull) == []


@pytest.mark.thorough
@pytest.mark.parametrize("everywhere", [False, True])
async def test_right_name_by_another_app_names_both_apps(world: World, everywhere: bool) -> None:
    """P6: of this head alone it waits outside; where every commit has it so, a maintainer reads it."""
    right = world.github.create_app("right-builder", permissions={"checks": "write"})
    wrong = world.github.create_app("other-builder", permissions={"checks": "write"})
    for app in (right, wrong):
        world.github.accounts.install(app, world.repository.record.owner)
    with_workflow(world, ("build", right.id))
    first, pull = world.open("first"), world.open("second")
    done = CheckRunFields(conclusion="success")
    for each, app in ((first, wrong if everywhere else right), (pull, wrong)):
        place = world.repository.record
        world.github.checks.create_run(place, app=app, name="build", head_sha=each.head_sha, fields=done)
    await world.pass_time(HOUR)
    await label(world, pull)
    await world.pass_time(MINUTE)
    assert "right-builder" in world.comment(pull)
    assert "other-builder" in world.comment(pull)
    if everywhere:
        assert await whole_queue(world) == [("paused", "check_never_reported")]
    else:
        assert (await outside(world, pull))[0] == "check_absent"


@pytest.mark.thorough
async def test_update_on_which_no_run_starts_while_others_run_leaves_in_minutes_in_the_first_days(world: World) -> None:
    """P5: GitHub lost the event of IMQ's update; no landing has happened here before. Its texts agree."""
    ci = with_workflow(world)
    pull = await world.behind("lost")
    jobs, ci.triggers = ci.triggers, ()
    await label(world, pull)
    await world.until_status(pull, "checking")
    ci.triggers = jobs
    await world.pass_time(MINUTE)
    other = world.open("other")
    await world.pass_time(MINUTE)
    await label(world, other)
    await world.until(lambda: other.merged, within=SOON + 2 * CI_TIME)
    assert (await outside(world, pull)) == ("check_absent", "test")
    assert "No check starts" not in world.comment(pull)
    assert "no history" not in world.comment(pull)
    assert not pull.merged
    pull.push({"again.py": "again\n"}, by="mona")
    await world.until(lambda: pull.merged, within=SOON)


@pytest.mark.thorough
async def test_hanging_check_leaves_after_three_times_its_usual_time(world: World) -> None:
    """P5: measured by two landings, at least ten minutes; a slower check beside it has its own limit."""
    fast = world.repository.add_ci("fast", settings=CISettings(app="fast", duration=5 * MINUTE))
    slow = world.repository.add_ci("slow", settings=CISettings(app="slow", duration=25 * MINUTE))
    world.repository.protect("main", required_checks=[("fast", fast.app.id), ("slow", slow.app.id)])
    for number in range(2):
        pull = world.open(f"history-{number}")
        await world.pass_time(30 * MINUTE)
        await label(world, pull)
        await world.until(partial(getattr, pull, "merged"), within=HOUR)
    hanging = world.open("hanging")
    fast.finishes = False
    await label(world, hanging)
    await world.until(lambda: LABEL not in hanging.labels, within=45 * MINUTE)
    assert await world.reasons(hanging) == ["checks_timed_out"]
    assert "fast (limit: 15 minutes, by how long checks took here before)" in world.comment(hanging)


@pytest.mark.thorough
async def test_configured_limit_is_the_ceiling_of_a_measured_one(world: World) -> None:
    """P5: a limit of twelve minutes stands where three times the usual time is longer."""
    world.repository.push("main", {".github/imq.yml": "checks: {timeout: 12m}\n"}, "Configure IMQ", by="rhea")
    unit = world.repository.add_ci("unit", settings=CISettings(app="unit", duration=8 * MINUTE))
    world.repository.protect("main", required_checks=[("unit", unit.app.id)])
    pull = world.open("history")
    await world.pass_time(HOUR)
    await label(world, pull)
    await world.until(lambda: pull.merged, within=HOUR)
    hanging = world.open("hanging")
    unit.finishes = False
    await label(world, hanging)
    await world.until(lambda: LABEL not in hanging.labels, within=SOON)
    assert "unit (limit: 12 minutes, as configured)" in world.comment(hanging)


@asynccontextmanager
async def in_trains(directory: Path, *, paths_ignore: Any = None, **more: Any) -> AsyncIterator[TrainWorld]:
    """A world in trains whose drafts start CI as any pull request does."""
    async with a_train_world(directory, trains="{candidates: pull_request}", on=("pull_request",), **more) as trains:
        trains.runner.triggers = (Trigger("pull_request", paths_ignore=paths_ignore),)
        yield trains


def require(world: World, *more: tuple[str, int | None]) -> None:
    """Require the job of the workflow, and these checks."""
    app = world.github.actions.app(world.repository.record)
    world.repository.protect("main", required_checks=[("test", app.id), *more], by="rhea")


@pytest.mark.parametrize("behind", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.parametrize("method", ["merge", pytest.param("squash", marks=pytest.mark.long)])
async def test_member_whose_own_head_lacks_a_check_waits_outside_and_the_train_lands(
    tmp_path: Path, method: str, behind: bool
) -> None:
    """P5: a path filter skipped it, and the others do not wait; it joins when the check reports."""
    async with in_trains(tmp_path, paths_ignore=["docs/**"], method=method) as trains:
        world = trains.world
        docs = world.open("docs", files={"docs/page.md": "words\n"})
        others = [trains.open(), trains.open()]
        await world.pass_time(HOUR)
        if behind:
            world.repository.push("main", {"past.py": "moved\n"}, "Move the base", by="rhea")
            await world.settle()
            await label(world, docs)
            await world.until(lambda: says(world, docs, "queues it by itself"), within=SOON)
        else:
            await label(world, docs, *others)
            await world.until(lambda: all(pull.merged for pull in others), within=SOON)
        assert await outside(world, docs) == ("check_absent", "test")
        assert LABEL in docs.labels
        assert world.spoken(docs) == 1
        assert await whole_queue(world) == []
        docs.push({"more.py": "more\n"}, by="mona")
        await world.until(lambda: docs.merged, within=SOON)


async def test_train_with_a_check_that_no_commit_ever_had_pauses_once_and_ejects_no_member(tmp_path: Path) -> None:
    """P5, P6: a maintainer reads it within minutes, and trains go on when the rule is corrected."""
    async with in_trains(tmp_path) as trains:
        world = trains.world
        require(world, ("ci/misspelt", None))
        pulls = await trains.queued(0, 0)
        await world.until(lambda: all(says(world, pull, "ci/misspelt") for pull in pulls), within=SOON)
        await world.pass_time(2 * HOUR)
        assert [await world.reasons(pull) for pull in pulls] == [[], []]
        assert await whole_queue(world) == [("paused", "check_never_reported")]
        require(world)
        await world.until(lambda: all(pull.merged for pull in pulls), within=HOUR)


async def test_member_that_breaks_a_workflow_leaves_its_train_with_the_link_of_a_run(tmp_path: Path) -> None:
    """P5: the run on the candidate has no job; the others land without it."""
    async with in_trains(tmp_path) as trains:
        world = trains.world
        accept(world, webhook=True)
        trains.runner.valid = lambda files: "invalid" not in files.get(WORKFLOW, "")
        good, bad = trains.open(), world.open("bad", files={WORKFLOW: "jobs: invalid\n"})
        await world.pass_time(2 * CI_TIME)
        await label(world, bad, good)
        await world.until(lambda: good.merged and LABEL not in bad.labels, within=HOUR)
        assert await world.reasons(bad) == ["workflow_without_jobs"]
        links = [world.repository.page(run) for run in trains.candidate_runs()]
        assert any(link in world.comment(bad) for link in links)


@pytest.mark.long
async def test_train_on_a_base_with_a_broken_workflow_waits_for_the_base(tmp_path: Path) -> None:
    """P5, P6: no member is ejected, and the queue says it once."""
    async with in_trains(tmp_path) as trains:
        world = trains.world
        trains.runner.valid = lambda files: "invalid" not in files.get(WORKFLOW, "")
        before = world.repository.files("main")[WORKFLOW]
        pulls = [trains.open(), trains.open()]
        await world.pass_time(2 * CI_TIME)
        world.repository.push("main", {WORKFLOW: "jobs: invalid\n"}, "Break the workflow", by="rhea")
        await label(world, *pulls)
        await world.until(lambda: all(says(world, pull, WORKFLOW) for pull in pulls), within=SOON)
        await world.pass_time(HOUR)
        assert [await world.reasons(pull) for pull in pulls] == [[], []]
        assert await whole_queue(world) == [("paused", "base_red")]
        world.repository.push("main", {WORKFLOW: before}, "Repair the workflow", by="rhea")
        await world.until(lambda: all(pull.merged for pull in pulls), within=HOUR)


@pytest.mark.long
async def test_train_names_both_apps_of_a_check_by_another_app(tmp_path: Path) -> None:
    """P6: a maintainer reads which App the rule wants, and which one reported."""
    async with in_trains(tmp_path) as trains:
        world = trains.world
        right = world.github.create_app("right-builder", permissions={"checks": "write"})
        world.github.accounts.install(right, world.repository.record.owner)
        world.repository.add_ci("build", settings=CISettings(app="other-builder", duration=MINUTE))
        require(world, ("build", right.id))
        [pull] = await trains.queued(0)
        await world.until(lambda: says(world, pull, "right-builder"), within=SOON)
        assert "other-builder" in world.comment(pull)
        assert await whole_queue(world) == [("paused", "check_never_reported")]


async def test_train_whose_check_hangs_fails_after_three_times_its_usual_time(tmp_path: Path) -> None:
    """P5: measured by a landing of a train before, at least ten minutes."""
    async with in_trains(tmp_path) as trains:
        world = trains.world
        [first] = await trains.queued(0)
        await world.until(lambda: first.merged, within=HOUR)
        hanging = trains.open()
        await world.pass_time(2 * CI_TIME)
        trains.runner.jobs = (replace(trains.runner.jobs[0], finishes=False),)
        await label(world, hanging)
        await world.until(lambda: LABEL not in hanging.labels, within=45 * MINUTE)
        assert await world.reasons(hanging) == ["checks_timed_out"]
        assert "test (limit: 10 minutes, by how long checks took here before)" in world.comment(hanging)


async def test_candidate_whose_event_github_lost_lands_by_another_run_of_its_train(tmp_path: Path) -> None:
    """P5: drafts have started CI before, and start it on other heads meanwhile."""
    async with in_trains(tmp_path) as trains:
        world = trains.world
        [first] = await trains.queued(0)
        await world.until(lambda: first.merged, within=HOUR)
        lost = trains.open()
        await world.pass_time(2 * CI_TIME)
        on, trains.runner.triggers = trains.runner.triggers, ()
        await label(world, lost)
        await world.pass_time(MINUTE)
        trains.runner.triggers = on
        trains.open()
        await world.until(lambda: lost.merged, within=SOON)
        assert await whole_queue(world) == []
