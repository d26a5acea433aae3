"""What becomes of pull requests whose checks fail: whose fault it is, as people see it. CI is GitHub Actions here."""

from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from github_emulator import CheckRunFields, CISettings, Fault
from queue_engine.domain.reasons import Reason
from tests.acceptance.world import CI_TIME, LABEL, World, a_world

RERUN_ROUTE = "/repos/{owner}/{repo}/actions/runs/{run_id}/rerun-failed-jobs"
RERUN, REREQUEST = f"POST {RERUN_ROUTE}", "POST /repos/{owner}/{repo}/check-runs/{check_run_id}/rerequest"
MERGE_ROUTE = "/repos/{owner}/{repo}/pulls/{number}/merge"
MINUTE = timedelta(minutes=1)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """A world whose one required check is `unit`, a job of the workflow `ci`."""
    async with a_world(tmp_path, ci=False, protect=False) as made:
        yield made


def sound(files: Mapping[str, str]) -> bool:
    """A tree is green unless it has a file `broken`."""
    return "broken" not in files


def with_unit(world: World, **more: Any) -> Any:
    """The job `unit`, required on `main`."""
    settings: dict[str, Any] = {"workflow": "ci", "duration": CI_TIME, "judge": sound} | more
    unit = world.repository.add_ci("unit", CISettings(**settings))
    world.repository.protect("main", required_checks=[("unit", unit.app.id)])
    return unit


async def events(world: World, pull: Any, word: str) -> list[dict[str, Any]]:
    """The data of these events in a pull request's timeline."""
    async with world.bot.engine.store.reading() as tx:
        recorded = await tx.timeline.of_pull_request(pull.record.repository.id, pull.number)
    return [dict(event.data or {}) for event in recorded if event.event == word]


@pytest.mark.thorough
async def test_flaky_check_is_run_again_once_and_its_pull_request_lands_in_its_place(world: World) -> None:
    """A flake ejects no entry: one rerun on the same commit, and those behind stay behind."""
    unit = with_unit(world)
    flaky, behind = await world.behind("flaky"), world.open("behind")
    unit.plan = ("failure",)
    flaky.label(LABEL, by="mona")
    await world.until_status(flaky, "checking")
    behind.label(LABEL, by="mona")
    await world.until(lambda: flaky.merged)
    unit.plan = ()
    assert unit.tested[flaky.head_sha] == 2
    await world.until(lambda: behind.merged)
    await world.settle()
    assert world.landed() == [flaky.number, behind.number]
    assert world.requests(RERUN) == 1
    assert await world.reasons(flaky) == []
    for word in ("rerun", "flaky"):
        assert [recorded["checks"] for recorded in await events(world, flaky, word)] == [["unit"]]
    assert await events(world, behind, "rerun") == []


@pytest.mark.thorough
async def test_change_that_fails_twice_is_ejected_and_the_next_one_lands(world: World) -> None:
    """The one it is about leaves, after its rerun, with the failing check linked; the base was asked, and is green."""
    unit = with_unit(world)
    bad, good = world.open("bad", files={"broken": "yes\n"}), world.open("good")
    bad.label(LABEL, by="mona")
    await world.settle()
    good.label(LABEL, by="mona")
    await world.until(lambda: good.merged)
    await world.settle()
    assert await world.reasons(bad) == ["checks_failed"]
    assert not bad.merged
    assert unit.tested[bad.head_sha] == 2
    assert "unit" in world.comment(bad)
    assert "IMQ reran the failed checks once, with the same result: not flaky." in world.comment(bad)
    (left,) = await events(world, bad, "failed")
    assert [(each["check"], each["jobs"]) for each in left["failing"]] == [("unit", ["unit"])]
    assert left["failing"][0]["url"] in world.comment(bad)


@pytest.mark.thorough
async def test_check_of_another_app_that_fails_is_not_run_again(world: World) -> None:
    """GitHub lets an App run again what is GitHub Actions' or its own: asking for more would be in vain."""
    other = world.repository.add_ci("ci/other", settings=CISettings(duration=CI_TIME, judge=sound))
    world.repository.protect("main", required_checks=[("ci/other", other.app.id)])
    bad = world.open("bad", files={"broken": "yes\n"})
    bad.label(LABEL, by="mona")
    await world.until(lambda: LABEL not in bad.labels)
    assert await world.reasons(bad) == ["checks_failed"]
    assert world.requests(RERUN, REREQUEST) == 0


