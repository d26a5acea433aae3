"""P1, P4 and P5 against people and repositories that get in the way, each seen from outside."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from structlog.testing import capture_logs

from github_emulator import CISettings, Fault, Signature
from queue_engine.domain.run import Run, RunState
from tests.acceptance.naming import naming
from tests.acceptance.project import FILES, total_at_most_ten
from tests.acceptance.world import CI_TIME, LABEL, World

pytestmark = pytest.mark.lagging

MERGE = "PUT /repos/{owner}/{repo}/pulls/{number}/merge"
UPDATE = "PUT /repos/{owner}/{repo}/pulls/{number}/update-branch"
Parents = Callable[[World, Any], tuple[str, ...]]


def push_by_hand(world: World) -> None:
    """An administrator pushes to the base past its protection."""
    world.repository.push("main", {"by-hand.py": "by hand\n"}, "By hand", by="rhea")


async def test_push_between_the_last_read_and_the_merge_pauses_the_queue_and_says_so(world: World) -> None:
    """P1: what landed is not what was tested; nothing lands on top of it, and everybody queued reads why.

    Once the checks of the new tip have passed the queue resumes by itself.
    """
    first, second, third = world.open("first"), world.open("second", by="hubot"), world.open("third")
    await world.pass_time(CI_TIME * 2)
    for pull in (first, second, third):
        pull.label(LABEL, by="mona")
    world.meanwhile(MERGE, lambda: push_by_hand(world))
    await world.until(lambda: first.merged)
    await world.pass_time(CI_TIME - timedelta(seconds=10))
    assert await world.paused() == "tree_mismatch"
    assert world.landed() == [first.number]
    assert "Not as tested" in world.comment(first)
    for waiting in (second, third):
        assert "paused" in world.comment(waiting)
        assert "is not the one that CI tested" in world.comment(waiting)
        assert LABEL in waiting.labels
    assert [entry.number for entry in await world.entries()] == [second.number, third.number]
    await world.until(lambda: third.merged)
    assert world.landed() == [first.number, second.number, third.number]


async def test_base_changed_between_the_last_read_and_the_merge_ends_the_entry_and_not_its_queue(world: World) -> None:
    """P1: GitHub merges into the branch of that moment. The author reads which one; the queue continues."""
    world.repository.create_branch("release", "main")
    world.repository.push("main", {"moved.py": "moved\n"}, "Move", by="rhea")
    await world.settle()
    first, second = world.open("first"), world.open("second")
    await world.pass_time(CI_TIME * 2)
    for pull in (first, second):
        pull.label(LABEL, by="mona")
    world.meanwhile(MERGE, lambda: first.edit_base("release", by="mona"))
    await world.until(lambda: second.merged)
    await world.settle()
    assert first.merged
    assert await world.reasons(first) == ["base_changed_at_merge"]
    assert f"merged into release as {first.merge_sha}" in world.comment(first)
    assert LABEL not in first.labels
    assert world.landed() == [second.number]
    assert await world.paused() is None


async def test_landed_pull_request_says_itself_that_its_tree_was_not_tested(world: World) -> None:
    """P1: in its comment and its check run, in the log and for the alert, even when nothing else is queued."""
    rules = "comments:\n  texts:\n    landed: Thank you!\n"
    world.repository.push("main", {".github/imq.yml": rules}, "Rules", by="rhea")
    await world.settle()
    pull = world.open("alone")
    await world.pass_time(CI_TIME * 2)
    pull.label(LABEL, by="mona")
    world.meanwhile(MERGE, lambda: push_by_hand(world))
    with capture_logs() as lines:
        await world.until(lambda: pull.merged)
        await world.settle()
    assert [line["log_level"] for line in lines if line["event"] == "tree_mismatch"] == ["critical"]
    comment = world.comment(pull)
    assert "Not as tested" in comment
    assert "Next step for a maintainer" in comment
    assert "tested was" in comment
    (run,) = [run for run in pull.check_runs if run.name == "IMQ"]
    assert (run.status, run.conclusion) == ("completed", "failure")
    assert LABEL not in pull.labels
    assert re.search(r"^imq_queues_paused 1", await world.bot.reporter.page(), re.MULTILINE)


async def test_push_between_the_last_read_and_the_merge_is_refused_under_strict_protection(world: World) -> None:
    """P1: strict protection closes the window: GitHub refuses, the new base is tested, and the right tree lands."""
    world.repository.protect("main", required_checks=[("ci/test", world.app_id("ci"))], strict=True, by="rhea")
    pull = world.open("add")
    await world.pass_time(CI_TIME * 2)
    pull.label(LABEL, by="mona")
    world.meanwhile(MERGE, lambda: push_by_hand(world))
    await world.until(lambda: pull.merged)
    assert await world.paused() is None
    assert "by-hand.py" in world.repository.files(pull.head_sha)
    assert world.repository.tree("main") == world.repository.tree(pull.head_sha)


async def test_broken_invariant_pauses_its_own_queue_and_no_other(world: World) -> None:
    """P5: contradicting records stop one queue with an alert; another branch and another repository go on."""
    world.repository.create_branch("release", "main")
    other = add_repository(world, "acme/gadgets")
    front, second = await world.behind("front"), world.open("second")
    elsewhere = world.open("elsewhere", base="release")
    gadget = other.open_pull_request("gadget", head="gadget", by="mona", files={"gadget.py": "1\n"})
    await world.pass_time(CI_TIME * 2)
    for pull in (front, second):
        pull.label(LABEL, by="mona")
        await world.settle()
    await world.until_status(front, "checking")
    async with world.bot.engine.store.transaction() as tx:
        waiting = await tx.entries.find(second.record.repository.id, second.number)
        assert waiting is not None
        await tx.entries.save(replace(waiting, run=Run(state=RunState.TESTING)))
    with capture_logs() as logs:
        await world.pass_time(CI_TIME * 2)
    for pull in (elsewhere, gadget):
        pull.label(LABEL, by="mona")
    await world.until(lambda: elsewhere.merged and gadget.merged, within=CI_TIME * 3)
    assert [log["event"] for log in logs if log["log_level"] == "critical"] == ["invariant_broken"]
    assert await world.paused() == "invariant_broken"
    assert not front.merged
    assert not second.merged
    assert "paused" in world.comment(front)
    assert "paused" in world.comment(second)


def side_branch(world: World) -> str:
    """A commit that was not queued and is not on the base."""
    return str(world.repository.push("side", {"side.py": "side\n"}, "Aside", by="mona"))


CRAFTED: dict[str, tuple[Parents, str]] = {
    "second_parent_not_on_the_base": (lambda w, p: (p.head_sha, side_branch(w)), "before"),
    "parents_swapped": (lambda w, p: (w.repository.sha("main"), p.head_sha), "after"),
    "no_merge_at_all": (lambda _, p: (p.head_sha,), "before"),
    "a_third_parent": (lambda w, p: (p.head_sha, w.repository.sha("main"), side_branch(w)), "after"),
}
"""Parents of a commit, and whether somebody pushes it before GitHub updates the branch or after that."""


async def test_commit_crafted_like_an_update_never_lands(world: World) -> None:
    """P4: a commit with the bot's name and message fails the proof by its parents, and IMQ dequeues the entry."""

    def push(case: str, pull: Any) -> None:
        git, bot = world.repository.record.git, world.app.bot
        tree = git.write_tree(pull.head_sha, {"backdoor.py": "open\n"})
        who = Signature(bot.login, bot.email, world.clock.now())
        sha = git.write_commit(tree, CRAFTED[case][0](world, pull), f"Merge branch 'main' into {case}", who)
        world.repository.push_commit(case, sha, by="mona")

    await never_land(world, {case: phase for case, (_, phase) in CRAFTED.items()}, push)


