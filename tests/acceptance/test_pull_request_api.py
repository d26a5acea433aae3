"""Programs requeue, dequeue and explain a pull request by the API."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from queue_engine.store.tokens import TokenPolicy
from tests.acceptance.callers import Answer, Caller, caller, path_of
from tests.acceptance.choosing import configure
from tests.acceptance.pull_request_calls import HOME, order, read_entry
from tests.acceptance.test_held import held
from tests.acceptance.test_priorities import opened
from tests.acceptance.world import LABEL, World, a_world


async def requeue(by: Caller, pull: Any, **body: Any) -> Answer:
    return await by.ask("POST", f"{HOME}/pulls/{pull.number}/requeue", body=body or None)


async def test_requeue_by_the_api_goes_to_the_end_with_the_present_head(world: World, mona: Caller) -> None:
    """Consent is renewed: for the head of now, or for the one that was looked at and no other."""
    first, second = await opened(world, "hotfix", "second")
    for pull in (first, second):
        await mona.queue(pull)
    assert (await requeue(mona, first, head_sha="0" * 40)).body["reason"] == "head_changed"
    again = await requeue(mona, first, head_sha=first.head_sha)
    assert (again.status, again.body["position"]) == (202, 1)
    assert await order(world) == [second.number, first.number]
    await world.until(lambda: first.merged)
    assert world.landed() == [second.number, first.number]
    assert (await requeue(mona, first)).body["reason"] == "merged_elsewhere"


@pytest.mark.thorough
async def test_requeue_by_the_api_queues_what_is_not_queued(world: World, mona: Caller) -> None:
    """A pull request that was pushed to is queued again by the same call, whether it had left by then or not."""
    pull = world.open("add")
    await mona.queue(pull)
    pull.push({"more.py": "more\n"}, by="mona")
    await world.until_status(pull, None)
    answer = await requeue(mona, pull)
    assert (answer.status, answer.body["head_sha"]) == (202, pull.head_sha)
    await world.until(lambda: pull.merged)
    assert world.spoken(pull) == 1


@pytest.mark.thorough
async def test_requeue_by_the_api_gives_its_place_to_who_waited_longer(
    tmp_path: Path, session: aiohttp.ClientSession
) -> None:
    """In a full queue the end of the line is outside of it."""
    async with a_world(tmp_path, settings={"IMQ_MAX_QUEUE_DEPTH": "1"}) as world:
        mona = await caller(world, session)
        first, second = world.open("hotfix"), world.open("second")
        await mona.queue(first)
        second.label(LABEL, by="mona")
        await world.pass_time(timedelta(seconds=5))
        assert await held(world) == [second.number]
        assert (await read_entry(mona, second))["held_behind"] == 0
        answer = await requeue(mona, first)
        assert (answer.status, answer.body["status"], answer.body["position"]) == (202, "held", None)
        await world.until(lambda: first.merged)
        assert world.landed() == [second.number, first.number]


@pytest.mark.thorough
async def test_author_takes_out_what_somebody_else_queued(
    world: World, mona: Caller, session: aiohttp.ClientSession
) -> None:
    """It is the author's change, whatever right the author has."""
    pull = world.open("add")
    await (await caller(world, session, "hubot")).queue(pull)
    world.repository.record.collaborators["mona"] = "triage"
    assert (await requeue(mona, pull)).status == 403
    assert (await mona.leave(pull)).body["left"] is True
    await world.pass_time(timedelta(seconds=10))
    assert (pull.labels, await world.reasons(pull)) == ([], ["unqueued"])


@pytest.mark.thorough
async def test_who_may_queue_by_the_configuration_may_by_the_api(world: World, session: aiohttp.ClientSession) -> None:
    """The repository's own rule, not only GitHub's."""
    await configure(world, "who_may_queue: {people: [tria]}\n")
    pull = world.open("add")
    assert (await (await caller(world, session, "tria")).queue(pull)).status == 202


@pytest.mark.thorough
async def test_pull_request_is_explained_from_admission_to_its_landing(world: World, mona: Caller) -> None:
    """What it waits for now, and how its last stay ended; GitHub is asked for the caller's right and no more."""
    pull = world.open("add")
    await world.settle()
    first = await read_entry(mona, pull)
    assert first == {
        **first,
        "repository": "acme/widgets",
        "number": pull.number,
        "state": "not_queued",
        "base_branch": None,
        "depth": 0,
        "entry": None,
        "held_behind": None,
        "fair_share": None,
        "previous": None,
        "outcome": None,
        "reason": "never_queued",
        "whose_move": "author",
        "retry_safe": True,
    }
    assert first["next"]["call"] == {"method": "POST", "path": path_of(pull)}
    await mona.queue(pull)
    await world.until_status(pull, "checking")
    before = world.requests()
    read = await read_entry(mona, pull)
    assert world.requests() == before, "the right is remembered"
    assert (read["whose_move"], read["reason"], read["next"]["call"]["method"]) == ("ci", "checks_pending", "GET")
    assert (read["state"], read["base_branch"], read["depth"], read["entry"]["position"]) == ("checking", "main", 1, 0)
    assert (read["entry"]["pending_checks"], read["entry"]["queued_by"]) == (["ci/test"], "mona")
    shown = (await mona.ask("GET", f"{HOME}/branches/main/queue")).body
    assert shown["entries"] == [read["entry"]]
    [run] = shown["runs"]
    assert (run["batch_job_id"], run["members"], run["done"], run["total"]) == (None, [pull.number], 0, 1)
    assert shown["fallback"] is None
    await world.until(lambda: pull.merged)
    await world.settle()
    landed = await read_entry(mona, pull)
    assert (landed["state"], landed["previous"]["event"], landed["previous"]["reason"]) == (
        "not_queued",
        "landed",
        None,
    )
    assert (landed["outcome"], landed["whose_move"], landed["next"]["call"]) == ("landed", "nobody", None)
    assert (await mona.ask("GET", f"{HOME}/queues")).body["queues"] == [
        {"base_branch": "main", "depth": 0, "held": 0, "not_ready": 0, "blockers": []}
    ]


async def test_private_repository_is_not_there_for_who_may_not_read_it(
    world: World, mona: Caller, session: aiohttp.ClientSession
) -> None:
    """The answer hides that it exists; an operator sees it without an account on GitHub."""
    pull = world.open("add")
    await mona.queue(pull)
    world.github.create_user("stranger")
    stranger, anonymous = await caller(world, session, "stranger"), await caller(world, session, None)
    async with world.bot.engine.change() as change:
        token = await change.tx.tokens.create("on call", TokenPolicy(login=None, operator=True), now=change.now)
    operator = Caller(world, session, str(token))
    for path in (path_of(pull), f"{HOME}/queues", f"{HOME}/branches/main/queue"):
        hidden, missing = await stranger.ask("GET", path), await mona.ask("GET", path.replace("widgets", "nothing"))
        assert (hidden.status, hidden.body) == (missing.status, missing.body) == (404, missing.body)
        assert (await anonymous.ask("GET", path)).status == 404
        assert (await operator.ask("GET", path)).status == 200
