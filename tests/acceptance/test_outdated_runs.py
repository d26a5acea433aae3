"""Runs of checks that IMQ itself caused are cancelled once they are outdated."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from github_emulator import Fault, Job
from tests.acceptance.choosing import configure
from tests.acceptance.world import CI_TIME, LABEL, World, a_world

LIST = "GET /repos/{owner}/{repo}/actions/runs"
CANCEL = "POST /repos/{owner}/{repo}/actions/runs/{run_id}/cancel"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """A world whose required check is a job of a workflow on pull requests; another runs on pushes."""
    async with a_world(tmp_path, ci=False, protect=False) as made:
        made.repository.add_workflow("Tests", jobs=[Job("unit", CI_TIME)], on=["pull_request"])
        made.repository.add_workflow("Build", jobs=[Job("build", CI_TIME)], on=["push"])
        made.repository.protect("main", required_checks=["unit"])
        yield made


async def updated(world: World, name: str = "one") -> Any:
    """A queued pull request that IMQ has updated, its checks under way."""
    pull = await world.behind(name)
    pull.label(LABEL, by="mona")
    await world.until_status(pull, "checking")
    assert set(conclusions(world, pull.head_sha)) == {("pull_request", None), ("push", None)}
    return pull


def conclusions(world: World, sha: str) -> list[tuple[str, str | None]]:
    """Event and conclusion of every run on a commit."""
    runs = world.repository.record.workflow_runs.values()
    return [(run.event, run.suite.conclusion) for run in runs if run.head_sha == sha]


@pytest.mark.thorough
async def test_runs_on_the_update_are_cancelled_when_its_pull_request_is_dequeued(world: World) -> None:
    """Both that IMQ's push began; those on the base and on another pull request go on."""
    other = world.open("other")
    pull = await updated(world)
    other.push({"more.py": "more\n"}, by="mona")
    await world.settle()
    pull.unlabel(LABEL, by="mona")
    await world.settle()
    assert set(conclusions(world, pull.head_sha)) == {("pull_request", "cancelled"), ("push", "cancelled")}
    assert set(conclusions(world, other.head_sha)) == {("pull_request", None), ("push", None)}
    assert world.requests(CANCEL) == 2
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged)


@pytest.mark.thorough
async def test_run_that_a_person_began_or_ran_again_is_not_cancelled(world: World) -> None:
    """Nothing on the head that was queued is looked at; on the update a person's rerun continues."""
    fresh = world.open("fresh")
    fresh.label(LABEL, by="mona")
    await world.until_status(fresh, "checking")
    fresh.unlabel(LABEL, by="mona")
    await world.settle()
    assert world.requests(LIST) == 0
    pull = await updated(world)
    run = next(
        run
        for run in world.repository.record.workflow_runs.values()
        if (run.head_sha, run.event) == (pull.head_sha, "push")
    )
    world.repository.cancel(run, by="mona")
    world.github.actions.rerun(run, actor=world.github.actor("mona"))
    await world.settle()
    pull.unlabel(LABEL, by="mona")
    await world.settle()
    assert set(conclusions(world, pull.head_sha)) == {("pull_request", "cancelled"), ("push", None)}


@pytest.mark.thorough
async def test_runs_on_an_update_that_another_replaces_are_cancelled(world: World) -> None:
    """The base moves while the checks run: the old update's runs end, the new one's decide."""
    pull = await updated(world)
    old = pull.head_sha
    world.repository.push("main", {"again.py": "moved\n"}, "Move the base again", by="rhea")
    await world.until(lambda: pull.merged)
    assert set(conclusions(world, old)) == {("pull_request", "cancelled"), ("push", "cancelled")}


async def test_runs_continue_where_the_head_is_queued_again_or_cancelling_is_disabled(world: World) -> None:
    """A job that GitHub delayed finds its head queued again; a repository may disable this."""
    pull = await updated(world)
    world.server.faults.add(Fault(kind="fail", route=LIST, status=502))
    pull.unlabel(LABEL, by="mona")
    await world.until(lambda: world.requests(LIST) == 1)
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged)
    assert (world.requests(LIST), world.requests(CANCEL)) == (1, 0)
    await configure(world, "checks: {cancel_outdated: false}\n")
    second = await updated(world, "two")
    second.unlabel(LABEL, by="mona")
    await world.settle()
    assert set(conclusions(world, second.head_sha)) == {("pull_request", None), ("push", None)}


async def test_missing_permission_costs_two_requests_and_no_dead_letter(world: World) -> None:
    """Without `actions: write` the runs go on, and the queue too."""
    pull = await updated(world)
    world.grant("actions", "read")
    pull.unlabel(LABEL, by="mona")
    await world.settle()
    assert set(conclusions(world, pull.head_sha)) == {("pull_request", None), ("push", None)}
    assert world.requests(CANCEL) == 1
    async with world.bot.engine.store.reading() as tx:
        assert await tx.dead_letters.count() == 0


async def test_cancellation_survives_a_kill_and_a_github_that_fails(world: World) -> None:
    """The job is stored with the dequeue: whatever happens before it is done, it is done."""
    pull = await updated(world)
    world.server.faults.add(Fault(kind="fail", route=CANCEL, status=502))
    pull.unlabel(LABEL, by="mona")
    await world.until_status(pull, None)
    await world.kill()
    await world.restart()
    await world.until(lambda: {ended for _, ended in conclusions(world, pull.head_sha)} == {"cancelled"})
