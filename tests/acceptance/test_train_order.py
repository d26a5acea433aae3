"""`Depends-On:` in trains: a chain is tested and landed as a unit, in its order."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.test_landing_order import pulls
from tests.acceptance.train_world import a_train_world, commits_tested, queue_all
from tests.acceptance.world import CI_TIME, LABEL, World

FULL = "{candidates: push, max_size: 3, fill_wait: 10m}"


@pytest.fixture
async def world(tmp_path: Path, lag: timedelta) -> AsyncIterator[World]:
    """A world with trains that wait for a third pull request."""
    more = "priority: {labels: {urgent: 50}}\n"
    async with a_train_world(tmp_path, trains=FULL, more=more, lag=lag) as made:
        yield made


def landed(world: World, *some: Any) -> list[Any]:
    """These pull requests in the order in which their commits came onto the base."""
    commits = [each.sha for each in reversed(world.repository.log("main"))]
    return sorted(some, key=lambda pull: commits.index(pull.merge_sha))


@pytest.mark.lagging
async def test_chain_is_tested_by_one_run_and_lands_in_its_order(world: World) -> None:
    """P1, P3: a train tests the later one only on top of the earlier one, whichever was queued first."""
    later, other, first = await pulls(world, "Depends-On: #{2}", "", "Depends-On: #{1}")
    later.label("urgent", by="mona")
    tested = commits_tested(world)
    queue_all([later, first, other])
    await world.until(lambda: all(each.merged for each in (later, other, first)), within=CI_TIME * 8)
    assert landed(world, later, other, first) == [other, first, later]
    assert commits_tested(world) == tested + 1
    await world.settle()
    assert await world.paused() is None


@pytest.mark.lagging
@pytest.mark.parametrize("way", ["fails", "leaves", "conflicts"])
async def test_what_follows_one_that_leaves_its_train_waits_for_it(world: World, way: str) -> None:
    """P1, P3: nothing lands without what it depends on; it lands once that has landed."""
    bad = {"bad.txt": "5\n"} if way == "fails" else {"first.py": "one\n"}
    files = [{"first.py": "other\n"}, bad, {"later.py": "later\n"}]
    before, first, later = [world.open(f"change-{at}", files=each) for at, each in enumerate(files)]
    later.edit_body(f"Depends-On: #{first.number}", by="mona")
    await world.pass_time(CI_TIME * 2)
    if way == "fails":
        world.repository.push("main", {"limits.txt": "6\n"}, "Raise the limit", by="rhea")
        await world.pass_time(CI_TIME * 2)
    queue_all([before, first, later] if way == "conflicts" else [first, later])
    await world.pass_time(CI_TIME / 2)
    if way == "leaves":
        first.unlabel(LABEL, by="mona")
    await world.until(lambda: LABEL not in first.labels, within=CI_TIME * 20)
    await world.pass_time(CI_TIME * 3)
    assert (first.merged, later.merged, LABEL in later.labels) == (False, False, True)
    assert f"#{first.number}" in world.comment(later)
    first.push({"bad.txt": "1\n"} if way == "fails" else {"first.py": "other\n"}, by="mona")
    await world.pass_time(CI_TIME * 2)
    first.label(LABEL, by="mona")
    await world.until(lambda: later.merged, within=CI_TIME * 20)
    assert landed(world, first, later) == [first, later]


async def test_one_that_names_a_whole_chain_leaves_the_train_with_it(world: World) -> None:
    """P2, P3: the first of the chain leaves, and each of the others waits for it outside."""
    first, second, third = await pulls(world, "", "Depends-On: #{0}", "Depends-On: #{0}, #{1}")
    queue_all([first, second, third])
    await world.pass_time(CI_TIME / 2)
    assert [each.number for each in await world.entries()] == [first.number, second.number, third.number]
    first.unlabel(LABEL, by="mona")
    await world.pass_time(timedelta(minutes=1))
    assert await world.entries() == ()
    assert all("lands after that" in world.comment(each) for each in (second, third))
    first.label(LABEL, by="mona")
    await world.until(lambda: all(each.merged for each in (first, second, third)), within=CI_TIME * 20)


async def test_strangers_who_name_each_other_hold_up_nothing(world: World) -> None:
    """P5: each of many pull requests names ten others, so that the paths among them are too many to follow."""
    names = [world.open(f"idea-{at}", by=None, fork_of="fan") for at in range(14)]
    for pull in names:
        others = [f"#{each.number}" for each in names if each is not pull][:10]
        pull.edit_body(f"Depends-On: {', '.join(others)}", by="fan")
    later, other = await pulls(world, f"Depends-On: #{names[0].number}", "")
    queue_all([later, other])
    await world.until(lambda: other.merged, within=CI_TIME * 8)
    assert "lands after that" in world.comment(later)
