"""Somebody pushes right before or after a train lands by one push: to the base (P1), or to one of its members (P4)."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from github_emulator import CISettings
from tests.acceptance import train_world
from tests.acceptance.project import total_at_most_ten
from tests.acceptance.train_stage import CHECK
from tests.acceptance.train_witness import TrainWitness
from tests.acceptance.train_world import CANDIDATES, queue_all, ready
from tests.acceptance.world import CI_TIME, LABEL, World, a_world

CONFIGURATION = f"checks: {{required: [{CHECK}]}}\ntrains: {{candidates: push}}\n"


@asynccontextmanager
async def an_unprotected_world(directory: Path, *, names_moved_refs: bool) -> AsyncIterator[World]:
    """A world whose base has no rule: only the configuration of IMQ requires the check."""
    async with a_world(directory, ci=False, protect=False) as world:
        world.github.behaviour.names_moved_refs = names_moved_refs
        settings = CISettings(duration=CI_TIME, judge=total_at_most_ten, branches=CANDIDATES)
        world.repository.add_ci(CHECK, settings=settings)
        world.repository.push("main", {".github/imq.yml": CONFIGURATION}, "Configure IMQ", by="rhea")
        await world.pass_time(CI_TIME * 2)
        yield world


def before_move(world: World, act: Callable[[], str]) -> list[str]:
    """Act right before the first request that moves the base branch; returns what the act returned."""
    github: Any = world.bot.engine.github
    move = github.update_refs
    done: list[str] = []

    async def watched(repository: Any, updates: Sequence[Any]) -> None:
        if not done and any(update.branch == "main" for update in updates):
            done.append(act())
        await move(repository, updates)

    object.__setattr__(github, "update_refs", watched)
    return done


@pytest.mark.thorough
@pytest.mark.parametrize("names_moved_refs", [True, False])
async def test_push_right_before_the_base_moves_is_kept_and_tested_with_the_members(
    tmp_path: Path, names_moved_refs: bool
) -> None:
    """P1: the base gets no tree that CI did not test, and keeps the commit of the other person."""
    async with an_unprotected_world(tmp_path, names_moved_refs=names_moved_refs) as world:
        witness = TrainWitness(world.github)
        pulls = await ready(world, "a", "b")

        def push() -> str:
            sha: str = world.repository.commit({"hand.txt": "1\n"}, world.repository.sha("main"), "By hand", by="rhea")
            witness.by_hand.add(sha)
            world.repository.push_commit("main", sha, by="rhea")
            return sha

        pushed = before_move(world, push)
        for pull in pulls:
            witness.agree(pull)
        await world.until(lambda: all(pull.merged for pull in pulls))
        await world.settle()
        assert witness.complaints == [], witness.report
        assert world.repository.is_ancestor(pushed[0], world.repository.sha("main"))
        assert await world.paused() is None


@pytest.mark.thorough
@pytest.mark.parametrize("names_moved_refs", [True, False])
async def test_base_reset_right_before_it_moves_stays_without_what_was_taken_back(
    tmp_path: Path, names_moved_refs: bool
) -> None:
    """P1: from the older tip the candidate is a fast-forward, so that only the compared tip keeps the reset."""
    async with an_unprotected_world(tmp_path, names_moved_refs=names_moved_refs) as world:
        witness = TrainWitness(world.github)
        pulls = await ready(world, "a", "b")
        former: str = world.repository.sha("main")
        wrong = world.repository.commit({"wrong.py": "x\n"}, former, "By mistake", by="rhea")
        witness.by_hand |= {former, wrong}
        world.repository.push_commit("main", wrong, by="rhea")
        await world.pass_time(CI_TIME * 2)

        def reset() -> str:
            world.repository.push_commit("main", former, by="rhea", force=True)
            return former

        done = before_move(world, reset)
        for pull in pulls:
            witness.agree(pull)
        await world.until(lambda: all(pull.merged for pull in pulls))
        await world.settle()
        assert done == [former]
        assert witness.complaints == [], witness.report
        assert "wrong.py" not in world.repository.files("main")
        assert await world.paused() is None


@pytest.mark.thorough
async def test_push_in_the_instant_of_a_landing_is_shown_as_not_landed_and_its_label_counts(tmp_path: Path) -> None:
    """P4, P6: the base has the queued head; the newer commits stay open, and a label on them is new consent."""
    async with train_world.a_train_world(tmp_path) as world:
        world.github.timings.merged_by_push = timedelta(seconds=5)
        pulls = await ready(world, "a", "b")
        queued: str = pulls[0].head_sha
        done: list[str] = []
        github: Any = world.bot.engine.github
        move = github.update_refs

        async def watched(repository: Any, updates: Any) -> None:
            await move(repository, updates)
            if not done and any(update.branch == "main" for update in updates):
                done.append(pulls[0].push({"newer.py": "1\n"}, by="mona"))

        object.__setattr__(github, "update_refs", watched)
        queue_all(pulls)
        await world.until(lambda: bool(done) and bool(pulls[1].merged))
        await world.settle()
        assert world.repository.is_ancestor(queued, world.repository.sha("main"))
        assert pulls[0].state == "open"
        assert f"{queued} landed. The newer commits, up to {done[0]}, did not land" in world.comment(pulls[0])
        assert LABEL not in pulls[0].labels
        pulls[0].label(LABEL, by="rhea")
        await world.until(lambda: bool(pulls[0].merged))
        assert "newer.py" in world.repository.files("main")


@pytest.mark.parametrize("seconds", [0, 1])
async def test_label_on_commits_pushed_as_a_train_lands_is_not_taken_off(tmp_path: Path, seconds: int) -> None:
    """P4: IMQ takes off the label of the head that landed, and not one that a maintainer sets on the newer head."""
    async with train_world.a_train_world(tmp_path) as world:
        world.github.timings.merged_by_push = timedelta(seconds=5)
        pulls = await ready(world, "a", "b")
        done: list[str] = []
        github: Any = world.bot.engine.github
        move = github.update_refs

        def renew() -> None:
            pulls[0].unlabel(LABEL, by="rhea")
            pulls[0].label(LABEL, by="rhea")

        async def watched(repository: Any, updates: Any) -> None:
            await move(repository, updates)
            if not done and any(update.branch == "main" for update in updates):
                done.append(pulls[0].push({"newer.py": "1\n"}, by="mona"))
                if not seconds:
                    renew()

        object.__setattr__(github, "update_refs", watched)
        queue_all(pulls)
        await world.until(lambda: bool(done))
        if seconds:
            pulls[0].label(LABEL, by="rhea")
        await world.until(lambda: bool(pulls[0].merged), within=timedelta(minutes=30))
        await world.settle()
        assert "newer.py" in world.repository.files("main")
        assert await world.entries() == ()
