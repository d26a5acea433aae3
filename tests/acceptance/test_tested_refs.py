"""Refs that spare the base's workflows a tree that was tested: written before the landing, never a lie (P1, P2, P7)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from github_emulator import Fault, Job, Trigger
from queue_engine.domain.facts import RequiredCheck
from queue_engine.executor.proof_marks import KEPT
from queue_engine.rules.proof import mark_of
from queue_engine.store.tables import proof_marks
from tests.acceptance.landing_witness import landings
from tests.acceptance.train_world import a_train_world, queue_all
from tests.acceptance.world import CI_TIME, LABEL, World, a_world

POST, PATCH, MERGE = (
    "POST /repos/{owner}/{repo}/git/refs",
    "PATCH /repos/{owner}/{repo}/git/refs/{ref}",
    "PUT /repos/{owner}/{repo}/pulls/{number}/merge",
)
COMMIT = "POST /repos/{owner}/{repo}/git/commits"
WRITES = (POST, PATCH, COMMIT, *(f"POST /repos/{{owner}}/{{repo}}/git/{each}" for each in ("blobs", "trees")))
MARK = mark_of("main", [RequiredCheck("test", None)])


def marks(world: World) -> dict[str, str]:
    """The marked trees, with their marks."""
    found = (name.split("/") for name in world.repository.record.git.refs() if "tested/" in name)
    return {parts[-1]: parts[-2] for parts in found if parts[:-2] in (["imq", "tested"], ["heads", "imq-tested"])}


@asynccontextmanager
async def a_repeating_world(
    directory: Path, tested_refs: str = "[test]", own_refs: Any = "all", *, skips_pulls: bool = False
) -> AsyncIterator[tuple[World, Any]]:
    """A world whose workflow tests pull requests and pushes; the job has the lines that `imq doctor` names."""
    async with a_world(directory, ci=False, protect=False) as world:
        world.github.behaviour.own_refs = own_refs

        def runs(run: Any) -> bool:
            tree, branch = world.repository.tree(run.tested_sha), run.suite.head_branch
            mark = mark_of(branch, [RequiredCheck("test", None)])
            if run.event != "push":
                return not skips_pulls
            return marks(world).get(tree) != mark

        workflow = world.repository.add_workflow(
            jobs=[Job("test", duration=CI_TIME, guard=runs)],
            on=[Trigger("push", branches=["main", "imq/**"]), "pull_request"],
        )
        world.repository.protect("main", required_checks=["test"])
        text = f"merge: {{tested_refs: {tested_refs}}}\n"
        world.repository.push("main", {".github/imq.yml": text}, "Configure IMQ", by="rhea")
        await world.pass_time(CI_TIME * 2)
        yield world, workflow


async def let_expire(world: World) -> None:
    """Two weeks pass at once, and then the hours in which IMQ cleans up."""
    world.clock.set(world.clock.now() + KEPT)
    await world.pass_time(timedelta(hours=2))


async def land(world: World, *names: str) -> list[Any]:
    """Land these pull requests, which do not conflict, and let the base's workflows end."""
    pulls = [world.open(each) for each in names]
    await world.pass_time(CI_TIME * 2)
    for pull in pulls:
        pull.label(LABEL, by="mona")
    await world.until(lambda: all(pull.merged for pull in pulls))
    await world.pass_time(CI_TIME * 2)
    return pulls


def outcomes(world: World, workflow: Any) -> list[str]:
    """How the test of each push to the base ended, oldest first."""
    on_base = [run for run in workflow.runs if run.event == "push" and run.suite.head_branch == "main"]
    return [run.current_jobs()[0].conclusion for run in on_base]


