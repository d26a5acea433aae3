"""What a push costs: the position in the queue, or the entry."""

from datetime import timedelta

import pytest

from tests.acceptance.choosing import configure, leaves
from tests.acceptance.world import CI_TIME, LABEL, World


@pytest.mark.thorough
@pytest.mark.lagging
async def test_push_by_somebody_who_may_queue_costs_the_place_and_no_more(world: World) -> None:
    """It joins again at the end, under the name of the pusher, with the head that was pushed (P4)."""
    await configure(world, "on_push: requeue\n")
    first, second = world.open("first"), world.open("second")
    for pull in (first, second):
        pull.label(LABEL, by="mona")
        await world.settle()
    pushed = first.push({"first.py": "better\n"}, by="hubot")
    await world.settle()
    entries = await world.entries()
    assert [(entry.number, entry.queued_by, entry.head_sha) for entry in entries][1] == (first.number, "hubot", pushed)
    assert LABEL in first.labels
    await world.until(lambda: first.merged, within=CI_TIME * 4)
    assert world.landed() == [second.number, first.number]
    assert (world.spoken(first), world.repository.files("main")["first.py"]) == (1, "better\n")


@pytest.mark.thorough
async def test_push_while_waiting_behind_others_joins_again_at_the_end(world: World) -> None:
    """The same wherever it waits."""
    await configure(world, "on_push: requeue\n")
    pulls = [world.open(name) for name in ("a", "b", "c")]
    for pull in pulls:
        pull.label(LABEL, by="mona")
        await world.settle()
    pulls[1].push({"b.py": "better\n"}, by="mona")
    await world.until(lambda: all(pull.merged for pull in pulls), within=CI_TIME * 6)
    assert world.landed() == [pulls[0].number, pulls[2].number, pulls[1].number]


@pytest.mark.thorough
async def test_push_while_held_lets_the_new_head_wait(world: World) -> None:
    """The pusher's permission is checked; the head that was pushed waits for room at the end."""
    await configure(world, "on_push: requeue\ndepth: 1\n")
    front, held = world.open("front"), world.open("held")
    for pull in (front, held):
        pull.label(LABEL, by="mona")
        await world.settle()
    held.push({"held.py": "better\n"}, by="hubot")
    await world.until(lambda: held.merged, within=CI_TIME * 4)
    assert world.landed() == [front.number, held.number]
    assert world.repository.files("main")["held.py"] == "better\n"
    assert await world.reasons(held) == ["queue_full", "head_changed", "queue_full"]


@pytest.mark.thorough
async def test_push_by_somebody_without_the_right_takes_it_out(world: World) -> None:
    """P4: who may not queue renews no consent, not even that of its own author."""
    await configure(world, "on_push: requeue\ndepth: 1\nwho_may_queue: {permission: maintain}\n")
    pull = world.open("add")
    pull.label(LABEL, by="rhea")
    await world.settle()
    held = world.open("held")
    held.label(LABEL, by="rhea")
    await world.settle()
    for one in (held, pull):
        one.push({"add.py": "evil\n"}, by="mona")
        assert await leaves(world, one) == "head_changed"
    assert await world.entries() == ()


@pytest.mark.lagging
async def test_push_by_a_stranger_to_their_fork_dequeues(world: World) -> None:
    """P4: a fork's owner needs no right on the repository to push to the fork."""
    await configure(world, "on_push: requeue\n")
    pull = world.open("idea", by=None, fork_of="fan")
    pull.label(LABEL, by="mona")
    await world.settle()
    pull.push({"idea.py": "evil\n"})
    assert await leaves(world, pull) == "head_changed"


@pytest.mark.thorough
async def test_own_update_is_no_push_that_costs_the_place(world: World) -> None:
    """IMQ's update of a branch is part of landing it."""
    await configure(world, "on_push: requeue\n")
    pull = await world.behind("late")
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged, within=CI_TIME * 2)
    assert await world.reasons(pull) == []


@pytest.mark.thorough
@pytest.mark.lagging
async def test_push_during_an_update_is_distinguished_by_its_parents(world: World) -> None:
    """Work that is pushed while IMQ updates joins at the end; it never lands as the update."""
    await configure(world, "on_push: requeue\n")
    pull = await world.behind("late")
    update = "PUT /repos/{owner}/{repo}/pulls/{number}/update-branch"
    world.meanwhile(update, lambda: pull.push({"late.py": "later\n"}, by="mona"), phase="after")
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged, within=CI_TIME * 4)
    assert world.repository.files("main")["late.py"] == "later\n"
    assert set(await world.reasons(pull)) <= {"head_changed"}


@pytest.mark.parametrize("behind", [True, False])
async def test_head_that_somebody_pushes_to_the_base_leaves_before_github_notices(world: World, behind: bool) -> None:
    """An update until then would move the head of a merged pull request, which GitHub may close as not merged."""
    timings = world.github.timings
    timings.merged_by_push, timings.moved_head_closes = timedelta(minutes=20), True
    timings.unnoticed_conflicts = True
    pull, other = await world.behind("add") if behind else world.open("add"), world.open("other")
    for each in (pull, other):
        each.label(LABEL, by="mona")
        await world.settle()
    await world.until_status(pull, "checking")
    tested = pull.head_sha
    merged = world.repository.commit({"add.py": "add\n", "more.py": "more\n"}, tested, "By hand", by="rhea")
    world.repository.push_commit("main", merged, by="rhea")
    await world.until(lambda: other.merged and pull.merged)
    assert await world.reasons(pull) == ["merged_elsewhere"]
    assert (pull.head_sha, "outside the queue" in world.comment(pull)) == (tested, True)
