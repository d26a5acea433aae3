"""Event streams over HTTP: who gets which events, and when a stream ends."""

import asyncio
import gc
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from structlog.testing import capture_logs

from bot.api.auth import identify
from bot.api.events import MAX_REQUESTS
from bot.http.protocol import ClientConnection
from bot.web.live import streams
from bot.web.live.streams import CHECK_INTERVAL, StreamLimits
from queue_engine.domain.model import TimelineEvent
from queue_engine.store.request_records import RequestKind, RequestRecord
from queue_engine.store.tokens import Token
from tests.acceptance.browsing import SETTINGS
from tests.acceptance.callers import Caller, caller
from tests.acceptance.failed_requests import opaque_ids
from tests.acceptance.streams import reading
from tests.acceptance.world import CI_TIME, LABEL, World, a_world
from tests.support.real_time import LIMIT

MINUTE = timedelta(minutes=1)


async def queued(world: World, name: str) -> Any:
    """A pull request that was labeled."""
    pull = world.open(name)
    await world.settle()
    pull.label(LABEL, by="mona")
    await world.settle()
    return pull


async def record(world: World, repository: int, branch: str, event: str, number: int = 1) -> None:
    """Append an event as a process does, and let this process pass it on."""
    async with world.bot.engine.change() as change:
        appended = TimelineEvent(change.now, event, repository, branch, number)
        await change.tx.timeline.append(appended)
    await world.bot.feed.run_due()


async def rest() -> None:
    """Let the tasks under way go on."""
    for _ in range(50):
        await asyncio.sleep(0)


async def until_sent(world: World, stream: Any, kind: str = "end") -> Any:
    """Let minutes pass until a stream sends an event of this kind: a check of rights is answered in real time."""
    sent = asyncio.ensure_future(stream.next(kind))
    async with asyncio.timeout(LIMIT):
        while not sent.done():
            await rest()
            await world.pass_time(CHECK_INTERVAL)
    return await sent


@pytest.mark.thorough
async def test_label_is_in_the_stream_up_to_its_landing(world: World, mona: Caller) -> None:
    """Each event of the timeline arrives once, in order, with its repository, branch and number."""
    await queued(world, "first")
    async with reading(world, mona.token, f"/api/v1/events?repository={world.repository.full_name}") as stream:
        pull = await queued(world, "second")
        await world.until(lambda: pull.merged)
        await world.settle()
        landed = await stream.next()
        while (landed.data["event"], landed.data["number"]) != ("landed", pull.number):
            landed = await stream.next()
    assert (landed.data["repository"], landed.data["base_branch"]) == (world.repository.full_name, "main")
    assert landed.last_id == str(landed.data["id"])
    async with world.bot.engine.store.reading() as tx:
        assert landed.data["id"] in [
            event.id for event in await tx.timeline.of_pull_request(world.repository.record.id, pull.number)
        ]


async def test_reader_who_comes_back_misses_nothing(world: World, mona: Caller) -> None:
    """With the id of the last event the stream continues after that event."""
    pull = await queued(world, "one")
    repository = pull.record.repository.id
    async with reading(world, mona.token) as stream:
        await record(world, repository, "main", "first")
        assert await stream.named(1) == ["first"]
        last_id = stream.last_id
    for name in ("second", "third"):
        await record(world, repository, "main", name)
    async with reading(world, mona.token, last_id=last_id) as stream:
        await record(world, repository, "main", "fourth")
        assert await stream.named(3) == ["second", "third", "fourth"]
    async with reading(world, mona.token, f"/api/v1/events?after={last_id}") as stream:
        assert await stream.named(3) == ["second", "third", "fourth"]
    async with reading(world, mona.token, last_id="9" * 5000) as stream:
        await record(world, repository, "main", "fifth")
        assert await stream.named(1) == ["fifth"], "an id that IMQ did not give counts as none"


async def test_events_of_a_private_repository_do_not_reach_others(
    world: World, mona: Caller, session: aiohttp.ClientSession
) -> None:
    """A person without access gets 404 for the repository, and a stream of all without its events."""
    await queued(world, "one")
    world.repository.record.private = True
    repository = world.repository.record.id
    world.github.create_user("eve")
    eve = await caller(world, session, "eve")
    hidden = await eve.send("GET", f"/api/v1/events?repository={world.repository.full_name}")
    unknown = await eve.send("GET", "/api/v1/events?repository=acme/nothing")
    assert hidden == unknown
    assert hidden[0] == 404
    async with reading(world, eve.token) as stream, reading(world, mona.token) as known:
        await record(world, repository, "main", "secret")
        assert await known.named(1) == ["secret"]
        await rest()
        world.bot.end()
        while (message := await stream.read()) is not None:
            assert message.kind == "mark"


