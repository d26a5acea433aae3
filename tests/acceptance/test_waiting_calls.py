"""A reading call waits until its answer changes: programs ask once in slot of every second."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import aiohttp
import pytest

from bot.api.permissions import CACHED_FOR
from bot.api.waits import FIRST_POLL, MOST, MOST_OF_CALLER, RAREST_FOR_OUTCOME, RAREST_POLL
from bot.http.connections import SharedSlots
from queue_engine.domain.facts import Permission
from queue_engine.domain.model import UnmetRequirement
from queue_engine.domain.reasons import Reason
from queue_engine.effects import record
from tests.acceptance.callers import Answer, Caller, caller, path_of
from tests.acceptance.pull_request_calls import HOME, read_entry
from tests.acceptance.test_hidden_repositories import HIDDEN, hide
from tests.acceptance.world import World
from tests.support.real_time import LIMIT


@asynccontextmanager
async def waiting(world: World, calls: int, call: Awaitable[Answer]) -> AsyncIterator["asyncio.Task[Answer]"]:
    """A call under way, after the bot counts so many calls that wait."""
    task = asyncio.ensure_future(call)
    waits = world.bot.waits
    while len(waits.waiting) < calls and not task.done():  # noqa: ASYNC110 - a call of a client is no event here
        await asyncio.sleep(0)
    yield task
    task.cancel()


async def woken(world: World, call: "asyncio.Task[Answer]") -> Answer:
    """The answer of a call that the feed wakes, and no time passes."""
    async with asyncio.timeout(LIMIT):
        while not call.done():
            await world.bot.feed.run_due()
            await asyncio.sleep(0)
    return await call


async def later(world: World, call: "asyncio.Task[Answer]") -> Answer:
    """The answer of a call after as many polls as it needs: it may begin its first one after the clock moved."""
    while not call.done():
        await world.pass_time(FIRST_POLL)
    return await call


async def test_call_that_waits_is_answered_when_the_state_changes(world: World, mona: Caller) -> None:
    """By an event of the same repository, long before its time is over; the answer is the new state."""
    pull = world.open("add")
    await world.settle()
    before_it = await read_entry(mona, pull)
    async with waiting(world, 1, mona.ask("GET", f"{path_of(pull)}?wait=60&since={before_it['version']}")) as call:
        assert not call.done()
        before = world.clock.now()
        await mona.queue(pull)
        answer = await woken(world, call)
    assert (answer.status, answer.body["state"]) == (200, "pending")
    assert answer.body["version"] != before_it["version"]
    assert world.clock.now() - before < FIRST_POLL


@pytest.mark.thorough
async def test_call_whose_version_is_old_is_answered_at_once(world: World, mona: Caller) -> None:
    """What changed between two calls is missed by none."""
    pull = world.open("add")
    await world.settle()
    before_it = await read_entry(mona, pull)
    await mona.queue(pull)
    answer = await mona.ask("GET", f"{path_of(pull)}?wait=60&since={before_it['version']}")
    assert (answer.status, answer.body["state"]) == (200, "pending")
    assert answer.body["next"]["call"]["path"] == f"{path_of(pull)}?wait=60&since={answer.body['version']}"


async def test_call_that_waits_ends_with_its_time(world: World, mona: Caller) -> None:
    """With the state of then, and 304 where the caller has its ETag."""
    pull = world.open("add")
    await world.settle()
    async with waiting(world, 1, mona.ask("GET", f"{path_of(pull)}?wait=20")) as call:
        answer = await later(world, call)
    assert (answer.status, answer.body["state"]) == (200, "not_queued")
    assert answer.headers["ETag"] == f'"{answer.body["version"]}"'
    headers = {"Authorization": f"Bearer {mona.token}", "If-None-Match": answer.headers["ETag"]}
    url = f"http://127.0.0.1:{world.runner.addresses[0][1]}{path_of(pull)}"
    async with mona.session.get(url, headers=headers) as again:
        assert (again.status, await again.read()) == (304, b"")
    await mona.queue(pull)
    async with mona.session.get(url, headers=headers) as changed:
        assert changed.status == 200


def polls_of(world: World, monkeypatch: pytest.MonkeyPatch) -> list[timedelta]:
    """The pauses before each poll of a waiting call, from now on."""
    polls: list[timedelta] = []
    next_poll = world.bot.waits._next_poll

    async def poll(woken: asyncio.Event, pause: timedelta, *ends: Any) -> None:
        polls.append(pause)
        await next_poll(woken, pause, *ends)

    monkeypatch.setattr(world.bot.waits, "_next_poll", poll)
    return polls


async def test_call_for_the_outcome_costs_nothing_while_its_pull_request_waits(
    world: World, mona: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An hour among the events of others: sixteen polls at most, and an answer once it has left."""
    pull, other = world.open("add"), world.open("other")
    await world.settle()
    await mona.queue(pull)
    pull.comment("/pause", by="rhea")
    await world.settle()
    polls = polls_of(world, monkeypatch)
    async with waiting(world, 1, mona.ask("GET", f"{path_of(pull)}?wait=3600&until=outcome")) as call:
        for _ in range(10):
            assert (await mona.queue(other)).status == 202
            for _ in range(15):
                await world.pass_time(timedelta(seconds=20))
            await mona.leave(other)
        assert not call.done()
        assert len(polls) <= 16
        assert max(polls) == RAREST_FOR_OUTCOME
        at = world.clock.now()
        await mona.leave(pull)
        answer = await woken(world, call)
    assert (answer.status, answer.body["state"], answer.body["outcome"]) == (200, "not_queued", "cancelled")
    assert world.clock.now() == at


