"""The jobs of a flaky check, as the statistics name them."""

from datetime import timedelta
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from github_emulator import CISettings, Fault
from queue_engine.queries.queue_statistics import QueueStatistics, load_statistics, period
from queue_engine.store.departures import DepartureQuery
from tests.acceptance.test_check_outcomes import events, sound, with_unit, world
from tests.acceptance.train_world import CANDIDATES
from tests.acceptance.world import CI_TIME, LABEL, LAG, World, a_world

__all__ = ["world"]

EDIT = "PATCH /repos/{owner}/{repo}/issues/comments/{comment_id}"
CHECK_RUN = "PATCH /repos/{owner}/{repo}/check-runs/{check_run_id}"


async def test_rerun_names_the_jobs_that_failed(world: World) -> None:
    """A required job may only wait for others: the statistics of jobs name those that failed with it."""
    unit = with_unit(world)
    lint = world.repository.add_ci("lint", CISettings(workflow="ci", duration=CI_TIME, judge=sound))
    pull = await world.behind("flaky")
    unit.plan = lint.plan = ("failure",)
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged)
    await world.settle()
    [rerun] = await events(world, pull, "rerun")
    assert [(each["check"], sorted(each["jobs"])) for each in rerun["failing"]] == [("unit", ["lint", "unit"])]
    async with world.bot.engine.store.reading() as tx:
        [left] = await tx.departures.of_pull_request(pull.record.repository.id, pull.number)
    assert [(each.name, sorted(each.jobs)) for each in left.flaky] == [("unit", ["lint", "unit"])]


@pytest.mark.thorough
async def test_comment_is_not_edited_while_failed_checks_run_again(world: World) -> None:
    """P6: an edit starts workflows on `issue_comment`, which may cancel the rerun; the check run shows the progress."""
    unit = with_unit(world)
    pull = await world.behind("flaky")
    unit.plan = ("failure",)
    pull.label(LABEL, by="mona")

    async def reruns() -> int:
        return len(await events(world, pull, "rerun"))

    while not await reruns():
        await world.pass_time(timedelta(seconds=5))
    edits, shown = world.requests(EDIT), world.requests(CHECK_RUN)
    await world.pass_time(CI_TIME / 2)
    assert not pull.merged
    assert world.requests(EDIT) == edits
    assert world.requests(CHECK_RUN) >= shown
    await world.until(lambda: pull.merged)
    await world.settle()
    assert "anded" in world.comment(pull)
    assert world.requests(EDIT) == edits + 1


LAGS = pytest.mark.parametrize("lag", [timedelta(0), pytest.param(LAG, marks=pytest.mark.thorough)])
REPORT = '<testsuite><testcase classname="pay" name="test_card"><failure/></testcase></testsuite>'
READS = tuple(
    f"GET /repos/{{owner}}/{{repo}}/{each}"
    for each in ("actions/runs/{run_id}/artifacts", "actions/artifacts/{artifact_id}/{archive_format}")
)


def junit() -> bytes:
    """An archive with a JUnit report in which one test failed."""
    made = BytesIO()
    with ZipFile(made, "w") as archive:
        archive.writestr("junit.xml", REPORT)
    return made.getvalue()


async def statistics(world: World) -> QueueStatistics:
    """The statistics of all queues, of the last days."""
    engine = world.bot.engine
    async with engine.store.reading() as tx:
        [queue] = await tx.queues.all()
    policy = await engine.policies.of(queue.repository, "main")
    async with engine.store.reading() as tx:
        return await load_statistics(tx, DepartureQuery(*period(world.clock.now(), 9)), policy=policy)