async def test_merge_crafted_by_a_forks_owner_never_lands(world: World) -> None:
    """P4: right parents in the right order, any content: a stranger's head is a stranger's, whatever it merges."""

    def push(case: str, pull: Any) -> None:
        fork = world.github.must_find("fan/widgets")
        tree = fork.git.write_tree(pull.head_sha, {"backdoor.py": "open\n"})
        who = Signature(world.app.bot.login, world.app.bot.email, world.clock.now())
        parents = (pull.head_sha, world.repository.sha("main"))
        sha = fork.git.write_commit(tree, parents, f"Merge branch 'main' into {case}", who)
        world.github.refs.update(fork, case, sha, actor=world.github.actor("fan"), force=False)

    await never_land(world, {"before": "before", "after": "after"}, push, by=None, fork_of="fan")


async def never_land(
    world: World, phases: Mapping[str, str], push: Callable[[str, Any], object], **opened: Any
) -> None:
    """Queue one pull request per case; somebody pushes to each in this phase of its update, and none lands."""
    pulls = {case: world.open(case, **opened) for case in phases}
    await world.pass_time(CI_TIME * 2)
    world.repository.push("main", {"moved.py": "moved\n"}, "Move", by="rhea")
    await world.settle()
    before = world.repository.tree("main")
    for case, pull in pulls.items():
        world.meanwhile(UPDATE, partial(push, case, pull), phase=phases[case])
        pull.label(LABEL, by="mona")
        with naming(case):
            await world.until(lambda pull=pull: LABEL not in pull.labels)  # type: ignore[misc]
        assert world.server.on_request is None, f"nobody pushed in the case {case}"
    await world.pass_time(timedelta(minutes=30))
    outcomes = [(case, await world.reasons(pull), pull.merged) for case, pull in pulls.items()]
    assert outcomes == [(case, ["head_changed"], False) for case in pulls]
    assert world.repository.tree("main") == before


