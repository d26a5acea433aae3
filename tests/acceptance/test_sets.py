"""`Lands-With:` in descriptions: a set of pull requests, also of several repositories, lands once all are ready."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.test_landing_order import other_repository
from tests.acceptance.train_world import a_train_world
from tests.acceptance.world import CI_TIME, LABEL, World, a_world


@pytest.fixture
def trains() -> bool:
    """Whether the repository tests pull requests together."""
    return False


@pytest.fixture
async def world(tmp_path: Path, lag: timedelta, trains: bool) -> AsyncIterator[World]:
    """A fresh world, with trains where the test asks for them."""
    async with a_train_world(tmp_path, lag=lag) if trains else a_world(tmp_path, lag=lag) as made:
        yield made


async def journal(world: World, pull: Any) -> list[tuple[str, str]]:
    """What the history of a pull request says of its set: each event, with the order, or with whom it is about."""
    async with world.bot.engine.store.reading() as tx:
        events = await tx.timeline.of_set(pull.record.repository.id, pull.number)
    data = [(each.event, each.data) for each in reversed(events)]
    return [(event, " ".join(has.get("order", ())) or f"{has['member']} {has.get('why', '')}") for event, has in data]


async def until_merged(world: World, pull: Any) -> None:
    """Let time pass until GitHub shows a pull request as merged."""
    await world.until(lambda: pull.merged, within=CI_TIME * 10)


async def a_set(world: World, *, first: str = "", second: str = "") -> tuple[Any, Any]:
    """Two pull requests of two repositories that name each other; with further lines."""
    library = await other_repository(world, "acme/library")
    needed = library.open_pull_request("Add", head="add", by="mona", files={"add.py": "add\n"})
    user = world.open("user")
    needed.edit_body(f"Lands-With: acme/widgets#{user.number}\n{first}", by="mona")
    user.edit_body(f"Lands-With: acme/library#{needed.number}\n{second}", by="mona")
    await world.pass_time(CI_TIME * 2)
    for repository in (library, world.repository):
        repository.push("main", {"past.py": "moved\n"}, "Move the base", by="rhea")
    return needed, user


@pytest.mark.lagging
@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize("order", ["by name", "as it says"])
async def test_set_lands_in_order_once_all_are_ready(world: World, order: str) -> None:
    """P4: each member needs consent of its own; the comment says that this is not atomic."""
    needed, user = await a_set(world, first="Depends-On: acme/widgets#1" if order == "as it says" else "")
    user.label(LABEL, by="mona")
    await world.pass_time(CI_TIME * 2)
    assert (user.merged, needed.merged) == (False, False)
    assert "acme/library#1 is not queued" in world.comment(user)
    assert "which is not atomic" in world.comment(user)
    needed.label(LABEL, by="mona")
    await world.pass_time(timedelta(seconds=30))
    assert len(await world.entries()) == 1
    await world.until(lambda: needed.merged and user.merged, within=CI_TIME * 10)
    first, second = (user, needed) if order == "as it says" else (needed, user)
    assert first.record.merged_at < second.record.merged_at
    await world.settle()
    assert await world.entries() == ()
    one, two = ("acme/widgets#1", "acme/library#1") if order == "as it says" else ("acme/library#1", "acme/widgets#1")
    lands = [("set_ready", f"{one} {two}"), ("set_landed", f"{one} "), ("set_landed", f"{two} ")]
    assert (await journal(world, first), await journal(world, second)) == (lands, lands)


@pytest.mark.lagging
@pytest.mark.parametrize("trains", [False, True])
async def test_failure_in_the_middle_says_what_landed(world: World) -> None:
    """P2: the rest waits, also after a kill, and lands once it is ready again."""
    needed, user = await a_set(world)
    needed.label(LABEL, by="mona")
    user.label(LABEL, by="mona")
    await world.until(lambda: needed.merged, within=CI_TIME * 10)
    await world.pass_time(timedelta(seconds=10))
    user.unlabel(LABEL, by="mona")
    await world.pass_time(timedelta(minutes=2))
    assert not user.merged
    await world.kill()
    await world.restart()
    user.convert_to_draft(by="mona")
    user.label(LABEL, by="mona")
    await world.pass_time(timedelta(minutes=2))
    assert not user.merged
    user.ready_for_review(by="mona")
    await world.until(lambda: user.merged, within=CI_TIME * 4)
    await world.settle()
    ready, landed = ("set_ready", "acme/library#1 acme/widgets#1"), ("set_landed", "acme/library#1 ")
    left = ("set_left", "acme/widgets#1 label removed")
    assert await journal(world, needed) == [ready, landed, left, ready, ("set_landed", "acme/widgets#1 ")]
    assert "One of its set did not land: `acme/widgets#1`, `label removed`" in world.comment(needed)


@pytest.mark.lagging
@pytest.mark.parametrize("trains", [False, True])
async def test_member_that_names_no_other_is_held_by_none(world: World) -> None:
    """P5: a name in a description holds up no pull request of others."""
    needed, user = await a_set(world)
    needed.edit_body("", by="mona")
    user.label(LABEL, by="mona")
    await world.pass_time(timedelta(minutes=1))
    assert "acme/library#1 does not name all of the set" in world.comment(user)
    needed.label(LABEL, by="mona")
    await world.until(lambda: needed.merged, within=CI_TIME * 4)
    await world.until(lambda: user.merged, within=CI_TIME * 30)


@pytest.mark.lagging
async def test_third_of_a_set_that_leaves_keeps_the_rest_waiting_with_the_state_of_each(world: World) -> None:
    """The first has landed, the second failed: the comment of the third says both."""
    pulls = [world.open(name) for name in ("one", "two", "three")]
    for pull in pulls:
        others = " ".join(f"#{each.number}" for each in pulls if each is not pull)
        pull.edit_body(f"Lands-With: {others}", by="mona")
    await world.pass_time(CI_TIME * 2)
    world.repository.push("main", {"past.py": "moved\n"}, "Move the base", by="rhea")
    for pull in pulls:
        pull.label(LABEL, by="mona")
    await world.until(lambda: pulls[0].merged, within=CI_TIME * 10)
    pulls[1].unlabel(LABEL, by="mona")
    await world.pass_time(timedelta(minutes=2))
    one, two = (f"acme/widgets#{each.number}" for each in pulls[:2])
    assert f"{one} has landed; {two} is not queued" in world.comment(pulls[2])
    pulls[1].close(by="mona")
    await world.until(lambda: LABEL not in pulls[2].labels, within=CI_TIME * 2)
    await world.settle()
    assert (pulls[1].merged, pulls[2].merged) == (False, False)
    assert (await world.reasons(pulls[2]))[-1] == "set_ended"


@pytest.mark.lagging
async def test_journal_is_whole_although_the_process_is_killed_between_any_two_landings(world: World) -> None:
    """P2: each member's history has the order and each landing once, and the comments show it."""
    pulls = [world.open(name) for name in ("one", "two", "three")]
    for pull in pulls:
        others = " ".join(f"#{each.number}" for each in pulls if each is not pull)
        pull.edit_body(f"Lands-With: {others}", by="mona")
    await world.pass_time(CI_TIME * 2)
    for pull in reversed(pulls):
        pull.label(LABEL, by="mona")
    for pull in pulls:
        await until_merged(world, pull)
        await world.kill()
        await world.restart()
    await world.settle()
    names = [f"acme/widgets#{each.number}" for each in pulls]
    wanted = [("set_ready", " ".join(names)), *(("set_landed", f"{name} ") for name in names)]
    assert [await journal(world, pull) for pull in pulls] == [wanted] * 3
    order = ", ".join(f"`{name}`" for name in names)
    for pull in pulls:
        assert f"All pull requests of its set are ready, and land in this order: {order}" in world.comment(pull)
        assert all(f"One of its set landed: `{name}`, as `" in world.comment(pull) for name in names)
        assert world.spoken(pull) == 1


