"""Pull requests are tested together, and land as they were tested.

Covers `queue_engine/executor/trains/train_pass.py`, `queue_engine/executor/trains/state.py`,
`queue_engine/executor/trains/candidate_merges.py`, `queue_engine/executor/trains/candidate_branches.py`,
`queue_engine/executor/trains/candidate_checks.py`, `queue_engine/executor/trains/landing.py`,
`queue_engine/executor/trains/members.py`, `queue_engine/executor/trains/dequeue.py`,
`queue_engine/executor/trains/triggers.py`, `queue_engine/executor/trains/candidate_cleanup.py`,
`queue_engine/executor/trains/member_merges.py`, `queue_engine/executor/trains/train_result.py`
and `queue_engine/executor/trains/member_facts.py`.
"""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from queue_engine.control import pauses
from tests.acceptance.test_freezes import control
from tests.acceptance.train_world import a_train_world, commits_tested, queue_all, ready
from tests.acceptance.world import World


@pytest.fixture
async def world(tmp_path: Path, lag: timedelta) -> AsyncIterator[World]:
    """A world in which trains start CI by a push."""
    async with a_train_world(tmp_path, lag=lag) as made:
        yield made


@pytest.mark.lagging
async def test_five_pull_requests_land_with_one_ci_run(world: World) -> None:
    """What CI passed is exactly what the base gets, in the order of the queue."""
    pulls = await ready(world, "a", "b", "c", "d", "e")
    before = commits_tested(world)
    queue_all(pulls)
    await world.until(lambda: all(pull.merged for pull in pulls))
    await world.settle()
    # Where reads lag, the first may be admitted alone.
    assert commits_tested(world) - before == (2 if world.settling else 1)
    assert await world.entries() == ()


async def test_one_bad_pull_request_among_five_is_ejected_and_the_others_land(world: World) -> None:
    """Green alone and red together: the member that makes runs fail is found by tests of parts."""
    pulls = await ready(
        world, "a", "b", "c", "d", "e", files=[{f"{name}.txt": "9\n" if name == "c" else "0\n"} for name in "abcde"]
    )
    world.repository.push("main", {"two.txt": "2\n"}, "Two more", by="rhea")
    await world.pass_time(timedelta(minutes=8))
    queue_all(pulls)
    bad = pulls[2]
    await world.until(lambda: all(pull.merged for pull in pulls if pull is not bad))
    await world.until_status(bad, None)
    await world.settle()
    assert not bad.merged
    assert await world.reasons(bad) == ["checks_failed"]


async def test_member_that_conflicts_with_another_waits_for_it(world: World) -> None:
    """A conflict with the base dequeues it only once the other has landed."""
    first, other = await ready(world, "a", "b", files=[{"app.py": "ONE\ntwo\n"}, {"app.py": "uno\ntwo\n"}])
    third = (await ready(world, "c"))[0]
    queue_all([first, other, third])
    await world.until(lambda: first.merged and third.merged)
    await world.until_status(other, None)
    assert not other.merged
    assert await world.reasons(other) == ["conflict"]


async def test_push_to_a_member_throws_its_run_away(world: World) -> None:
    """P4: the pushed head has no consent, and what was tested with the former head does not land."""
    pulls = await ready(world, "a", "b", "c")
    queue_all(pulls)
    await world.pass_time(timedelta(minutes=1))
    pulls[1].push({"more.py": "x\n"}, by="mona")
    await world.until(lambda: pulls[0].merged and pulls[2].merged)
    await world.settle()
    assert not pulls[1].merged
    assert await world.reasons(pulls[1]) == ["head_changed"]
    assert "more.py" not in world.repository.files("main")


async def test_push_to_the_base_while_a_run_is_active_tests_again_on_it(world: World) -> None:
    """P1: the base only moves by compare-and-set from the tip that was tested on."""
    pulls = await ready(world, "a", "b")
    queue_all(pulls)
    await world.pass_time(timedelta(minutes=1))
    world.repository.push("main", {"hand.py": "x\n"}, "By hand", by="rhea")
    await world.until(lambda: all(pull.merged for pull in pulls))
    await world.settle()
    assert {"hand.py", "a.py", "b.py"} <= set(world.repository.files("main"))
    assert await world.paused() is None


async def test_freeze_holds_a_run_that_passes_until_it_ends(world: World) -> None:
    """Nothing lands in a freeze; what passed before lands after it without another CI run."""
    pulls = await ready(world, "a", "b")
    queue_all(pulls)
    await world.pass_time(timedelta(minutes=1))
    await control(world, pauses.freeze, until=world.clock.now() + timedelta(minutes=30), reason="release")
    before = commits_tested(world)
    await world.pass_time(timedelta(minutes=20))
    assert not any(pull.merged for pull in pulls)
    await world.until(lambda: all(pull.merged for pull in pulls))
    assert commits_tested(world) == before


async def test_silent_ci_falls_back_to_one_pull_request_after_the_other(tmp_path: Path) -> None:
    """No entry is ejected because CI does not watch the branches of candidates."""
    async with a_train_world(tmp_path, ci={"branches": ("main",)}) as world:
        pulls = await ready(world, "a", "b")
        queue_all(pulls)
        await world.until(lambda: all(pull.merged for pull in pulls))
        assert [await world.reasons(pull) for pull in pulls] == [[], []]


async def test_squash_lands_each_member_with_the_tree_that_was_tested(tmp_path: Path) -> None:
    """The landed trees are those of the candidate's chain, one after the other."""
    async with a_train_world(tmp_path, more="merge:\n  method: squash\n") as world:
        pulls = await ready(world, "a", "b", "c")
        before = commits_tested(world)
        queue_all(pulls)
        await world.until(lambda: all(pull.merged for pull in pulls))
        await world.settle()
        assert commits_tested(world) - before <= 4
        assert await world.paused() is None
        assert await world.entries() == ()