@pytest.mark.every_variant
@pytest.mark.parametrize("own_refs", ["all", "rest", "none"])
async def test_base_runs_no_test_of_a_tested_tree_and_tests_any_other(own_refs: Any, tmp_path: Path) -> None:
    """P1, P7: one request for each landing; a push with one other file is tested; after 14 days nothing is left."""
    async with a_repeating_world(tmp_path, own_refs=own_refs) as (world, workflow):
        await land(world, "first")
        before = world.requests(*WRITES)
        assert before == (3 if own_refs == "none" else 1)
        await land(world, "second")
        await world.kill()
        await world.restart()
        await land(world, "third")
        assert outcomes(world, workflow)[1:] == ["skipped"] * 3
        assert world.requests(*WRITES) - before == 2
        order = [each.template for each in world.server.requests if each.template in {POST, PATCH, MERGE}]
        assert order[-4:] == [POST, MERGE] * 2
        assert marks(world) == dict.fromkeys((each.tree for each in await landings(world.bot.engine.store)), MARK)
        assert len(marks(world)) == 3

        world.repository.push("main", {"by-hand.py": "1\n"}, "Push", by="rhea")
        await world.pass_time(CI_TIME * 2)
        assert outcomes(world, workflow)[-1] == "success"
        start = "refs/heads/imq-tested/" if own_refs == "none" else "refs/imq/tested/"
        for each in await landings(world.bot.engine.store):
            assert each.record["ref"]["name"] == f"{start}{MARK}"
            target = each.record["ref"].get("object", each.record["candidate"]["commit"])
            assert world.repository.record.git.ref(f"{start.removeprefix('refs/')}{MARK}/{each.tree}") == target
            assert ("object" in each.record["ref"]) == (own_refs == "none")

        await let_expire(world)
        assert marks(world) == {}


@pytest.mark.thorough
async def test_nothing_is_written_where_it_is_off(tmp_path: Path) -> None:
    """P7: no request without the key."""
    async with a_repeating_world(tmp_path, "[]") as (world, workflow):
        await land(world, "one")
        assert (outcomes(world, workflow)[1:], world.requests(*WRITES)) == (["success"], 0)
        assert "ref" not in (await landings(world.bot.engine.store))[0].record


@pytest.mark.parametrize("tested_refs", ["[]", "[test]"])
async def test_doctor_says_what_is_tested_twice_by_the_repositorys_own_record(tested_refs: str, tmp_path: Path) -> None:
    """The minutes by workflow, of all; a landing that was not tested before is not among them."""
    async with a_repeating_world(tmp_path, tested_refs) as (world, _):
        await land(world, "one", "two")
        world.repository.push("main", {"by-hand.py": "1\n"}, "Push", by="rhea")
        await world.pass_time(CI_TIME * 2)
        report = await world.bot._examine("acme/widgets")
        if tested_refs != "[]":
            assert report.tested_again == {}
            return
        [(name, text)] = report.tested_again.items()
        assert (name, text.partition(". For")[0]) == (
            "acme/widgets",
            "in 7 days, 2 of 2 landings on main had the very tree that CI had tested. Its workflows took 6 of 12 "
            "minutes on these trees: CI 6. `merge.tested_refs` and the workflow lines of "
            "docs/proof.md#spare-the-second-test save them, as far as these workflows only test",
        )
        assert f"tested again: {text}." in report.as_text()


@pytest.mark.thorough
async def test_check_that_is_named_and_did_not_succeed_leaves_no_ref(tmp_path: Path) -> None:
    """P1: what nothing requires is not known."""
    async with a_repeating_world(tmp_path, "[test, lint]") as (world, _):
        await land(world, "one")
        assert (marks(world), world.requests(*WRITES)) == ({}, 0)


@pytest.mark.thorough
async def test_check_that_was_skipped_leaves_no_ref(tmp_path: Path) -> None:
    """P1: GitHub lets it pass, but it tested nothing: the base does."""
    async with a_repeating_world(tmp_path, skips_pulls=True) as (world, workflow):
        await land(world, "one")
        assert (marks(world), world.requests(*WRITES)) == ({}, 0)
        assert outcomes(world, workflow)[1:] == ["success"]


@pytest.mark.thorough
async def test_train_marks_its_last_tree_alone(tmp_path: Path) -> None:
    """P1: CI tested no tree between; one request for the whole train."""
    more = "merge: {tested_refs: ci/test}\n"
    async with a_train_world(tmp_path, more=more) as world:
        pulls = [world.open(each) for each in "abc"]
        await world.pass_time(CI_TIME * 2)
        before = world.requests(POST)
        queue_all(pulls)
        await world.until(lambda: all(pull.merged for pull in pulls))
        await world.settle()
        assert list(marks(world)) == [world.repository.tree("main")]
        assert ["ref" in each.record for each in await landings(world.bot.engine.store)] == [False, False, True]
        assert world.requests(POST) - before <= 4


