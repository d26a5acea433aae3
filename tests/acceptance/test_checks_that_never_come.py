"""Required checks that cannot come: people read it within minutes, and no other pull request waits for them.

Covers `queue_engine/planner/absent_checks.py`, `queue_engine/executor/hold_queue.py` and
`queue_engine/store/candidate_commits.py`.
"""

from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sandbox.ci.single_check import CISettings
from sandbox.ci.workflows import Job, Trigger
from sandbox.domain.checks.checks import CheckRunFields
from sandbox.domain.checks.progress import page
from tests.acceptance.world import CI_TIME, LABEL, World, a_world

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
SOON = 20 * MINUTE
EVENTS = ("blocked", "paused", "resumed")


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


async def test_check_that_no_commit_ever_had_is_announced_once_and_no_author_is_ejected(world: World) -> None:
    """P5, P6: a maintainer reads it within minutes as the queue's own blocker; four authors wait, and then land."""
    with_workflow(world, ("ci/misspelt", None))
    pulls = [world.open(f"change-{number}", by=by) for number, by in enumerate(("mona", "hubot", "rhea", "mona"))]
    await world.pass_time(2 * CI_TIME)
    await label(world, *pulls)
    await world.until(lambda: all(says(world, pull, "ci/misspelt") for pull in pulls), within=SOON)
    assert all("no recent commit of this repository has" in world.comment(pull) for pull in pulls)
    assert all("Next step for a maintainer" in world.comment(pull) for pull in pulls)
    await world.pass_time(9 * HOUR)
    assert [await world.reasons(pull) for pull in pulls] == [[], [], [], []]
    assert await whole_queue(world) == [("paused", "check_never_reported")]
    app = world.github.actions.app(world.repository.record)
    world.repository.protect("main", required_checks=[("test", app.id)])
    await world.until(lambda: all(pull.merged for pull in pulls), within=HOUR)
    assert await whole_queue(world) == [("paused", "check_never_reported"), ("resumed", "check_never_reported")]


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


@pytest.mark.parametrize("behind", [False, True])
async def test_check_that_a_path_filter_skips_waits_outside_and_the_next_one_lands_at_once(
    world: World, behind: bool
) -> None:
    """P5: the check had been absent for a day; the healthy one behind it does not wait for it."""
    with_workflow(world, paths_ignore=["docs/**"])
    other = world.open("other")
    docs = world.open("docs", files={"docs/page.md": "words\n"})
    await world.pass_time(24 * HOUR)
    if behind:
        world.repository.push("main", {"past.py": "moved\n"}, "Move the base", by="rhea")
        await world.settle()
    await label(world, docs, other)
    await world.until(lambda: other.merged, within=SOON + 2 * CI_TIME if behind else MINUTE)
    assert await outside(world, docs) == ("check_absent", "test")
    assert await world.reasons(docs) == ["check_absent"]
    assert LABEL in docs.labels
    assert world.spoken(docs) == 1
    assert "It waits outside the queue." in world.comment(docs)


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
    assert page(world.github.addresses, run) in world.comment(broken)


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