@pytest.mark.thorough
@pytest.mark.parametrize("conclusion", ["timed_out", "cancelled"])
async def test_check_that_breaks_down_twice_is_no_fault_of_the_change(world: World, conclusion: str) -> None:
    """A runner that dies proves nothing about the change, and a maintainer is asked to look, not the author."""
    unit = with_unit(world)
    pull = await world.behind("add")
    await world.pass_time(CI_TIME * 2)
    unit.plan = (conclusion, conclusion)
    pull.label(LABEL, by="mona")
    await world.until(lambda: LABEL not in pull.labels)
    assert await world.reasons(pull) == ["checks_broke_down"]
    assert "ended without testing" in world.comment(pull)


@pytest.mark.thorough
async def test_check_that_breaks_down_once_lands_all_the_same(world: World) -> None:
    """A check that passes on a rerun is not shown as a failure."""
    unit = with_unit(world)
    pull = await world.behind("add")
    unit.plan = ("timed_out",)
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged)
    assert await world.reasons(pull) == []


@pytest.mark.thorough
async def test_red_base_ejects_no_entry_and_blocks_the_queue_until_the_fix_lands(world: World) -> None:
    """The same check fails on the base: the queue waits, the fix alone is let through, then everybody lands."""
    with_unit(world, on=("push", "pull_request"))
    config = "priority:\n  labels:\n    fix: {fixes_base: true}\n"
    world.repository.push("main", {".github/imq.yml": config}, "Rules", by="rhea")
    first = await world.behind("first")
    second = world.open("second")
    world.repository.push("main", {"broken": "yes\n"}, "Break the base", by="rhea")
    await world.pass_time(CI_TIME * 2)
    for pull in (first, second):
        pull.label(LABEL, by="mona")
        await world.settle()
    await world.pass_time(CI_TIME * 4)
    assert (await world.reasons(first), await world.reasons(second)) == ([], [])
    assert "is broken, not your pull request" in world.comment(first)
    async with world.bot.engine.store.reading() as tx:
        (paused,) = [each for each in await tx.timeline.latest(50) if each.reason is Reason.BASE_RED]
    assert [each["jobs"] for each in paused.data["failing"]] == [["unit"]]
    asked = world.requests()
    await world.pass_time(5 * MINUTE)
    assert world.requests() - asked <= 5
    fix = world.open("fix", files={"broken": None})
    fix.label("fix", by="mona")
    fix.label(LABEL, by="mona")
    await world.until(lambda: first.merged and second.merged)
    assert world.landed() == [fix.number, first.number, second.number]
    assert (await world.reasons(first), await world.reasons(second)) == ([], [])


@pytest.mark.thorough
@pytest.mark.parametrize("mark", ["merge-queue-fix", "mends it"])
async def test_red_base_says_how_to_fix_it_and_is_fixed_without_any_configuration(world: World, mark: str) -> None:
    """The label that its comment names lets the fix through; one that only then is configured need not be set again."""
    with_unit(world, on=("push", "pull_request"))
    pull = await world.behind("add")
    world.repository.push("main", {"broken": "yes\n"}, "Break the base", by="rhea")
    await world.pass_time(CI_TIME * 2)
    fix = world.open("fix", files={"broken": None})
    for each in (pull, fix):
        each.label(LABEL, by="mona")
        await world.pass_time(CI_TIME * 2)
    assert "Label the fix `merge-queue-fix`" in world.comment(pull)
    fix.label(mark, by="tria")
    await world.pass_time(5 * MINUTE)
    assert await world.status(fix) == "pending"
    fix.unlabel(mark, by="tria")
    fix.label(mark, by="mona")
    await world.settle()
    if mark == "mends it":
        await world.pass_time(5 * MINUTE)
        assert await world.status(fix) == "pending"
        config = f"priority: {{labels: {{{mark}: {{fixes_base: true}}}}}}\n"
        world.repository.push("main", {".github/imq.yml": config}, "Rules", by="rhea")
    await world.until(lambda: fix.merged and pull.merged, within=CI_TIME * 8)
    assert world.landed() == [fix.number, pull.number]
    assert (await world.reasons(pull), await world.reasons(fix)) == ([], [])


