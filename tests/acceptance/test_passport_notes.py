"""Passports as git notes: written behind the landings, few requests for many (P2, P7)."""

import json
from datetime import timedelta
from typing import Any

import pytest

from bot.passport.statement import landing_in
from github_emulator import Fault
from queue_engine.domain.port import NOTES
from tests.acceptance.landing_witness import landings
from tests.acceptance.test_landing_records import published_keys
from tests.acceptance.world import CI_TIME, LABEL, World

ROUTES = [
    f"{each} /repos/{{owner}}/{{repo}}/git/{rest}"
    for each, rest in (
        ("POST", "trees"),
        ("POST", "commits"),
        ("POST", "refs"),
        ("PATCH", "refs/{ref}"),
        ("GET", "ref/{ref}"),
    )
]


def notes(world: World) -> dict[str, Any]:
    """The notes by their commits."""
    git = world.repository.record.git
    tip = git.ref(NOTES.removeprefix("refs/"))
    return {} if tip is None else {path.replace("/", ""): json.loads(text) for path, text in git.files(tip).items()}


async def land(world: World, *names: str) -> None:
    """Land these pull requests one after the other."""
    pulls = [world.open(each) for each in names]
    await world.pass_time(CI_TIME * 2)
    for pull in pulls:
        pull.label(LABEL, by="mona")
    await world.until(lambda: all(pull.merged for pull in pulls))
    await world.settle()


async def with_notes(world: World) -> None:
    """Configure the repository so."""
    world.repository.push("main", {".github/imq.yml": "merge: {notes: true}\n"}, "Configure IMQ", by="rhea")
    await world.pass_time(CI_TIME * 2)


async def test_notes_of_three_landings_cost_three_requests_and_prove_them(world: World) -> None:
    """P7: they wait for each other, an hour at most; each is what `imq landings export` prints."""
    await with_notes(world)
    await land(world, "one", "two", "three")
    assert (notes(world), world.requests(*ROUTES)) == ({}, 0)
    await world.pass_time(timedelta(minutes=11))
    found, keys = await landings(world.bot.engine.store), await published_keys(world)
    assert set(notes(world)) == {each.sha for each in found}
    assert [landing_in(notes(world)[each.sha], keys) for each in found] == [each.record for each in found]
    assert world.requests(*ROUTES) == 3
    await land(world, "four")
    await world.pass_time(timedelta(minutes=45))
    assert len(notes(world)) == 3
    await world.pass_time(timedelta(minutes=30))
    assert (len(notes(world)), world.requests(*ROUTES)) == (4, 6)


async def test_notes_of_others_are_kept(world: World) -> None:
    """P2: IMQ adds its own to those that are there, also after its answer was lost."""
    await with_notes(world)
    await land(world, "one", "two", "three")
    git = world.repository.record.git
    tree = git.write_tree(None, {"aa/" + "b" * 38: '"a person\'s"\n'})
    git.set_ref("notes/imq", git.write_commit(tree, (), "Notes", git.must(world.repository.sha()).author))
    lost = Fault(kind="apply_then_reset", method="PATCH", route="/repos/{owner}/{repo}/git/refs/{ref}")
    world.server.faults.add(lost)
    await world.pass_time(timedelta(minutes=15))
    assert len(notes(world)) == 4
    assert notes(world)["aa" + "b" * 38] == "a person's"


@pytest.mark.parametrize("own_refs", ["none"])
async def test_notes_that_github_refuses_delay_and_pause_nothing(own_refs: Any, world: World) -> None:
    """P5: IMQ tries again once a day."""
    world.github.behaviour.own_refs = own_refs
    await with_notes(world)
    await land(world, "one", "two", "three")
    await world.pass_time(timedelta(hours=3))
    assert (notes(world), await world.paused(), world.requests(ROUTES[0])) == ({}, None, 1)
    world.github.behaviour.own_refs = "all"
    world.clock.set(world.clock.now() + timedelta(days=1))
    await world.pass_time(timedelta(hours=1))
    assert len(notes(world)) == 3
