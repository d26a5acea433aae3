"""`Depends-On:` in descriptions: pull requests that land after others, in one repository and in several."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from github_emulator import CISettings, PullRequestOptions
from tests.acceptance.project import FILES, total_at_most_ten
from tests.acceptance.train_world import a_train_world
from tests.acceptance.world import CI_TIME, LABEL, World, a_world


async def pulls(world: World, *bodies: str) -> list[Any]:
    """Pull requests with these descriptions, in which `{0}` and so on are the numbers of the others; all green."""
    made = [world.open(f"change-{at}") for at, _ in enumerate(bodies)]
    for pull, body in zip(made, bodies, strict=True):
        pull.edit_body(body.format(*(each.number for each in made)), by="mona")
    await world.pass_time(CI_TIME * 2)
    return made


@pytest.mark.lagging
async def test_pull_request_waits_outside_the_queue_until_the_named_one_has_landed(world: World) -> None:
    """P3, P6: its comment names the other one, and it joins by itself."""
    later, first = await pulls(world, "depends-on: #{1}\n", "")
    later.label(LABEL, by="mona")
    await world.pass_time(timedelta(minutes=5))
    assert (later.merged, await world.entries()) == (False, ())
    assert f"#{first.number}" in world.comment(later)
    assert "lands after that" in world.comment(later)
    world.repository.push("main", {"past.py": "moved\n"}, "Move the base", by="rhea")
    first.label(LABEL, by="mona")
    await world.pass_time(CI_TIME / 2)
    assert f"These land after it, as their descriptions say: `#{later.number}`." in world.comment(first)
    await world.until(lambda: later.merged, within=CI_TIME * 8)
    assert world.landed() == [first.number, later.number]
    await world.settle()
    assert (await world.entries(), await world.paused()) == ((), None)


@pytest.mark.lagging
async def test_cycle_is_refused_with_its_path(world: World) -> None:
    """The comment names each pull request of the cycle, in order."""
    one, two, three = await pulls(world, "Depends-On: #{1}", "Depends-On: #{2}", "Depends-On: #{0}")
    one.label(LABEL, by="mona")
    await world.until(lambda: LABEL not in one.labels)
    await world.settle()
    assert await world.reasons(one) == ["dependency_cycle"]
    assert f"#{one.number} → #{two.number} → #{three.number} → #{one.number}" in world.comment(one)


@pytest.mark.parametrize(("asked", "path"), [(0, (0, 1, 2, 0)), (1, (1, 2, 0)), (2, (2, 0, 1, 2))])
async def test_cycle_over_a_set_is_refused_with_its_path(world: World, asked: int, path: tuple[int, ...]) -> None:
    """P5: one of a set waits for what the others of the set wait for."""
    made = await pulls(world, "Lands-With: #{1}", "Lands-With: #{0}\nDepends-On: #{2}", "Depends-On: #{0}")
    made[asked].label(LABEL, by="mona")
    await world.until(lambda: LABEL not in made[asked].labels)
    await world.settle()
    assert await world.reasons(made[asked]) == ["dependency_cycle"]
    assert " → ".join(f"#{made[at].number}" for at in path) in world.comment(made[asked])


async def test_set_that_waits_for_one_who_only_names_it_is_no_cycle(world: World) -> None:
    """P5: a set is one if each names the others; what one alone says makes no cycle."""
    one, two, three = await pulls(world, "Lands-With: #{1}", "Depends-On: #{2}", "Lands-With: #{0}")
    for pull in (one, two, three):
        pull.label(LABEL, by="mona")
    one.edit_body("", by="mona")
    await world.until(lambda: one.merged and two.merged and three.merged, within=CI_TIME * 10)


@pytest.mark.lagging
async def test_wait_ends_when_the_named_one_is_closed(world: World) -> None:
    """P5: what never lands holds up nothing; without the line the pull request lands."""
    later, first = await pulls(world, "Depends-On: #{1}", "")
    later.label(LABEL, by="mona")
    await world.settle()
    first.close(by="rhea")
    await world.until(lambda: LABEL not in later.labels, within=timedelta(minutes=2))
    await world.settle()
    assert (await world.reasons(later))[-1] == "dependency_ended"
    later.edit_body("", by="mona")
    later.label(LABEL, by="mona")
    await world.until(lambda: later.merged, within=CI_TIME * 4)


@pytest.mark.lagging
async def test_line_that_is_added_while_queued_takes_the_entry_out_of_the_queue(world: World) -> None:
    """P3, P6: without the line it joins again."""
    later, first = await pulls(world, "", "")
    world.repository.push("main", {"past.py": "moved\n"}, "Move the base", by="rhea")
    later.label(LABEL, by="mona")
    await world.until_status(later, "checking")
    later.edit_body(f"Depends-On: #{first.number}", by="mona")
    await world.pass_time(CI_TIME * 3)
    assert (later.merged, LABEL in later.labels) == (False, True)
    assert "lands after that" in world.comment(later)
    later.edit_body("> Depends-On: #1", by="mona")
    await world.until(lambda: later.merged, within=CI_TIME * 4)
    assert not first.merged


async def other_repository(world: World, name: str, *, private: bool = True, people: Any = None) -> Any:
    """A second repository in the installation, whose pull requests land at once."""
    people = people or {"mona": "write", "rhea": "maintain"}
    made = world.github.create_repository(name, files=FILES, collaborators=people, private=private)
    made.add_ci("ci/test", settings=CISettings(duration=CI_TIME, judge=total_at_most_ten))
    await world.pass_time(timedelta(minutes=15))
    return made


@pytest.mark.lagging
@pytest.mark.parametrize("state", ["merged", "closed", "missing"])
async def test_line_that_is_added_while_queued_is_judged_at_once(world: World, state: str) -> None:
    """P5, P6: it waited an hour for a pull request that had landed already, and as long with untrue words for none."""
    library = await other_repository(world, "acme/library")
    needed = library.open_pull_request("Add", head="add", by="mona", files={"add.py": "add\n"})
    (later,) = await pulls(world, "")
    if state == "merged":
        await world.pass_time(CI_TIME * 2)
        needed.merge(by="rhea")
    elif state == "closed":
        needed.close(by="rhea")
    world.repository.push("main", {"past.py": "moved\n"}, "Move the base", by="rhea")
    later.label(LABEL, by="mona")
    await world.until_status(later, "checking")
    later.edit_body(f"Depends-On: acme/library#{999 if state == 'missing' else needed.number}", by="mona")
    await world.pass_time(CI_TIME * 6)
    assert later.merged is (state == "merged")
    wanted = {"merged": [], "closed": ["dependency_ended"], "missing": ["dependency_hidden"]}[state]
    assert [each for each in await world.reasons(later) if each != "dependency_open"] == wanted


@pytest.mark.lagging
@pytest.mark.parametrize("name", ["Depends-On: acme/library#{}", "Depends-On: {}"])
async def test_pull_request_waits_for_one_of_another_repository(world: World, name: str) -> None:
    """The landing there lets it join here; a name and a page say the same."""
    library = await other_repository(world, "acme/library")
    needed = library.open_pull_request("Add", head="add", by="mona", files={"add.py": "add\n"})
    page = f"{world.github.addresses.html_url}/acme/library/pull/{needed.number}"
    (later,) = await pulls(world, name.format(needed.number if "#" in name else page))
    later.label(LABEL, by="mona")
    await world.pass_time(CI_TIME * 3)
    assert (later.merged, "acme/library#" in world.comment(later)) == (False, True)
    needed.label(LABEL, by="mona")
    await world.until(lambda: later.merged, within=CI_TIME * 8)
    assert needed.merged


@pytest.mark.lagging
async def test_cycle_over_three_repositories_is_refused_with_its_path_until_a_line_is_gone(world: World) -> None:
    """P5: the comment names each pull request with its repository; without one of the lines all three land."""
    others = [await other_repository(world, name) for name in ("acme/library", "acme/tools")]
    (home,) = await pulls(world, "Depends-On: acme/library#1")
    library, tools = (each.open_pull_request("Add", head="add", by="mona", files={"add.py": "1\n"}) for each in others)
    library.edit_body("Depends-On: acme/tools#1", by="mona")
    tools.edit_body(f"Depends-On: acme/widgets#{home.number}", by="mona")
    await world.pass_time(CI_TIME * 2)
    home.label(LABEL, by="mona")
    await world.until(lambda: LABEL not in home.labels)
    await world.settle()
    assert await world.reasons(home) == ["dependency_cycle"]
    path = f"#{home.number} → acme/library#1 → acme/tools#1 → #{home.number}"
    assert path in world.comment(home)
    tools.edit_body("", by="mona")
    for pull in (home, library, tools):
        pull.label(LABEL, by="mona")
    await world.until(lambda: home.merged and library.merged and tools.merged, within=CI_TIME * 12)
    merged = [each.record.merged_at for each in (tools, library, home)]
    assert merged == sorted(merged)


@pytest.mark.lagging
@pytest.mark.parametrize("way", ["merged by hand", "merged while IMQ is killed", "reopened"])
async def test_named_one_that_people_merge_or_close_around_the_queue_ends_the_wait_truly(
    world: World, way: str
) -> None:
    """P4, P6: one that somebody merged has landed; one that is open again is waited for."""
    later, first = await pulls(world, "Depends-On: #{1}", "")
    later.label(LABEL, by="mona")
    await world.settle()
    if way == "reopened":
        first.close(by="rhea")
        await world.until(lambda: LABEL not in later.labels, within=timedelta(minutes=2))
        first.reopen(by="rhea")
        later.label(LABEL, by="mona")
        await world.pass_time(CI_TIME * 2)
        assert not later.merged
        first.label(LABEL, by="mona")
    elif way == "merged by hand":
        first.merge(by="rhea")
    else:
        await world.kill()
        first.merge(by="rhea")
        await world.restart()
    await world.until(lambda: bool(first.merged and later.merged), within=CI_TIME * 12)
    assert "dependency_cycle" not in await world.reasons(later)


@pytest.mark.lagging
@pytest.mark.parametrize("kind", ["missing", "hidden", "read by strangers"])
async def test_hidden_repository_reads_like_one_that_does_not_exist(world: World, kind: str) -> None:
    """P4: the author may not read it, or anyone reads the comment in a public repository: neither learns of it."""
    is_public = kind == "read by strangers"
    world.repository.record.private = not is_public
    secret = await other_repository(world, "acme/secret", people=None if is_public else {"rhea": "maintain"})
    secret.open_pull_request("Add", head="add", by="rhea", files={"add.py": "add\n"})
    (later,) = await pulls(world, f"Depends-On: acme/{'nowhere' if kind == 'missing' else 'secret'}#1")
    later.label(LABEL, by="rhea")
    await world.settle()
    assert "that IMQ cannot see" in world.comment(later)
    assert not later.merged
    later.edit_body("", by="mona")
    await world.until(lambda: later.merged, within=CI_TIME * 4)


@pytest.mark.lagging
async def test_text_of_a_fork_holds_and_names_no_pull_request_of_others(world: World) -> None:
    """P5, P6: it counts for its own pull request alone, once somebody with the right to queue has queued that."""
    own = world.open("own")
    options = PullRequestOptions(maintainer_can_modify=True)
    fork = world.open("idea", by=None, fork_of="fan", options=options)
    fork.edit_body(f"Depends-On: #{own.number}\nLands-With: #{own.number}\n", by="fan")
    await world.pass_time(CI_TIME * 2)
    own.label(LABEL, by="mona")
    await world.until(lambda: own.merged, within=CI_TIME * 3)
    await world.settle()
    assert f"#{fork.number}" not in world.comment(own)
    assert not fork.merged


@pytest.mark.lagging
@pytest.mark.parametrize("trains", [False, True])
async def test_fork_that_a_maintainer_queues_lands_after_the_one_that_it_names(
    tmp_path: Path, lag: timedelta, trains: bool
) -> None:
    """P3, P5: what its author writes later, a cycle or a set, ends its own wait and holds none."""
    async with a_train_world(tmp_path, lag=lag) if trains else a_world(tmp_path, lag=lag) as world:
        own, fork = world.open("own"), world.open("idea", by=None, fork_of="fan")
        fork.edit_body(f"Depends-On: #{own.number}", by="fan")
        await world.pass_time(CI_TIME * 2)
        fork.label(LABEL, by="mona")
        await world.settle()
        fork.edit_body(f"Depends-On: #{own.number}\nLands-With: #{own.number}", by="fan")
        await world.settle()
        own.label(LABEL, by="mona")
        await world.until(lambda: bool(own.merged), within=CI_TIME * 3)
        fork.edit_body("", by="fan")
        await world.until(lambda: fork.merged or LABEL not in fork.labels, within=CI_TIME * 8)
        assert not await world.reasons(own)
        await world.settle()