@pytest.mark.thorough
async def test_red_base_is_known_by_the_app_whose_check_fails(world: World) -> None:
    """Another App's check of that name, which never passes, keeps no entry from landing on a fixed base."""
    with_unit(world, on=("push", "pull_request"))
    world.repository.add_ci("unit", settings=CISettings(app="namesake", duration=MINUTE, judge=lambda _: False))
    pull = await world.behind("add")
    world.repository.push("main", {"broken": "yes\n"}, "Break the base", by="rhea")
    await world.pass_time(CI_TIME * 2)
    pull.label(LABEL, by="mona")
    await world.pass_time(CI_TIME * 4)
    assert "is broken, not your pull request" in world.comment(pull)
    world.repository.push("main", {"broken": None}, "Mend the base", by="rhea")
    await world.until(lambda: pull.merged, within=CI_TIME * 4)
    assert await world.reasons(pull) == []


async def test_red_base_without_a_fix_blocks_entries_no_longer_than_its_limit(world: World) -> None:
    """P5: who has waited that long leaves with the check and the next step; a base that moved on is judged again."""
    with_unit(world, on=("push", "pull_request"))
    world.repository.push("main", {".github/imq.yml": "timeouts: {hold: 1h}\n"}, "Rules", by="rhea")
    first = await world.behind("first")
    world.repository.push("main", {"broken": "yes\n"}, "Break the base", by="rhea")
    await world.pass_time(CI_TIME * 2)
    first.label(LABEL, by="mona")
    await world.pass_time(CI_TIME * 4)
    assert "is broken, not your pull request" in world.comment(first)
    await world.until(lambda: LABEL not in first.labels, within=timedelta(hours=1, minutes=1))
    await world.settle()
    assert await world.reasons(first) == ["base_stays_red"]
    assert "`unit`" in world.comment(first)
    world.repository.push("main", {"broken": None}, "Mend the base", by="rhea")
    await world.settle()
    later = world.open("later")
    later.label(LABEL, by="mona")
    await world.pass_time(MINUTE)
    assert "is broken, not your pull request" not in world.comment(later)
    await world.until(lambda: later.merged, within=CI_TIME * 2)


@pytest.mark.thorough
async def test_red_base_that_becomes_green_by_itself_reruns_the_failed_check(world: World) -> None:
    """The base was red for a passing reason: what failed then is not held against the change."""
    down = False
    with_unit(world, judge=lambda _: not down)
    pull = await world.behind("add")
    down = True
    pull.label(LABEL, by="mona")
    await world.pass_time(CI_TIME * 4)
    assert await world.reasons(pull) == []
    assert "is broken, not your pull request" in world.comment(pull)
    down = False
    tip = world.repository.log("main")[0].sha
    red = world.github.checks.runs(world.repository.record, tip)[0]
    world.repository.rerun(red, by="rhea")
    await world.until(lambda: pull.merged)
    assert await world.reasons(pull) == []


def say(world: World, pull: Any, name: str, state: str) -> None:
    """Somebody sets a status on the present head."""
    place, actor = world.repository.record, world.github.actor("hubot")
    world.github.checks.create_status(place, pull.head_sha, actor=actor, state=state, context=name)


async def ready_but_unanswered(world: World, times: int) -> Any:
    """A green pull request whose merge GitHub does not carry out so many times; the configuration demands `lint`."""
    world.repository.push("main", {".github/imq.yml": "checks: {required: lint}\n"}, "Rules", by="rhea")
    pull = world.open("add")
    say(world, pull, "lint", "success")
    await world.settle()
    fault = world.server.faults.add(Fault(kind="fail", method="PUT", route=MERGE_ROUTE, status=502, times=times))
    pull.label(LABEL, by="mona")
    await world.until(lambda: fault.hits > 0)
    assert await world.status(pull) == "ready"
    return pull


