"""Attacks with tokens: what is over, forged or narrowed, what a person lost, and how much one may cost."""

import json
from datetime import timedelta
from typing import Any

import aiohttp
import pytest

from queue_engine.domain.facts import Permission
from queue_engine.store.tokens import PREFIX
from tests.acceptance.api_walk import Call, calls
from tests.acceptance.callers import Caller, caller, path_of
from tests.acceptance.world import CI_TIME, LABEL, REPOSITORY, World

PERMISSION = "GET /repos/{owner}/{repo}/collaborators/{username}/permission"
QUEUES = f"/api/v1/repositories/{REPOSITORY}/queues"
PAUSE = f"/api/v1/repositories/{REPOSITORY}/branches/main/pause"


async def walk(world: World, session: aiohttp.ClientSession) -> tuple[Call, ...]:
    return tuple(calls(json.loads((await Caller(world, session, None).read("/api/v1/openapi.json"))[1])))


async def events(world: World, pull: Any, name: str) -> list[dict[str, Any]]:
    """The timeline's entries for events of this name."""
    async with world.bot.engine.store.reading() as tx:
        timeline = await tx.timeline.of_pull_request(pull.record.repository.id, pull.number)
    return [dict(each.data or {}) for each in timeline if each.event == name]


@pytest.mark.thorough
async def test_token_that_is_over_revoked_or_forged_opens_no_route(
    world: World, session: aiohttp.ClientSession
) -> None:
    """401 with one body for each, on every route: no caller learns which secrets there have been."""
    pull = world.open("add")
    hour = world.clock.now() + timedelta(hours=1)
    expired = await caller(world, session, "rhea", name="expired", operator=True, expires_at=hour)
    revoked = await caller(world, session, "rhea", name="revoked", operator=True)
    good = await caller(world, session, "rhea", name="good", operator=True)
    assert expired.token is not None
    assert good.token is not None
    assert (await expired.read(QUEUES))[0] == (await revoked.read(QUEUES))[0] == 200
    world.clock.set(hour)
    async with world.bot.engine.store.transaction() as tx:
        await tx.tokens.revoke("revoked")
    last = "a" if good.token[-1] != "a" else "b"
    forged = Caller(world, session, good.token[:-1] + last)
    guessed = Caller(world, session, PREFIX + "x" * 43)
    answers = set()
    for call in (*await walk(world, session), Call("GET", "/queue/status", None)):
        for attacker in (expired, revoked, forged, guessed):
            status, text, headers = await attacker.send(call.method, call.path(REPOSITORY), call.body)
            answers.add((status, text, headers["WWW-Authenticate"]))
    ((status, text, challenge),) = answers
    assert (status, "unknown" in text, 'error="invalid_token"' in challenge) == (401, True, True)
    assert (await world.entries(), pull.labels, await world.paused()) == ((), [], None)
    assert (await good.read(QUEUES))[0] == 200


@pytest.mark.thorough
async def test_token_that_reads_writes_nowhere(world: World, session: aiohttp.ClientSession) -> None:
    """403 on every writing route, for any owner; nothing changes and GitHub is asked nothing."""
    pull = world.open("add")
    await world.settle()
    readers = [
        await caller(world, session, "rhea", name="person", access=Permission.READ),
        await caller(world, session, None, name="ops", access=Permission.READ, operator=True),
        await caller(
            world, session, None, name="scope", access=Permission.READ, repositories=(world.repository.record.id,)
        ),
    ]
    before = world.requests()
    for reader in readers:
        for call in await walk(world, session):
            if call.writes:
                path = call.path(REPOSITORY, number=pull.number)
                status, text, _ = await reader.send(call.method, path, call.body)
                assert (status, "changes nothing" in text) == (403, True), path
    assert world.requests() == before
    assert (await world.entries(), pull.labels, await world.paused()) == ((), [], None)
    assert [(await reader.read(QUEUES))[0] for reader in readers] == [200] * 3