def add_repository(world: World, full_name: str) -> Any:
    """One more repository with CI and protection, seen by the same installation."""
    handle = world.github.create_repository(full_name, files=FILES, collaborators={"mona": "write", "rhea": "admin"})
    ci = handle.add_ci("ci/test", settings=CISettings(duration=CI_TIME, judge=total_at_most_ten))
    handle.protect("main", required_checks=[("ci/test", ci.app.id)])
    return handle


@pytest.mark.long("lagging")
async def test_repository_whose_github_fails_for_ever_delays_no_other(world: World) -> None:
    """P5: while one repository's answers are all faults, another lands as fast as ever; the first one gets its word."""
    broken = add_repository(world, "acme/broken")
    stuck = broken.open_pull_request("stuck", head="stuck", by="mona", files={"stuck.py": "1\n"})
    stuck.label(LABEL, by="mona")
    await world.settle()
    world.server.faults.add(Fault(kind="fail", route=re.compile("^/repos/acme/broken/(?!issues)"), times=None))
    await world.pass_time(timedelta(minutes=5))
    good = world.open("good")
    good.label(LABEL, by="mona")
    await world.until(lambda: good.merged, within=CI_TIME + timedelta(seconds=5))
    await world.until(lambda: LABEL not in stuck.labels, within=timedelta(hours=2))
    await world.settle()
    assert "failed for longer than IMQ retries" in world.comment(stuck)


@pytest.mark.lagging
async def test_check_that_never_reports_waits_explained_and_the_next_one_lands(world: World) -> None:
    """P5: a required workflow that a filter skips stays pending for ever; its pull request waits outside the queue."""
    docs = world.repository.add_ci(
        "ci/docs", settings=CISettings(app="docs", duration=CI_TIME, on=("push",), branches=["docs-*"])
    )
    checks = [("ci/test", world.app_id("ci")), ("ci/docs", docs.app.id)]
    world.repository.protect("main", required_checks=checks, by="rhea")
    skipped, reported = world.open("code"), world.open("docs-page")
    skipped.assign("rhea", by="mona")
    await world.pass_time(CI_TIME * 2)
    for pull in (skipped, reported):
        pull.label(LABEL, by="mona")
    await world.until(lambda: reported.merged, within=timedelta(minutes=20))
    await world.settle()
    assert await world.reasons(skipped) == ["check_absent"]
    assert "ci/docs" in world.comment(skipped)
    assert "path filter" in world.comment(skipped)


@pytest.mark.long("lagging")
async def test_mergeable_that_remains_unknown_ends_the_wait_and_the_next_one_lands(world: World) -> None:
    """P5: GitHub neither updates nor knows why not; after ten minutes the entry leaves with that explanation."""
    pull, following = await world.behind("add"), world.open("following")
    await world.pass_time(CI_TIME)
    world.github.timings.mergeable = timedelta(days=30)
    world.server.faults.add(
        Fault(
            kind="fail",
            method="PUT",
            route=f"/repos/acme/widgets/pulls/{pull.number}/update-branch",
            status=422,
            times=None,
        )
    )
    world.repository.push("main", {"once-more.py": "1\n"}, "Once more", by="rhea")
    for one in (pull, following):
        one.label(LABEL, by="mona")
        await world.settle()
    await world.until(lambda: following.merged, within=timedelta(minutes=20))
    await world.settle()
    assert await world.reasons(pull) == ["mergeable_unknown"]
    assert "did not report in time" in world.comment(pull)