async def test_stream_has_only_the_chosen_branch_and_pull_request(world: World, mona: Caller) -> None:
    """An event of the whole queue concerns each pull request in it."""
    pull = await queued(world, "one")
    repository = pull.record.repository.id
    path = f"/api/v1/events?repository={world.repository.full_name}&branch=main&number=7"
    async with reading(world, mona.token, path) as stream:
        for branch, name, number in (
            ("main", "of 8", 8),
            ("dev", "of dev", 7),
            ("main", "of 7", 7),
            ("main", "all", 0),
        ):
            await record(world, repository, branch, name, number)
        assert await stream.named(2) == ["of 7", "all"]


@pytest.mark.thorough
async def test_person_who_loses_the_right_loses_the_stream(world: World, mona: Caller) -> None:
    """Within minutes IMQ asks GitHub again; the stream says why it ends."""
    await queued(world, "one")
    async with reading(world, mona.token, f"/api/v1/events?repository={world.repository.full_name}") as stream:
        world.repository.record.private = True
        del world.repository.record.collaborators["mona"]
        assert "no such repository" in (await until_sent(world, stream)).data
        assert await stream.read() is None


async def test_stream_has_a_watched_request_while_its_reader_may_see_it(world: World, mona: Caller) -> None:
    """A person whose right ended learns no more how far the requests of a repository are."""
    await queued(world, "one")
    engine = world.bot.engine
    async with engine.change() as change:
        repository = (await change.tx.queues.all())[0].repository
        later = change.now + timedelta(days=1)
        jobs = [
            await change.tx.jobs.enqueue(kind="k", request={}, process_id=each, now=change.now, not_before=later)
            for each in ("first", "second")
        ]
        asked = RequestKind.LABEL, LABEL, "mona", change.now
        await change.tx.requests.add([RequestRecord(each, repository, 5, *asked) for each in jobs])
    ids = [opaque_ids(world).seal(each) for each in jobs]

    async def finish(job: str) -> None:
        async with engine.change() as change:
            await change.tx.jobs.delete([job])
        await rest()
        await world.pass_time(CHECK_INTERVAL)

    async with reading(world, mona.token, f"/api/v1/events?requests={','.join(ids)}") as stream:
        await finish(jobs[0])
        done = (await stream.next("request")).data
        assert (done["id"], done["status"]) == (ids[0], "done")
        world.repository.record.private = True
        del world.repository.record.collaborators["mona"]
        for _ in range(7):
            # A check of rights ends with a mark if something happened since the last one.
            await record(world, repository.id, "main", "updating")
            await until_sent(world, stream, "mark")
        await finish(jobs[1])
        await rest()
        world.bot.end()
        kinds = []
        while (message := await stream.read()) is not None:
            kinds.append(message.kind)
        assert "request" not in kinds


@pytest.mark.thorough
async def test_revoked_token_ends_the_stream(world: World, mona: Caller) -> None:
    """Within a minute."""
    async with reading(world, mona.token) as stream:
        async with world.bot.engine.change() as change:
            assert await change.tx.tokens.revoke("for mona")
        assert "revoked" in (await until_sent(world, stream)).data


@pytest.mark.thorough
async def test_person_opens_so_many_streams_and_no_more(world: World, mona: Caller) -> None:
    """The refusal says how to go on; a closed stream makes room."""
    async with AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(reading(world, mona.token)) for _ in range(12)]
        refused = await mona.ask("GET", "/api/v1/events")
        assert (refused.status, refused.headers["Retry-After"]) == (429, "30")
        assert "poll" in refused.body["error"]
        assert len(streams) == 12