@pytest.mark.thorough
async def test_token_that_writes_may_not_control_queues(world: World, session: aiohttp.ClientSession) -> None:
    """`--write` queues and dequeues; the role of its person does not widen it."""
    pull = world.open("add")
    rhea = await caller(world, session, "rhea", access=Permission.WRITE)
    service = await caller(
        world, session, None, name="bot", access=Permission.WRITE, repositories=(world.repository.record.id,)
    )
    for each in (rhea, service):
        assert (await each.send("POST", PAUSE))[0] == 403
        assert (await each.queue(pull, priority="high")).status == 403
        assert (await each.queue(pull)).status == 202
        assert (await each.leave(pull)).status == 200
    assert await world.paused() is None


async def test_service_queues_within_its_scope_and_lands_under_its_own_name(
    world: World, session: aiohttp.ClientSession
) -> None:
    """No person is borrowed: timeline and comment tell the token; GitHub is never asked what the token may."""
    pull, other = world.open("add"), world.open("other")
    await world.pass_time(CI_TIME * 2)
    scope = (world.repository.record.id,)
    deploy = await caller(world, session, None, name="deploy", access=Permission.MAINTAIN, repositories=scope)
    assert (await deploy.queue(other)).body["queued_by"] == "deploy[token]"
    assert (await deploy.leave(other)).status == 200
    assert [each["dequeued_by"] for each in await events(world, other, "cancelled")] == ["deploy[token]"]
    assert (await deploy.queue(pull)).status == 202
    await world.until(lambda: pull.merged)
    await world.settle()
    assert [each["by"] for each in await events(world, pull, "queued")] == ["deploy[token]"]
    paused = await deploy.ask("POST", PAUSE, body={"reason": "A release"})
    assert (paused.status, paused.body["changed"]) == (200, True)
    assert not [each for each in world.server.requests if "[token]" in each.path or "%5Btoken%5D" in each.path]


async def test_what_a_revoked_service_queued_does_not_land(world: World, session: aiohttp.ClientSession) -> None:
    """P4: the right to land ends with the token that it was given to, also between queueing and merge."""
    pull = world.open("add")
    scope = (world.repository.record.id,)
    deploy = await caller(world, session, None, name="deploy", access=Permission.WRITE, repositories=scope)
    await deploy.queue(pull)
    await world.until_status(pull, "checking")
    async with world.bot.engine.store.transaction() as tx:
        await tx.tokens.revoke("deploy")
    await world.until_status(pull, None)
    assert (pull.merged, await world.reasons(pull)) == (False, ["permission_lost"])


@pytest.mark.thorough
async def test_person_who_lost_the_right_reads_for_minutes_and_writes_no_more(
    world: World, session: aiohttp.ClientSession
) -> None:
    """Reads use remembered rights; each call that changes something, control included, asks GitHub again."""
    pull = world.open("add")
    roles = world.repository.record.collaborators
    roles["hubot"] = "maintain"
    hubot = await caller(world, session, "hubot")
    assert (await hubot.read(QUEUES))[0] == 200
    roles["hubot"] = "read"
    assert (await hubot.queue(pull)).status == 403
    assert (await hubot.send("POST", PAUSE))[0] == 403
    del roles["hubot"]
    assert (await hubot.queue(pull)).status == 403
    world.clock.set(world.clock.now() + timedelta(minutes=5))
    assert [(await hubot.read(QUEUES))[0], (await hubot.queue(pull)).status] == [404, 404]
    assert await world.entries() == ()


