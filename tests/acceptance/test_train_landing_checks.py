"""What checks say right before a train lands: the newest run of each counts, on the candidate and on members' heads."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from github_emulator import CheckRunFields
from queue_engine.domain.errors import MergeError
from tests.acceptance.test_train_refusals import events
from tests.acceptance.train_world import a_train_world, queue_all, ready
from tests.acceptance.world import CI_TIME, World

MINUTE = timedelta(minutes=1)


def run_again(world: World, sha: str, conclusion: str | None) -> None:
    """The App of the check reports another run of it on this commit; without a conclusion it runs."""
    repository = world.repository
    former = [run for run in repository.record.runs_by_sha[sha] if run.name == "ci/test"][-1]
    fields = CheckRunFields(conclusion=conclusion) if conclusion else CheckRunFields(status="in_progress")
    repository.domain.checks.create_run(
        repository.record, app=former.suite.app, name="ci/test", head_sha=sha, fields=fields
    )


async def outcomes(world: World) -> list[str | None]:
    """How the runs of the train ended."""
    return [outcome for event, _, outcome in await events(world) if event == "run_ended"]


@pytest.mark.parametrize("method", ["merge", "squash"])
async def test_candidate_whose_check_fails_again_before_its_landing_is_tested_again(
    tmp_path: Path, method: str
) -> None:
    """P1: the train passed in a freeze, and the newest run of its check failed until the freeze ended."""
    async with a_train_world(tmp_path, more=f"merge:\n  method: {method}\n") as world:
        pulls = await ready(world, "a", "b", "other")
        queue_all(pulls[:2])
        await world.pass_time(MINUTE)
        pulls[2].comment("/freeze until 30m", by="rhea")
        await world.pass_time(CI_TIME * 2)
        [branch] = [name for name in world.repository.record.git.branches() if name.startswith("imq/")]
        run_again(world, world.repository.sha(branch), "failure")
        await world.pass_time(MINUTE)
        pulls[2].comment("/resume", by="rhea")
        await world.pass_time(MINUTE)
        assert [bool(pull.merged) for pull in pulls[:2]] == [False, False]
        await world.until(lambda: all(pull.merged for pull in pulls[:2]))
        await world.settle()
        assert await outcomes(world) == ["checks_changed", "landed"]


@pytest.mark.thorough
async def test_train_whose_passed_check_github_does_not_know_yet_still_lands_by_one_push(tmp_path: Path) -> None:
    """A move that GitHub refuses for a moment is asked for again, and no later train lands by single merges."""
    async with a_train_world(tmp_path) as world:
        pulls = await ready(world, "a", "b")
        github: Any = world.bot.engine.github
        move, refused = github.update_refs, list[str]()

        async def watched(repository: Any, updates: Sequence[Any]) -> None:
            if len(refused) < 4 and any(update.branch == "main" for update in updates):
                refused.append("main")
                raise MergeError('Required status check "ci/test" is expected.', status=422)
            await move(repository, updates)

        object.__setattr__(github, "update_refs", watched)
        queue_all(pulls)
        await world.until(lambda: all(pull.merged for pull in pulls), within=CI_TIME * 2)
        await world.settle()
        assert len(refused) == 4
        assert world.requests("PUT /repos/{owner}/{repo}/pulls/{number}/merge") == 0
        assert await outcomes(world) == ["landed"]


@pytest.mark.thorough
async def test_member_whose_own_check_failed_stops_no_train_by_squash_half_way(tmp_path: Path) -> None:
    """P1, P5: GitHub would refuse its merge after the first one; it leaves, and the others land together."""
    async with a_train_world(tmp_path, more="merge:\n  method: squash\n") as world:
        first, failing, last = await ready(world, "a", "b", "c")
        queue_all([first, failing, last])
        await world.pass_time(MINUTE)
        run_again(world, failing.head_sha, "failure")
        await world.until(lambda: bool(last.merged))
        await world.settle()
        assert first.merged
        assert await world.reasons(failing) == ["checks_failed"]
        assert [event for event, *_ in await events(world) if event in {"paused", "trains_off"}] == []


@pytest.mark.thorough
async def test_train_by_squash_waits_for_the_own_check_of_a_member(tmp_path: Path) -> None:
    """Its author had the check run again: nothing of the train lands before that has passed."""
    async with a_train_world(tmp_path, more="merge:\n  method: squash\n") as world:
        pulls = await ready(world, "a", "b")
        queue_all(pulls)
        await world.pass_time(MINUTE)
        run_again(world, pulls[1].head_sha, None)
        await world.pass_time(CI_TIME)
        assert [bool(pull.merged) for pull in pulls] == [False, False]
        run_again(world, pulls[1].head_sha, "success")
        await world.until(lambda: all(pull.merged for pull in pulls), within=MINUTE * 10)
        await world.settle()
        assert await outcomes(world) == ["landed"]


async def test_member_whose_own_check_never_ends_holds_no_train_up(tmp_path: Path) -> None:
    """P5: it leaves after the time in which IMQ repeats a refused merge, and the others land."""
    async with a_train_world(tmp_path, more="merge:\n  method: squash\n") as world:
        pulls = await ready(world, "a", "b")
        queue_all(pulls)
        await world.pass_time(MINUTE)
        run_again(world, pulls[1].head_sha, None)
        await world.until(lambda: bool(pulls[0].merged), within=MINUTE * 40)
        await world.settle()
        assert await world.reasons(pulls[1]) == ["checks_timed_out"]
