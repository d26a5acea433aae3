"""Shadow mode judges merges by others with reports that come late, or that say nothing of the merge."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from github_emulator import CISettings, Fault, Job
from queue_engine.domain.facts import CheckState
from queue_engine.domain.reasons import Reason
from queue_engine.domain.shadow_pull import BaseState, ShadowOutcome
from tests.acceptance.shadow_mode import begin, decision, landing, writes
from tests.acceptance.test_figures import page
from tests.acceptance.world import CI_TIME, LABEL, World, a_world
from tests.unit.bot.metrics.test_meter import values

SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)


@pytest.fixture
async def free(tmp_path: Path) -> AsyncIterator[World]:
    """A repository in shadow mode that requires nothing and has no CI."""
    async with a_world(tmp_path, ci=False, protect=False) as made:
        await begin(made)
        yield made
        await made.settle()
        assert writes(made) == []


def is_sound(files: object) -> bool:
    """A file `broken` fails."""
    return "broken" not in str(files)


@pytest.mark.thorough
async def test_base_is_not_green_before_the_slow_ci_has_reported(free: World) -> None:
    """Where nothing is required, a fast App passes at once, and the slow CI starts half a minute later and fails."""
    free.repository.add_ci("fast", settings=CISettings(app="fast", duration=SECOND))
    free.repository.add_workflow("Slow", jobs=[Job("test", duration=CI_TIME, judge=is_sound)], on=["push"])
    free.github.timings.workflow_run = 30 * SECOND
    good, bad = free.open("good"), free.open("bad", files={"broken": "yes\n"})
    await free.pass_time(CI_TIME)
    for pull in (good, bad):
        pull.merge(by="rhea")
        await free.pass_time(HOUR)
    assert (await landing(free, good)).base is BaseState.GREEN
    assert (await landing(free, bad)).base is BaseState.RED


async def test_scheduled_run_on_the_landed_commit_says_nothing_of_the_merge(free: World) -> None:
    """GitHub attaches a nightly run to the tip of the default branch, whatever that commit changed."""
    free.repository.add_workflow("CI", jobs=[Job("test", duration=CI_TIME)])
    nightly = free.repository.add_workflow("Nightly", jobs=[Job("fuzz", plan=("failure",))], on=())
    pull = free.open("innocent")
    await free.pass_time(CI_TIME * 2)
    pull.merge(by="rhea")
    await free.pass_time(timedelta(minutes=1))
    nightly.run_on_schedule()
    await free.pass_time(HOUR)
    found = await landing(free, pull)
    assert (found.base, found.base_checks) == (BaseState.GREEN, ())


@pytest.mark.thorough
async def test_base_that_was_red_before_a_rebase_of_several_commits_is_known(free: World) -> None:
    """The first parent of the landed commit is of the same change; the webhook of the push names the former tip."""
    settings = CISettings(app="slow", duration=CI_TIME, on=("push",), judge=is_sound)
    free.repository.add_ci("slow", settings=settings)
    free.repository.push("main", {"broken": "yes\n"}, "Break it", by="rhea")
    await free.pass_time(CI_TIME * 2)
    former = free.repository.sha("main")
    pull = free.open("several")
    pull.push({"more.py": "more\n"}, by="mona")
    await free.pass_time(CI_TIME * 2)
    pull.merge(by="rhea", method="rebase")
    await free.pass_time(HOUR)
    found = await landing(free, pull)
    assert (found.before, found.base, found.red_before) == (former, BaseState.RED, True)


async def test_check_that_github_shows_late_counts_as_it_was_at_the_merge(shadow: World) -> None:
    """A read just after the merge may show a check as pending that had passed, while its webhook is late."""
    pull = shadow.open("sound")
    await shadow.settle()
    for event in ("check_run", "check_suite"):
        shadow.github.webhooks.faults.delay(3 * HOUR, None, event=event)
    await shadow.pass_time(CI_TIME + 2 * SECOND)
    former = {"total_count": 0, "check_runs": []}
    route = "/repos/{owner}/{repo}/commits/{ref}/check-runs"
    shadow.server.faults.add(Fault("fail", route=route, status=200, body=former))
    pull.merge(by="mona")
    await shadow.settle()
    assert (await landing(shadow, pull)).checks is CheckState.PENDING
    await shadow.pass_time(HOUR)
    found = await landing(shadow, pull)
    assert (found.checks, found.not_passed, found.differences) == (CheckState.PASSED, (), ())


@pytest.mark.parametrize("withdrawal", ["push", "unlabel", "close"])
async def test_merge_is_taken_back_if_consent_had_ended_before_the_decision(shadow: World, withdrawal: str) -> None:
    """P4: GitHub shows the former state for a while, and the webhook is late. A queue's request names the head."""
    pull = shadow.open("raced")
    await shadow.settle()
    pull.label(LABEL, by="mona")
    await shadow.pass_time(CI_TIME - 4 * SECOND)
    shadow.github.webhooks.faults.delay(timedelta(minutes=1), None, event="pull_request")
    shadow.github.webhooks.faults.delay(timedelta(minutes=1), None, event="push")
    shadow.server.lag.set(timedelta(seconds=20), "pull_request", "graphql", "branch", "compare")
    if withdrawal == "push":
        pull.push({"evil.py": "evil\n"}, by="mona")
    elif withdrawal == "unlabel":
        pull.unlabel(LABEL, by="mona")
    else:
        pull.close(by="mona")
    await shadow.pass_time(timedelta(seconds=15))
    assert (await decision(shadow, pull)).outcome is ShadowOutcome.MERGED
    await shadow.pass_time(timedelta(minutes=5))
    found = await decision(shadow, pull)
    reasons = {"push": Reason.HEAD_CHANGED, "unlabel": Reason.LABEL_REMOVED, "close": Reason.CLOSED}
    assert (found.outcome, found.reason) == (ShadowOutcome.DEQUEUED, reasons[withdrawal])


@pytest.mark.thorough
async def test_push_after_the_decision_takes_no_merge_back(shadow: World) -> None:
    """IMQ would have merged before it."""
    pull = shadow.open("later")
    await shadow.pass_time(CI_TIME * 2)
    pull.label(LABEL, by="mona")
    await shadow.pass_time(timedelta(seconds=5))
    found = await decision(shadow, pull)
    assert found.outcome is ShadowOutcome.MERGED
    pull.push({"more.py": "more\n"}, by="mona")
    await shadow.pass_time(timedelta(minutes=5))
    assert await decision(shadow, pull) == found


@pytest.mark.thorough
async def test_page_of_figures_counts_decisions_and_merges_that_differ(free: World) -> None:
    """Each once, however often IMQ looks at it again; the page names no repository."""
    free.repository.add_ci("fast", settings=CISettings(app="fast", duration=SECOND))
    good, behind = free.open("good"), free.open("behind")
    good.label(LABEL, by="mona")
    behind.label(LABEL, by="tria")
    await free.pass_time(HOUR)
    for pull in (good, behind):
        pull.merge(by="rhea")
        await free.pass_time(HOUR)
    found = await page(free)
    assert counted(found, "imq_shadow_decisions_total") == {"waiting": 1, "merged": 1, "rejected": 1}
    assert counted(found, "imq_shadow_merges_total") == {"same": 1, "different": 1}
    assert counted(found, "imq_shadow_differences_total") == {"untested_tree": 1}
    assert "widgets" not in found


def counted(found: str, name: str) -> dict[str, float]:
    """The values of a counter that are not 0, by its first label."""
    return {labels[0]: count for labels, count in values(found, name).items() if count}