async def test_call_for_the_outcome_ends_where_its_pull_request_has_to_wait_outside(world: World, mona: Caller) -> None:
    """Somebody has to act then. A call that begins afterwards waits until it joined, and left again."""
    pull = world.open("add")
    await world.settle()
    await mona.queue(pull)
    ask = f"{path_of(pull)}?wait=3600&until=outcome"
    async with waiting(world, 1, mona.ask("GET", ask)) as call:
        entry, policy = await world.entry(pull), world.bot.settings.policy()
        assert entry is not None
        async with world.bot.engine.change() as change:
            await record.unready(change, entry, (UnmetRequirement(Reason.DRAFT),), policy)
        answer = await woken(world, call)
    assert (answer.status, answer.body["state"], answer.body["reason"]) == (200, "not_ready", "draft")
    async with waiting(world, 1, mona.ask("GET", ask)) as call:
        await world.bot.feed.run_due()
        assert not call.done()
        await world.until(call.done)
        assert ((await call).body["outcome"], pull.merged) == ("landed", True)


async def test_call_whose_client_leaves_ends_at_once(world: World, mona: Caller) -> None:
    """Its slot is free for another call, an hour before its time is over."""
    pull = world.open("add")
    await world.settle()
    await mona.queue(pull)
    async with waiting(world, 1, mona.ask("GET", f"{path_of(pull)}?wait=3600&until=outcome")) as call:
        call.cancel()
        async with asyncio.timeout(LIMIT):
            while world.bot.waits.waiting:  # noqa: ASYNC110 - the end of a connection is no event here
                await asyncio.sleep(0)


@pytest.mark.thorough
async def test_change_that_no_event_reports_is_found_by_a_poll(world: World, mona: Caller) -> None:
    """Nothing wakes the call then: it looks again after seconds, without a connection in between."""
    pull = world.open("add")
    await world.settle()
    async with waiting(world, 1, mona.ask("GET", f"{path_of(pull)}?wait=60")) as call:
        world.bot.feed._events._subscribers.clear()
        await mona.queue(pull)
        await asyncio.sleep(0)
        assert not call.done()
        assert (await later(world, call)).body["state"] != "not_queued"


@pytest.mark.thorough
async def test_right_that_is_lost_while_a_call_waits_hides_the_answer(world: World, mona: Caller) -> None:
    """Rights are judged at each poll, so that a long poll is no way around them."""
    pull = world.open("add")
    await world.settle()
    async with waiting(world, 1, mona.ask("GET", f"{path_of(pull)}?wait=60")) as call:
        async with world.bot.engine.store.transaction() as tx:
            await tx.tokens.revoke("for mona")
        assert (await later(world, call)).status == 401


@pytest.mark.parametrize("until", ["change", "outcome"])
async def test_right_that_is_lost_within_an_hour_ends_the_call_within_minutes(
    world: World, session: aiohttp.ClientSession, until: str
) -> None:
    """Though nothing happens to the pull request: a person without access reads 404, and a revoked token 401."""
    pull, roles = await hide(world), world.github.repository(HIDDEN).record.collaborators
    stranger = await caller(world, session, "stranger")
    roles["stranger"] = "read"
    pull.comment("/pause", by="mona")
    await world.pass_time(timedelta(minutes=2))
    ask = f"{path_of(pull, HIDDEN)}?wait=3600&until={until}"
    async with waiting(world, 1, stranger.ask("GET", ask)) as hidden:
        await world.pass_time(timedelta(minutes=20))
        assert not hidden.done()
        del roles["stranger"]
        at = world.clock.now()
        assert (await later(world, hidden)).status == 404
        assert world.clock.now() - at < CACHED_FOR + 2 * RAREST_FOR_OUTCOME
    roles["stranger"] = "read"
    await world.pass_time(CACHED_FOR)
    async with waiting(world, 1, stranger.ask("GET", ask)) as revoked:
        await world.pass_time(timedelta(minutes=20))
        assert not revoked.done()
        async with world.bot.engine.store.transaction() as tx:
            await tx.tokens.revoke("for stranger")
        at = world.clock.now()
        assert (await later(world, revoked)).status == 401
        assert world.clock.now() - at < 2 * RAREST_FOR_OUTCOME