async def test_person_with_most_streams_gives_one_to_a_person_without(
    tmp_path: Path, session: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One person cannot use up the streams of all: the oldest of theirs ends, and the page polls."""
    monkeypatch.setattr("bot.process.pages.StreamLimits", lambda **_: StreamLimits(streams=3, of_person=3))
    async with a_world(tmp_path) as world, AsyncExitStack() as stack:
        mona, hubot = await caller(world, session), await caller(world, session, "hubot")
        first, *others = [await stack.enter_async_context(reading(world, mona.token)) for _ in range(3)]
        theirs = await stack.enter_async_context(reading(world, hubot.token))
        while await first.read() is not None:
            pass
        assert (await mona.ask("GET", "/api/v1/events")).status == 503
        await queued(world, "change")
        for each in (*others, theirs):
            assert (await each.next()).data["event"] == "queued"


async def test_streams_of_one_address_leave_others_theirs(
    tmp_path: Path, session: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Persons who are not logged in count by their address, where public pages are open."""
    monkeypatch.setattr("bot.process.pages.StreamLimits", lambda **_: StreamLimits(streams=9, of_person=1))
    async with a_world(tmp_path, settings={**SETTINGS, "IMQ_PUBLIC_PAGES": "1"}) as world:
        world.repository.set_private(False, by="acme")
        await world.settle()
        path = "/events?repository=acme/widgets"
        async with reading(world, None, path, address="203.0.113.9"):
            refused = await Caller(world, session, None, "203.0.113.9").ask("GET", path)
            assert refused.status == 429
            async with reading(world, None, path, address="203.0.113.10"):
                pass


@pytest.mark.thorough
async def test_streams_end_when_the_process_ends(world: World, mona: Caller) -> None:
    """So that they do not hold up its end."""
    async with reading(world, mona.token) as stream:
        world.bot.end()
        while await stream.read() is not None:
            pass


@pytest.mark.parametrize("lost", [False, True])
async def test_client_who_leaves_before_the_stream_begins_is_no_error(
    world: World, mona: Caller, monkeypatch: pytest.MonkeyPatch, lost: bool
) -> None:
    """A page that is closed while IMQ reads the database is nothing that the operator has to report."""

    async def left(request: web.Request, *, store: Any, clock: Any) -> Token:
        found = await identify(request, store, clock)
        assert isinstance(request.protocol, ClientConnection)
        assert isinstance(request.transport, asyncio.WriteTransport)
        request.transport.abort()
        if lost:
            await request.protocol.lost.wait()
        return found

    monkeypatch.setattr(streams, "identify", left)
    with capture_logs() as logs:
        with pytest.raises(aiohttp.ServerDisconnectedError):
            await mona.ask("GET", "/api/v1/events")
        await rest()
    assert ("stream_lost", "info") in [(line["event"], line["log_level"]) for line in logs]
    assert not [line for line in logs if line["log_level"] == "error"]


async def test_pages_and_programs_share_the_stream_and_strangers_get_none(world: World, mona: Caller) -> None:
    """`/events` takes a session or a token; without either there is no stream, and no redirect to the login."""
    async with reading(world, mona.token, "/events") as stream:
        await record(world, (await queued(world, "one")).record.repository.id, "main", "shown")
        while (await stream.next()).data["event"] != "shown":
            pass
    stranger = Caller(world, mona.session, None)
    assert (await stranger.ask("GET", "/events")).status == 401
    for query in (
        "number=0",
        "after=-1",
        "repository=x",
        "unknown=1",
        "requests=" + ",".join("0" * 32 for _ in range(2)) + "!",
        "requests=" + ",".join(map(str, range(MAX_REQUESTS + 1))),
    ):
        assert (await mona.ask("GET", f"/api/v1/events?{query}")).status == 400


@pytest.mark.thorough
async def test_hour_of_streams_leaves_nothing_behind(world: World, mona: Caller) -> None:
    """Sixty checks of rights and as many reconnections: no task, file or database connection is left."""
    pull = await queued(world, "one")
    await world.pass_time(CI_TIME * 3)

    def open_files() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    async with reading(world, mona.token) as kept:
        before: tuple[int, int] | None = None
        for minute in range(60):
            async with reading(world, mona.token) as stream:
                await record(world, pull.record.repository.id, "main", f"minute {minute}")
                await stream.next()
            await rest()
            await world.pass_time(MINUTE)
            if minute == 9:
                gc.collect()
                before = len(asyncio.all_tasks()), open_files()
        gc.collect()
        await rest()
        assert before is not None
        assert len(asyncio.all_tasks()) <= before[0] + 2
        assert open_files() <= before[1] + 2
        assert await kept.named(60) == [f"minute {minute}" for minute in range(60)]
    for _ in range(20):
        await rest()
    assert world.bot.feed.readers <= 1