@pytest.mark.thorough("False")
@pytest.mark.parametrize(("own_refs", "lands"), [("all", False), ("none", False), ("all", True), ("none", True)])
async def test_death_between_the_ref_and_the_landing_leaves_no_lie(own_refs: Any, lands: bool, tmp_path: Path) -> None:
    """P2: IMQ dies before it has GitHub's answer. The ref is true, whether its tree lands, and goes after 14 days."""
    async with a_repeating_world(tmp_path, own_refs=own_refs) as (world, workflow):
        await land(world, "first")
        github: Any = world.bot.engine.github
        written, killed = github.create_ref, list[bool]()

        async def dies(*given: Any) -> None:
            await written(*given)
            killed.append(True)
            raise asyncio.CancelledError

        object.__setattr__(github, "create_ref", dies)
        pull = world.open("second")
        await world.pass_time(CI_TIME * 2)
        pull.label(LABEL, by="mona")
        await world.until(lambda: bool(killed))
        [tree] = set(marks(world)) - {each.tree for each in await landings(world.bot.engine.store)}
        await world.kill()
        assert not pull.merged
        tested = {world.repository.tree(run.tested_sha): run for run in workflow.runs}
        assert tested[tree].current_jobs()[0].conclusion == "success"
        if not lands:
            pull.close(by="mona")
        await world.restart()
        if lands:
            await world.until(lambda: pull.merged)
            await world.settle()
            assert [each.tree for each in await landings(world.bot.engine.store) if "ref" in each.record][1:] == [tree]
        await let_expire(world)
        assert marks(world) == {}


async def land_again(world: World) -> str:
    """The base takes the first landing back, which then lands again, with the same tree."""
    world.repository.push("main", {"first.py": None}, "Revert", by="rhea")
    await world.pass_time(CI_TIME * 2)
    pull = world.open("again", files={"first.py": "first\n"})
    await world.pass_time(CI_TIME * 2)
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged)
    await world.settle()
    return str(world.repository.tree("main"))


async def test_tree_that_lands_again_costs_no_request_and_expires_later(tmp_path: Path) -> None:
    """P1, P7: the ref is there and says the same, also where somebody pointed it elsewhere; its 14 days begin again."""
    async with a_repeating_world(tmp_path) as (world, _):
        await land(world, "first")
        before = world.requests(*WRITES)
        world.clock.set(world.clock.now() + KEPT - timedelta(days=1))
        assert await land_again(world) == next(iter(marks(world)))
        assert world.requests(*WRITES) == before
        first, again = [each.record for each in await landings(world.bot.engine.store)]
        assert (again["ref"]["object"], "object" in first["ref"]) == (first["candidate"]["commit"], False)
        world.clock.set(world.clock.now() + KEPT - timedelta(days=1))
        await world.pass_time(timedelta(hours=2))
        assert len(marks(world)) == 1
        git, [tree] = world.repository.record.git, marks(world)
        git.set_ref(f"imq/tested/{MARK}/{tree}", str(world.repository.sha("main")))
        await let_expire(world)
        assert marks(world) == {tree: MARK}, "IMQ deletes no ref that is not as it left it"


async def test_ref_of_which_imq_has_no_record_is_left_as_it_is(tmp_path: Path) -> None:
    """P1, P7: after a lost database it says what is true; IMQ neither vouches for its target nor deletes it."""
    async with a_repeating_world(tmp_path) as (world, _):
        await land(world, "first")
        async with world.bot.engine.store.transaction() as tx:
            await tx.connection.execute(proof_marks.delete())
        before = world.requests(*WRITES)
        await land_again(world)
        assert world.requests(*WRITES) - before == 1
        assert ["ref" in each.record for each in await landings(world.bot.engine.store)] == [True, False]
        await let_expire(world)
        assert len(marks(world)) == 1


async def test_answer_that_was_lost_leaves_a_ref_that_expires(tmp_path: Path) -> None:
    """P2: the pull request lands without it; IMQ has stored where the ref may be."""
    async with a_repeating_world(tmp_path) as (world, _):
        world.server.faults.add(Fault(kind="apply_then_reset", method="POST", route="/repos/{owner}/{repo}/git/refs"))
        await land(world, "first")
        [found] = await landings(world.bot.engine.store)
        assert (marks(world), "ref" in found.record) == ({found.tree: MARK}, False)
        await let_expire(world)
        assert marks(world) == {}


def test_mark_is_what_git_calls_its_text() -> None:
    """The lines for workflows compute it by `git hash-object`."""
    assert mark_of("main", ()) == "e2a34f78d9fdc76ffa1af96616c08d459f520501"