async def test_events_of_others_make_no_poll_rarer(world: World, mona: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy repository wakes a call a hundred times in an hour, and what no event reports is still found soon."""
    pull = world.open("add")
    await world.settle()
    polls = polls_of(world, monkeypatch)
    async with waiting(world, 1, mona.ask("GET", f"{path_of(pull)}?wait=3600")) as call:
        for woken in range(1, 60):
            (each,) = world.bot.waits.waiting
            each.woken.set()
            async with asyncio.timeout(LIMIT):
                while len(polls) <= woken:  # noqa: ASYNC110 - as above
                    await asyncio.sleep(0)
        assert set(polls) == {FIRST_POLL}
        for _ in range(12):
            await world.pass_time(RAREST_POLL)
        assert (call.done(), max(polls)) == (False, RAREST_POLL)


@pytest.mark.thorough
async def test_waiting_calls_of_a_caller_are_bounded(world: World, session: aiohttp.ClientSession) -> None:
    """One program cannot use all of them: its next call gets 429, and the calls of others wait as before."""
    mona, hubot = await caller(world, session), await caller(world, session, "hubot")
    pull = world.open("add")
    await world.settle()
    calls = [asyncio.ensure_future(mona.ask("GET", f"{path_of(pull)}?wait=60")) for _ in range(MOST_OF_CALLER)]
    while len(world.bot.waits.waiting) < MOST_OF_CALLER:  # noqa: ASYNC110 - as above
        await asyncio.sleep(0)
    refused = await mona.ask("GET", f"{path_of(pull)}?wait=60")
    assert (refused.status, refused.headers["Retry-After"], refused.body["retry_safe"]) == (429, "5", True)
    assert str(refused.body["error"]).startswith(f"{MOST_OF_CALLER} of your calls wait")
    assert (await read_entry(mona, pull))["state"] == "not_queued"
    async with waiting(world, MOST_OF_CALLER + 1, hubot.ask("GET", f"{path_of(pull)}?wait=60")) as other:
        assert not other.done()
        world.bot.engine.ending.set()
        statuses: list[Any] = [answer.status for answer in await asyncio.gather(other, *calls)]
    assert set(statuses) == {200}, "a process that ends answers them"
    assert len(world.bot.waits.waiting) == 0


@pytest.mark.thorough
async def test_agents_that_share_a_service_token_wait_together(
    world: World, session: aiohttp.ClientSession, mona: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More of them than calls of one person; while all slots are taken, a person's call gets one of theirs."""
    monkeypatch.setattr(world.bot.waits, "_slots", SharedSlots(4, 2))
    scope = (world.repository.record.id,)
    agents = await caller(world, session, None, name="agents", access=Permission.WRITE, repositories=scope)
    pull = world.open("add")
    await world.settle()
    ask = f"{path_of(pull)}?wait=60"
    calls = [asyncio.ensure_future(agents.ask("GET", ask)) for _ in range(4)]
    while len(world.bot.waits.waiting) < 4:  # noqa: ASYNC110 - as above
        await asyncio.sleep(0)
    refused = await agents.ask("GET", ask)
    assert (refused.status, str(refused.body["error"]).split(",")[0]) == (429, f"{MOST} calls wait for a change")
    async with waiting(world, 5, mona.ask("GET", ask)) as other:
        assert ((await calls[0]).status, other.done()) == (200, False)
        world.bot.engine.ending.set()
        statuses: list[Any] = [answer.status for answer in await asyncio.gather(other, *calls)]
    assert set(statuses) == {200}


async def test_caller_with_most_waiting_calls_gives_a_place_to_another(
    world: World, session: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While all slots are taken, the oldest of these calls gets its answer early, without a change."""
    monkeypatch.setattr(world.bot.waits, "_slots", SharedSlots(2, 2))
    mona, hubot = await caller(world, session), await caller(world, session, "hubot")
    pull = world.open("add")
    await world.settle()
    ask = f"{path_of(pull)}?wait=60"
    async with waiting(world, 1, mona.ask("GET", ask)) as first, waiting(world, 2, mona.ask("GET", ask)) as second:
        other = asyncio.ensure_future(hubot.ask("GET", ask))
        early = await first
        assert (early.status, early.body["state"]) == (200, "not_queued")
        assert not second.done()
        assert (await mona.ask("GET", ask)).status == 429
        world.bot.engine.ending.set()
        assert {(await each).status for each in (second, other)} == {200}


@pytest.mark.thorough
async def test_results_of_a_bulk_call_are_waited_for(world: World, mona: Caller) -> None:
    """Each result that comes is an answer, also a refusal, of which the timeline knows nothing."""
    begun = await mona.ask("POST", f"{HOME}/queue", body={"pulls": [{"number": 999}]})
    path = begun.body["results"][0]["next"]["call"]["path"]
    async with waiting(world, 1, mona.ask("GET", path)) as call:
        assert not call.done()
        await world.bot.worker.run_due()
        answer = await call
    assert (answer.body["progress"], answer.body["results"][0]["status"]) == ("1 of 1", 404)


@pytest.mark.thorough
async def test_time_to_wait_is_bounded(world: World, mona: Caller) -> None:
    """A proxy ends longer calls."""
    pull = world.open("add")
    for query in ("wait=0", "wait=3601", "wait=x", "until=x", "since=zz", "wait=1&wait=2", "other=1"):
        assert (await mona.ask("GET", f"{path_of(pull)}?{query}")).status == 400
