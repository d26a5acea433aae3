"""What people do between two merges of one landing: a train whose members GitHub merges one after the other (P4)."""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from github_emulator import RecordedCall, ReviewRule
from tests.acceptance import train_stage
from tests.acceptance.train_world import a_train_world, queue_all, ready
from tests.acceptance.world import CI_TIME, LABEL, World

MERGE = "PUT /repos/{owner}/{repo}/pulls/{number}/merge"
MINUTE = timedelta(minutes=1)
METHODS = ("squash", "rebase", "merge")
POSITIONS = ((1, 1), (1, 2), (2, 2))
"""After how many merges somebody acts, and on which of the three members."""


def say(words: str) -> Callable[[Any], object]:
    """Write this comment."""
    return lambda pull: pull.comment(words, by="rhea")


WITHDRAWALS: dict[str, tuple[Callable[[Any], object], str]] = {
    "label": (lambda pull: pull.unlabel(LABEL, by="mona"), "label_removed"),
    "unqueue": (say("/unqueue"), "unqueued"),
    "base": (lambda pull: pull.edit_base("release", by="mona"), "base_changed"),
    "close": (lambda pull: pull.close(by="mona"), "closed"),
    "draft": (lambda pull: pull.convert_to_draft(by="mona"), "draft"),
    "push": (lambda pull: pull.push({"more.py": "1\n"}, by="mona"), "head_changed"),
}
CASES = [(method, act, *position) for method, act, position in product(METHODS, WITHDRAWALS, POSITIONS[1:])]
HOLDS = {"pause": "/pause", "freeze": "/freeze until 30m"}


def some_of(cases: Iterable[tuple[Any, ...]], every: int) -> list[Any]:
    """All cases: every second or fifth one, so that each value comes, and the others for the long gate."""
    return [
        pytest.param(*case, marks=() if number % every == 0 else pytest.mark.long) for number, case in enumerate(cases)
    ]


@dataclass
class Landing:
    """Three members of a train that GitHub merges one by one, and what its merges met."""

    world: World
    pulls: list[Any]
    act: Callable[[Any], object]
    after: int
    on: int
    reported: bool
    acted: bool = False
    stopped_at: str = ""
    """The base's tip when somebody acted."""
    merges: list[tuple[int, bool]] = field(default_factory=list)
    """The later merges: each number, and whether checks had passed on the tip at which somebody acted."""

    async def watch(self, exchange: RecordedCall) -> None:
        """Act after so many merges, and note those that follow."""
        if exchange.template != MERGE:
            return
        main = self.world.repository
        if exchange.phase == "before" and self.acted:
            runs = main.record.runs_by_sha.get(self.stopped_at, [])
            self.merges.append((int(exchange.path.split("/")[-2]), any(run.conclusion == "success" for run in runs)))
        if exchange.phase == "after" and not self.acted and sum(bool(each.merged) for each in self.pulls) == self.after:
            self.acted, self.stopped_at = True, main.sha("main")
            self.act(self.pulls[self.on])
            if self.reported:
                # The webhook arrives before the answer to the merge.
                await self.world.github.schedule.run_due()
                await self.world.bot.worker.run_due()


@asynccontextmanager
async def a_landing(
    directory: Path,
    method: str,
    act: Callable[[Any], object],
    *,
    after: int = 1,
    on: int = 1,
    reported: bool = True,
    more: str = "",
    prepare: Callable[[World, list[Any]], object] = lambda world, pulls: None,
) -> AsyncIterator[Landing]:
    """Queue three pull requests whose landing by merge calls begins, until somebody acted."""
    async with a_train_world(directory, more=f"merge: {{method: {method}}}\n{more}") as world:
        world.repository.push("release", {"release.py": "1\n"}, "Release", by="rhea")
        if method == "merge":
            # IMQ may not move the base by itself.
            world.repository.add_ruleset("Reviews", reviews=ReviewRule(1), bypass={"imq": "pull_request"}, by="rhea")
        pulls = await ready(world, "a", "b", "c")
        for pull in pulls:
            pull.review("APPROVED", by="rhea")
        prepare(world, pulls)
        landing = Landing(world, pulls, act, after, on, reported)
        world.server.on_request = landing.watch
        queue_all(pulls)
        await world.until(lambda: landing.acted)
        await world.settle()
        yield landing


