"""`Lands-With:` in descriptions: a set of pull requests, also of several repositories, lands once all are ready."""

from datetime import timedelta
from typing import Any

import pytest

from tests.acceptance.test_landing_order import other_repository
from tests.acceptance.world import CI_TIME, LABEL, World


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
    await world.until(lambda: needed.merged and user.merged, within=CI_TIME * 10)
    first, second = (user, needed) if order == "as it says" else (needed, user)
    assert first.record.merged_at < second.record.merged_at
    await world.settle()
    assert await world.entries() == ()


@pytest.mark.lagging
async def test_failure_in_the_middle_says_what_landed(world: World) -> None:
    """P2: the rest waits, also after a kill, and lands once it is ready again."""
    needed, user = await a_set(world)
    needed.label(LABEL, by="mona")
    user.label(LABEL, by="mona")
    await world.until(lambda: needed.merged, within=CI_TIME * 10)
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


@pytest.mark.lagging
async def test_member_that_names_no_other_is_held_by_none(world: World) -> None:
    """P5: a name in a description holds up no pull request of others."""
    needed, user = await a_set(world)
    needed.edit_body("", by="mona")
    user.label(LABEL, by="mona")
    await world.pass_time(timedelta(minutes=2))
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
