"""People without the right: their comments cost little, and stop no one else (P7)."""

from datetime import timedelta
from typing import Any

import pytest

from tests.acceptance.choosing import configure
from tests.acceptance.commenting import MINUTE, answered, reacted, ready, say
from tests.acceptance.world import CI_TIME, LABEL, World

PERMISSION = "GET /repos/{owner}/{repo}/collaborators/{username}/permission"


def a_stranger(world: World) -> None:
    """`eve` has an account, and the repository is public."""
    world.repository.record.private = False
    world.github.create_user("eve")


async def _comments_for_an_hour(world: World, pull: Any, text: str, *, by: str) -> None:
    for _ in range(60):
        pull.comment(text, by=by)
        await world.pass_time(MINUTE)


@pytest.mark.thorough
async def test_stranger_who_types_commands_costs_a_dozen_requests_an_hour_and_gets_no_answer(world: World) -> None:
    """At most one request for a comment, none for most, no reaction, and no comment of IMQ's."""
    a_stranger(world)
    pull = await ready(world)
    before = world.requests()
    comments = [pull.comment("/queue", by="eve") for _ in range(80)]
    await world.settle()
    assert world.requests() - before <= 5
    await _comments_for_an_hour(world, pull, "/pause", by="eve")
    assert world.requests(PERMISSION) <= 12
    assert world.requests() - before <= world.requests(PERMISSION) + 30, "beside those of the sweeps"
    assert not any(reacted(comment) for comment in comments)
    assert world.spoken(pull) == 0
    assert await world.status(pull) is None
    assert await world.paused() is None


@pytest.mark.thorough
async def test_stranger_may_ask_why_and_is_answered_a_few_times_an_hour(world: World) -> None:
    """All people may ask, within a limit."""
    a_stranger(world)
    pull = await ready(world)
    await say(world, pull, "/why", by="eve")
    assert await answered(world, pull) == ["why"]
    asked = world.requests()
    comments = [pull.comment("/why", by="eve") for _ in range(40)]
    await world.settle()
    assert sum(bool(reacted(comment)) for comment in comments) <= 4
    assert world.requests() - asked <= 20


@pytest.mark.thorough
async def test_stranger_who_asks_why_beside_a_command_without_the_right_is_ignored_as_soon(world: World) -> None:
    """A question that everybody may ask proves no right."""
    a_stranger(world)
    pull = await ready(world)
    comments = [pull.comment("/queue\n/why", by="eve") for _ in range(8)]
    await world.settle()
    assert sum(bool(reacted(comment)) for comment in comments) <= 4


@pytest.mark.thorough
async def test_stranger_who_was_given_the_right_may_command_again(world: World) -> None:
    """After the wait; and with the right nothing is counted any more."""
    a_stranger(world)
    pull = await ready(world)
    for _ in range(5):
        pull.comment("/queue", by="eve")
    await world.settle()
    world.repository.record.collaborators["eve"] = "write"
    await world.pass_time(timedelta(minutes=5))
    comment = await say(world, pull, "/queue", by="eve")
    assert "eyes" in reacted(comment)
    await world.until(lambda: pull.merged)
    async with world.bot.engine.store.reading() as tx:
        assert await tx.throttles.find(pull.record.repository.id, "eve") is None


@pytest.mark.thorough
async def test_private_member_whom_github_calls_a_stranger_may_command(world: World) -> None:
    """`author_association` hides members whose membership is private; their permission counts."""
    world.github.behaviour.private_members = True
    world.repository.record.owner.kind = "Organization"
    pull = await ready(world)
    comment = await say(world, pull, "/queue", by="hubot")
    assert "eyes" in reacted(comment)
    await world.until(lambda: pull.merged)


async def test_private_maintainer_who_asked_often_can_still_pause_the_queue(world: World) -> None:
    """Queries do not throttle a person who may control queues."""
    world.github.behaviour.private_members = True
    world.repository.record.owner.kind = "Organization"
    world.repository.record.collaborators["hubot"] = "maintain"
    pull = await ready(world)
    for _ in range(8):
        pull.comment("/why", by="hubot")
    await world.settle()
    await say(world, pull, "/pause", by="hubot")
    assert await world.paused() is not None