async def _withdrawn(directory: Path, method: str, act: str, after: int, on: int, *, reported: bool) -> None:
    do, reason = WITHDRAWALS[act]
    async with a_landing(directory, method, do, after=after, on=on, reported=reported) as landing:
        world, pull = landing.world, landing.pulls[on]
        release, others = world.repository.sha("release"), [each for each in landing.pulls if each is not pull]
        if act == "base":
            assert not pull.merged
        await world.until(lambda: all(each.merged for each in others))
        await world.pass_time(CI_TIME * 2)
        assert not pull.merged
        assert world.repository.sha("release") == release
        assert (await world.reasons(pull))[:1] == [reason]
        assert "Landed" not in world.comment(pull)
        assert all(green for _, green in landing.merges), landing.merges
        assert await world.paused() is None
        if act == "unqueue":
            assert "> Dequeued from `main`." in world.comment(pull)


@pytest.mark.parametrize(("act", "method"), some_of(product(WITHDRAWALS, METHODS), 2))
async def test_member_withdrawn_between_two_merges_of_its_train_does_not_land(
    tmp_path: Path, method: str, act: str
) -> None:
    """P4, P1: the landing stops, its tip is tested before anything else, and the others land after it."""
    await _withdrawn(tmp_path, method, act, 1, 1, reported=True)


@pytest.mark.thorough
@pytest.mark.parametrize(("method", "act", "after", "on"), some_of(CASES, 5))
async def test_member_withdrawn_at_another_step_of_its_train_does_not_land(
    tmp_path: Path, method: str, act: str, after: int, on: int
) -> None:
    """P4: somebody acts on the last member, after the first merge or right before its own."""
    await _withdrawn(tmp_path, method, act, after, on, reported=True)


@pytest.mark.thorough
@pytest.mark.parametrize("act", [each for each in WITHDRAWALS if each != "unqueue"])
async def test_member_withdrawn_before_its_webhook_arrives_does_not_land_with_its_train(
    tmp_path: Path, act: str
) -> None:
    """P4: IMQ reads each member before its merge; GitHub's merge names the head, and not the base."""
    await _withdrawn(tmp_path, "squash", act, 1, 1, reported=False)


@pytest.mark.parametrize("act", HOLDS)
@pytest.mark.parametrize("method", METHODS)
async def test_queue_held_between_two_merges_of_a_train_merges_no_further_member(
    tmp_path: Path, method: str, act: str
) -> None:
    """P4: the next member waits for the maintainer; the tip is tested meanwhile."""
    async with a_landing(tmp_path, method, say(HOLDS[act])) as landing:
        world = landing.world
        await world.pass_time(CI_TIME * 3)
        assert [bool(pull.merged) for pull in landing.pulls] == [True, False, False]
        landing.pulls[1].comment("/resume", by="rhea")
        await world.until(lambda: all(pull.merged for pull in landing.pulls))
        await world.settle()
        assert all(green for _, green in landing.merges), landing.merges
        assert await world.paused() is None


def dismiss(pull: Any) -> None:
    """Take the approval back, of which the rules demand one."""
    pull.dismiss_review(pull.record.reviews[0], by="rhea")


def lose_permission(pull: Any) -> None:
    """Take the right to write from the person who queued it."""
    pull.record.repository.collaborators["mona"] = "read"


GUARDS: dict[str, tuple[Callable[[Any], object], str, str]] = {
    "approval": (dismiss, "approval_missing", ""),
    "conversation": (lambda pull: pull.open_thread("Why?", by="rhea"), "conversations_unresolved", ""),
    "blocking label": (lambda pull: pull.label("wip", by="rhea"), "blocked_by_label", "blocking: {labels: [wip]}\n"),
    "permission": (lose_permission, "permission_lost", ""),
}


@pytest.mark.every_variant("unreported")
@pytest.mark.parametrize("reported", [True, False], ids=["reported", "unreported"])
@pytest.mark.parametrize("guard", GUARDS)
async def test_member_that_lost_what_a_merge_needs_does_not_land_with_its_train(
    tmp_path: Path, guard: str, reported: bool
) -> None:
    """P4: before its merge a member of a train meets every guard that any other pull request meets."""
    act, reason, more = GUARDS[guard]

    def require(world: World, pulls: list[Any]) -> None:
        rule = {"reviews": ReviewRule(1), "required_conversation_resolution": True}
        world.repository.protect("main", required_checks=["ci/test"], by="rhea", **rule)

    async with a_landing(tmp_path, "squash", act, reported=reported, more=more, prepare=require) as landing:
        world, pull = landing.world, landing.pulls[1]
        await world.pass_time(MINUTE)
        assert not pull.merged
        assert (await world.reasons(pull))[:1] == [reason]
        await world.pass_time(CI_TIME * 4)
        assert landing.pulls[0].merged
        assert guard == "permission" or landing.pulls[2].merged
        assert all(green for _, green in landing.merges), landing.merges