async def test_ready_pull_request_whose_check_fails_while_github_is_in_trouble_does_not_land(world: World) -> None:
    """P1: GitHub would merge it, as it does not know of what the configuration demands; IMQ looks before it asks."""
    pull = await ready_but_unanswered(world, times=3)
    say(world, pull, "lint", "failure")
    await world.until(lambda: LABEL not in pull.labels)
    assert not pull.merged
    assert await world.reasons(pull) == ["checks_failed"]
    assert "lint" in world.comment(pull)


@pytest.mark.thorough
@pytest.mark.parametrize(("later", "reasons"), [("failure", ["checks_failed"]), ("success", [])])
async def test_ready_pull_request_is_judged_again_after_a_pause(world: World, later: str, reasons: list[str]) -> None:
    """P1: what happened to its checks while the queue was blocked counts when it resumes."""
    pull = await ready_but_unanswered(world, times=1)
    pull.comment("/pause", by="rhea")
    await world.pass_time(timedelta(hours=2))
    assert await world.status(pull) == "ready"
    say(world, pull, "lint", later)
    pull.comment("/resume", by="rhea")
    await world.until(lambda: LABEL not in pull.labels)
    assert (await world.reasons(pull), pull.merged) == (reasons, not reasons)


async def test_rerun_whose_answer_is_lost_is_not_doubled(world: World) -> None:
    """P2: GitHub runs it again and the answer never comes: the new run is found, and nothing is asked for twice."""
    unit = with_unit(world)
    pull = await world.behind("add")
    unit.plan = ("failure",)
    world.server.faults.add(Fault(kind="apply_then_reset", method="POST", route=RERUN_ROUTE))
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged)
    assert unit.tested[pull.head_sha] == 2
    assert len(await events(world, pull, "rerun")) == 1


@pytest.mark.thorough
async def test_checks_get_the_time_that_they_took_before(world: World) -> None:
    """The limit is the usual time with a margin: eight landings of three minutes make ten minutes, and it is said.

    The first look finds the job running, and Actions does not tell since when: the time counts from that look.
    """
    unit = with_unit(world)
    await world.land_behind_each_other(8)
    hanging = await world.behind("hanging")
    unit.finishes = False
    hanging.assign("rhea", by="mona")
    hanging.label(LABEL, by="mona")
    await world.until_status(hanging, "checking")
    began = world.clock.now()
    await world.until(lambda: LABEL not in hanging.labels)
    assert await world.reasons(hanging) == ["checks_timed_out"]
    assert timedelta(minutes=20) <= world.clock.now() - began <= timedelta(minutes=21)
    assert "10 minutes" in world.comment(hanging)
    assert "took here before" in world.comment(hanging)
    assert "**Next step, @mona @rhea or a maintainer:**" in world.comment(hanging)


@pytest.mark.thorough
@pytest.mark.parametrize("judged", [True, False])
async def test_check_that_failed_on_the_test_merge_alone_lands_nothing(world: World, judged: bool) -> None:
    """P1, P5: where GitHub counts it nothing lands, the wait ends, and the next step names that commit."""
    world.github.behaviour.test_merges_judged = judged
    unit = with_unit(world)
    pulls = [world.open("first"), world.open("second")]
    await world.pass_time(CI_TIME * 2)
    merge = world.github.mergeability.test_merge(pulls[0].record, pulls[0].head_sha)
    assert merge is not None
    failed = CheckRunFields(conclusion="failure")
    world.github.checks.create_run(world.repository.record, app=unit.app, name="unit", head_sha=merge, fields=failed)
    for pull in pulls:
        pull.label(LABEL, by="mona")
    await world.until(lambda: pulls[1].merged)
    assert pulls[0].merged is not judged
    assert await world.reasons(pulls[0]) == (["refused_by_rules"] if judged else [])
    if judged:
        assert 'Details: `Required status check "unit" is failing.`' in world.comment(pulls[0])
        assert "A check may fail on GitHub's test merge commit alone." in world.comment(pulls[0])