async def test_login_that_somebody_else_took_opens_nothing(world: World, session: aiohttp.ClientSession) -> None:
    """A token is a person's, by GitHub's id: it follows them to their new login, and not the login to its new owner."""
    pull = world.open("add")
    mona = await caller(world, session)
    world.github.accounts.rename(world.github.state.users["mona"], "lisa")
    world.github.create_user("mona")
    world.repository.record.collaborators["mona"] = "admin"
    assert (await mona.queue(pull)).body["queued_by"] == "lisa"
    async with world.bot.engine.store.reading() as tx:
        assert [each.login for each in await tx.tokens.all()] == ["lisa"]
    del world.repository.record.collaborators["lisa"]
    world.clock.set(world.clock.now() + timedelta(minutes=5))
    assert (await mona.read(QUEUES))[0] == 404
    world.github.state.users.pop("lisa")
    world.clock.set(world.clock.now() + timedelta(minutes=5))
    assert (await mona.read(QUEUES))[0] == 404
    rhea = await caller(world, session, "rhea", operator=True)
    world.github.accounts.rename(world.github.state.users["rhea"], "rhea-was-here")
    world.github.create_user("rhea")
    world.repository.record.collaborators["rhea"] = "admin"
    del world.repository.record.collaborators["rhea-was-here"]
    assert (await rhea.queue(pull)).status == (await rhea.send("POST", PAUSE))[0] == 403


@pytest.mark.thorough
async def test_operators_token_is_not_the_next_owner_of_its_login(world: World, session: aiohttp.ClientSession) -> None:
    """The first account was deleted. The engine lets authors dequeue by login, so the person is compared first (P4)."""
    rhea = await caller(world, session, "rhea", operator=True)
    world.github.state.users.pop("rhea")
    world.github.create_user("rhea")
    world.repository.record.collaborators["rhea"] = "write"
    pull = world.open("add", by="rhea")
    pull.label(LABEL, by="rhea")
    await world.settle()
    assert (await rhea.leave(pull)).status == 403
    assert (await rhea.ask("GET", path_of(pull))).body["state"] == "checking"


async def test_token_of_a_person_who_was_not_bound_yet_is_bound_at_its_first_use(
    world: World, session: aiohttp.ClientSession
) -> None:
    """Tokens that were made before IMQ knew ids."""
    mona = await caller(world, session)
    async with world.bot.engine.store.transaction() as tx:
        (token,) = await tx.tokens.all()
        await tx.connection.exec_driver_sql("UPDATE api_tokens SET person_id = NULL")
    assert (await mona.read(QUEUES))[0] == 200
    async with world.bot.engine.store.reading() as tx:
        (bound,) = await tx.tokens.all()
    assert bound.grant == token.grant
    assert bound.grant.person_id == world.github.state.users["mona"].id


async def test_caller_cannot_use_up_githubs_limits(world: World, session: aiohttp.ClientSession) -> None:
    """A hundred names, then 429 for every other, there or not; two tokens of a person share; others go on."""
    tria, again = await caller(world, session, "tria"), await caller(world, session, "tria", name="again")
    world.open("add").label(LABEL, by="mona")
    await world.settle()
    before = world.requests()
    statuses = [
        (await (tria, again)[each % 2].read(f"/api/v1/repositories/acme/nothing-{each}/queues"))[0]
        for each in range(150)
    ]
    assert statuses == [404] * 100 + [429] * 50
    assert world.requests() == before + 100
    refused = await tria.ask("GET", QUEUES)
    assert (refused.status, 1 <= int(refused.headers["Retry-After"]) <= 60) == (429, True)
    assert (await tria.ask("GET", "/queue/status")).body["queues"] == []
    assert (await (await caller(world, session, "mona")).read(QUEUES))[0] == 200
    await world.pass_time(timedelta(minutes=1))
    assert (await tria.read(QUEUES))[0] == 200


async def test_calls_that_write_are_bounded_too(world: World, session: aiohttp.ClientSession) -> None:
    """Each may take several requests: some thirty a minute, for a person as for a service."""
    pull = world.open("add")
    scope = (world.repository.record.id,)
    service = await caller(world, session, None, name="deploy", access=Permission.WRITE, repositories=scope)
    for each in (service, await caller(world, session, "tria")):
        statuses = [(await each.leave(pull)).status for _ in range(40)]
        assert set(statuses[:30]) <= {403, 404}
        assert statuses[-2:] == [429, 429]
    operator = await caller(world, session, None, name="ops", operator=True)
    assert {(await operator.ask("GET", path_of(pull))).status for _ in range(25)} == {200}