@LAGS
@pytest.mark.parametrize("trains", ["", "trains: {candidates: push}\n"], ids=["one_by_one", "trains"])
async def test_flake_is_recorded_once_with_its_test_and_counted_beside_all_runs(
    tmp_path: Path, trains: str, lag: timedelta
) -> None:
    """The same tree red, then green: one event, the failed test by its JUnit report, and a rate of the check."""
    async with a_world(tmp_path, ci=False, protect=False, lag=lag) as world:
        unit = with_unit(world, branches=CANDIDATES)
        listed = f"checks: {{flaky: {{name: unit, until: {world.clock.now().date()}}}}}\n"
        world.repository.push("main", {".github/imq.yml": trains + listed}, "Configure IMQ", by="rhea")
        steady = await world.behind("steady")
        steady.label(LABEL, by="mona")
        await world.until(lambda: steady.merged)
        await world.settle()
        assert not world.requests(*READS)
        pull = await world.behind("flaky")
        unit.uploads, unit.plan = {"junit-report": junit()}, ("failure", "failure", "failure")
        pull.label(LABEL, by="mona")
        await world.until(lambda: pull.merged)
        unit.plan = ()
        await world.pass_time(timedelta(minutes=1))
        async with world.bot.engine.store.reading() as tx:
            recorded = await tx.timeline_reads.of_branch(pull.record.repository.id, "main", ["flake_seen"], limit=9)
        assert [(each.data["checks"], each.data["failures"], each.data["members"]) for each in recorded] == [
            (["unit"], {"unit": 3}, [pull.number])
        ]
        found = await statistics(world)
        [check], [test] = found.flaky_checks, found.flaky_tests
        assert (check.name, check.failures, check.pulls, check.people, check.reruns) == ("unit", 3, 1, 1, 3)
        assert check.runs == 5
        assert check.waited > 0
        assert check.jobs is not None
        assert check.jobs.minutes >= check.reruns
        assert check.listed_until == world.clock.now().date()
        assert (test.name, test.pulls) == ("pay::test_card", 1)
        assert 0 < world.requests(*READS) <= 2 * 2


@pytest.mark.parametrize(("status", "skip"), [(404, 0), (410, 1)])
async def test_artifact_that_is_gone_hides_no_test_that_another_one_names(world: World, status: int, skip: int) -> None:
    """GitHub lists an artifact that somebody deletes before IMQ reads it."""
    unit = with_unit(world)
    pull = await world.behind("flaky")
    unit.uploads, unit.plan = {"gone-tests": junit(), "junit-report": junit()}, ("failure",)
    [_, archives] = [each.removeprefix("GET ") for each in READS]
    answer: dict[str, Any] = {"status": status, "body": {"message": "Gone"}}
    gone = world.server.faults.add(Fault(kind="fail", method="GET", route=archives, times=1, skip=skip, **answer))
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged)
    await world.settle()
    assert gone.hits == 1
    assert [each.name for each in (await statistics(world)).flaky_tests] == ["pay::test_card"]
    assert world.requests(READS[1]) == 2


def _has_tested(ci: Any, sha: str, times: int) -> bool:
    return bool(ci.tested.get(sha) == times)


async def test_listed_check_that_stays_red_ejects_and_a_listing_that_ended_counts_no_more(world: World) -> None:
    """Unknown never lands: three reruns more are all that a listing gives, and only until its last day."""
    unit = with_unit(world)
    for days, tested in ((0, 4), (-1, 2)):
        until = world.clock.now().date() + timedelta(days=days)
        world.repository.push(
            "main", {".github/imq.yml": f"checks: {{flaky: {{name: unit, until: {until}}}}}"}, "List it", by="rhea"
        )
        await world.pass_time(CI_TIME * 2)
        pull = await world.behind(f"red{tested}")
        await world.pass_time(CI_TIME * 2)
        unit.judge = lambda files: False
        pull.label(LABEL, by="mona")
        await world.until_status(pull, "checking")
        head = pull.head_sha
        await world.until(partial(_has_tested, unit, head, tested))
        await world.pass_time(CI_TIME * 2)
        unit.judge = sound
        assert await world.reasons(pull) == ["checks_failed"]
        assert unit.tested[head] == tested