async def test_member_retargeted_while_its_merge_is_on_its_way_has_the_branch_that_it_landed_on_in_its_comment(
    tmp_path: Path,
) -> None:
    """P4, P6: GitHub's merge names no base. The comment names `release`, `main` is not said to have it."""
    async with a_train_world(tmp_path, more="merge: {method: squash}\n") as world:
        world.repository.push("release", {"release.py": "1\n"}, "Release", by="rhea")
        pulls = await ready(world, "a", "b", "c")
        merges: list[str] = []

        async def watch(exchange: RecordedCall) -> None:
            if (exchange.template, exchange.phase) == (MERGE, "before"):
                merges.append(exchange.path)
                if len(merges) == 2:
                    pulls[1].edit_base("release", by="mona")

        world.server.on_request = watch
        queue_all(pulls)
        await world.until(lambda: all(pull.merged for pull in pulls))
        await world.settle()
        assert await world.reasons(pulls[1]) == ["base_changed_at_merge"]
        assert "release" in world.comment(pulls[1])
        assert "Landed" not in world.comment(pulls[1])
        assert "b.py" not in world.repository.files("main")
        assert {"a.py", "c.py"} <= set(world.repository.files("main"))


async def test_resume_within_a_stopped_landing_lets_nothing_land_before_the_tip_is_tested(tmp_path: Path) -> None:
    """P1: `/resume` ends the pause of the maintainer, and not the wait for the checks of a tip that nothing tested."""
    async with a_landing(tmp_path, "squash", say("/pause")) as landing:
        world = landing.world
        landing.pulls[1].comment("/resume", by="rhea")
        await world.settle()
        assert await world.paused() == "tip_untested"
        assert "stopped before all its members had landed" in world.comment(landing.pulls[1])
        await world.until(lambda: all(pull.merged for pull in landing.pulls))
        assert all(green for _, green in landing.merges), landing.merges


async def test_tip_of_a_stopped_train_holds_nothing_up_where_no_check_runs_on_the_base(tmp_path: Path) -> None:
    """P5: then the next run, on top of that tip, is its test."""
    async with train_stage.a_train_world(tmp_path, on=("pull_request",), method="squash") as trains:
        pulls = await trains.queued(0, 0, 0)
        landing = Landing(trains.world, pulls, lambda pull: pull.unlabel(LABEL, by="mona"), 1, 1, True)
        trains.world.server.on_request = landing.watch
        await trains.world.until(lambda: bool(pulls[2].merged), within=MINUTE * 30)
        assert not pulls[1].merged
        assert await trains.world.paused() is None


@pytest.mark.thorough
async def test_train_with_the_lowest_of_a_stack_lands_it_in_the_background(tmp_path: Path) -> None:
    """P4: GitHub merges pull requests of a stack in the background only; the train continues when it has."""
    async with a_train_world(tmp_path, more="merge: {method: squash}\n") as world:
        world.github.behaviour.stacks, world.github.behaviour.merge_async = "registered", True
        pulls = await ready(world, "a", "b", "c")
        top = world.repository.open_pull_request("top", head="top", base="b", files={"top.py": "1\n"}, by="mona")
        world.repository.stack(pulls[1], top)
        queue_all(pulls)
        await world.until(lambda: all(pull.merged for pull in pulls), within=MINUTE * 30)
        await world.settle()
        assert [await world.reasons(pull) for pull in pulls] == [[], [], []]
        assert await world.entries() == ()
        assert not top.merged


async def test_member_withdrawn_between_its_verification_and_the_move_of_the_base_does_not_land(tmp_path: Path) -> None:
    """P4: the landing has begun, and one push would land both; IMQ writes the ref of the tested tree before it."""
    async with a_train_world(tmp_path, more="merge: {tested_refs: ci/test}\n") as world:
        pulls = await ready(world, "a", "b")
        acted: list[str] = []

        async def watch(exchange: RecordedCall) -> None:
            if not acted and exchange.phase == "after" and "imq/tested/" in str(exchange.body):
                acted.append(world.repository.sha("main"))
                pulls[1].unlabel(LABEL, by="mona")
                await world.github.schedule.run_due()
                await world.bot.worker.run_due()

        world.server.on_request = watch
        queue_all(pulls)
        await world.until(lambda: bool(pulls[0].merged))
        await world.pass_time(CI_TIME * 2)
        assert acted
        assert not pulls[1].merged
        assert await world.reasons(pulls[1]) == ["label_removed"]