async def test_person_whom_the_configuration_lets_queue_may_command(world: World) -> None:
    """Whatever GitHub's permission says."""
    a_stranger(world)
    await configure(world, "who_may_queue: {people: [eve]}\n")
    pull = await ready(world)
    await say(world, pull, "/queue", by="eve")
    await world.until(lambda: pull.merged)


@pytest.mark.thorough
async def test_reviews_of_a_stranger_cost_next_to_nothing_and_affect_no_entry(world: World) -> None:
    """GitHub's rules do not count them."""
    a_stranger(world)
    world.repository.protect("main", required_checks=["ci/test"], required_approvals=1)
    pull = world.open("add")
    pull.review("APPROVED", by="rhea")
    pull.label(LABEL, by="mona")
    await world.pass_time(MINUTE)
    before = world.requests()
    for _ in range(30):
        pull.review("CHANGES_REQUESTED", by="eve")
    await world.settle()
    # One of them reads the default branch's configuration, which tells whether readers may queue.
    # Another asks whether the repository is there at all, since it has no such file.
    assert world.requests() - before <= 8
    assert await world.status(pull) is not None
    await world.until(lambda: pull.merged, within=CI_TIME * 3)


@pytest.mark.thorough
async def test_flood_of_a_stranger_delays_no_landing(world: World) -> None:
    """Its own pull request or another repository's: the comments are put aside before anything is asked."""
    a_stranger(world)
    quiet = world.open("quiet")
    noisy = world.open("noisy")
    quiet.label(LABEL, by="mona")
    await world.settle()
    start = world.clock.now()
    while not quiet.merged:
        for _ in range(20):
            noisy.comment("/queue\n/pause\n/requeue", by="eve")
        await world.pass_time(timedelta(seconds=15))
        assert world.clock.now() - start < CI_TIME * 3
    assert world.requests(PERMISSION) <= 10


async def _labeled_by_tria(world: World, count: int) -> list[Any]:
    """Pull requests that a triager labels at once."""
    pulls = [world.open(f"add-{number}") for number in range(count)]
    await world.pass_time(CI_TIME * 2)
    for pull in pulls:
        pull.label(LABEL, by="tria")
    await world.settle()
    return pulls


def _refused(world: World, pulls: list[Any]) -> int:
    return sum(world.spoken(pull) for pull in pulls)


@pytest.mark.thorough
async def test_labels_of_a_triager_are_refused_ever_less_often_and_delay_no_other(world: World) -> None:
    """Four at once; the sweep, which sees the others after ten minutes, leaves them to their time."""
    *pulls, same = await _labeled_by_tria(world, 10)
    assert _refused(world, pulls) == 4
    same.unlabel(LABEL, by="tria")
    same.label(LABEL, by="mona")
    await world.pass_time(MINUTE)
    assert same.merged
    assert _refused(world, pulls) == 5
    await world.pass_time(MINUTE * 13)
    assert _refused(world, pulls) == 8
    await world.pass_time(MINUTE * 3)
    assert [world.spoken(pull) for pull in pulls] == [1] * 9
    assert not any(LABEL in pull.labels or pull.merged for pull in pulls)


async def test_labels_that_wait_are_judged_when_their_sender_proves_the_right_by_a_command(world: World) -> None:
    """Somebody made the triager a writer."""
    pulls = await _labeled_by_tria(world, 7)
    await world.pass_time(MINUTE * 2)
    assert _refused(world, pulls) == 6
    world.repository.record.collaborators["tria"] = "write"
    await say(world, pulls[0], "/queue", by="tria")
    assert await world.status(pulls[6]) is not None


@pytest.mark.thorough
async def test_labels_count_of_a_writer_who_may_not_pause_the_queue(world: World) -> None:
    """Refused commands are counted by themselves."""
    pull = await ready(world)
    for _ in range(6):
        pull.comment("/pause", by="mona")
    await world.settle()
    pull.label(LABEL, by="mona")
    await world.settle()
    assert pull.merged
