"""GitHub merges by itself what IMQ has queued: a person enabled auto-merge on it."""

from datetime import timedelta

import pytest

from tests.acceptance.world import CI_TIME, LABEL, World


@pytest.mark.parametrize("first", ["github", "imq"])
async def test_auto_merge_of_a_queued_pull_request_is_taken_for_merged_by_a_person(world: World, first: str) -> None:
    """P2: GitHub or IMQ merges first; it is merged once, no entry is ejected, and the next is tested on top."""
    world.github.timings.auto_merge = timedelta(0) if first == "github" else timedelta(minutes=1)
    world.repository.record.allow_auto_merge = True
    pull, behind = await world.behind("front"), world.open("behind")
    for each in (pull, behind):
        each.label(LABEL, by="mona")
        await world.settle()
    await world.until_status(pull, "checking")
    pull.enable_auto_merge(by="mona")
    await world.until(lambda: pull.merged, within=CI_TIME * 2)
    assert pull.record.merged_by.login == ("mona" if first == "github" else "imq[bot]")
    await world.until(lambda: behind.merged, within=CI_TIME * 2)
    assert world.landed() == [pull.number, behind.number]
    assert await world.paused() is None
    assert world.repository.is_ancestor(pull.merge_sha, behind.head_sha)
    assert "merged" in world.comment(pull).lower() or "landed" in world.comment(pull).lower()


async def test_auto_merge_that_a_push_disabled_lands_nothing(world: World) -> None:
    """P4: the push ends the queue's consent and GitHub's; GitHub merges nothing, IMQ says whose move it is."""
    world.repository.record.allow_auto_merge = True
    pull = world.repository.open_pull_request("Theirs", head="theirs", fork_of="stranger", files={"a.py": "a\n"})
    await world.pass_time(timedelta(seconds=30))
    pull.label(LABEL, by="mona")
    await world.settle()
    pull.enable_auto_merge(by="mona")
    pull.push({"a.py": "b\n"}, by="stranger")
    await world.until(lambda: LABEL not in pull.labels, within=timedelta(minutes=1))
    await world.pass_time(CI_TIME * 2)
    assert not pull.merged
    assert await world.reasons(pull) == ["head_changed"]