async def test_name_alone_writes_nothing_into_the_history_of_others(world: World) -> None:
    """P4: a pull request that landed long ago names none of those that name it."""
    old, new = world.open("old"), world.open("new")
    new.edit_body(f"Lands-With: #{old.number}", by="mona")
    await world.pass_time(CI_TIME * 2)
    old.label(LABEL, by="mona")
    await world.until(lambda: old.merged, within=CI_TIME * 4)
    new.label(LABEL, by="mona")
    await world.until(lambda: new.merged, within=CI_TIME * 4)
    await world.settle()
    assert await journal(world, old) == []
    assert "set" not in world.comment(old).replace("reset", "")


async def test_member_that_removes_its_line_has_no_later_events_of_the_set(world: World) -> None:
    """Its history ends the set there, and it waits for no other."""
    needed, user = await a_set(world)
    needed.label(LABEL, by="mona")
    user.label(LABEL, by="mona")
    await world.pass_time(timedelta(minutes=1))
    user.edit_body("", by="mona")
    await world.until(lambda: needed.merged and user.merged, within=CI_TIME * 4)
    await world.settle()
    ready = ("set_ready", "acme/library#1 acme/widgets#1")
    assert await journal(world, needed) == [ready, ("set_landed", "acme/library#1 ")]
    assert await journal(world, user) == [ready]


async def test_member_that_is_not_ready_any_more_is_named_with_what_it_lacks(world: World) -> None:
    """P2: all members' histories say why it did not land after the first, and that all were ready again."""
    needed, user = await a_set(world)
    needed.label(LABEL, by="mona")
    user.label(LABEL, by="mona")
    await world.pass_time(timedelta(minutes=1))
    user.convert_to_draft(by="mona")
    await until_merged(world, needed)
    user.ready_for_review(by="mona")
    await until_merged(world, user)
    await world.settle()
    ready, left = ("set_ready", "acme/library#1 acme/widgets#1"), ("set_left", "acme/widgets#1 draft")
    landed = [("set_landed", "acme/library#1 "), ready, ("set_landed", "acme/widgets#1 ")]
    assert await journal(world, needed) == await journal(world, user) == [ready, left, *landed]
