"""What `/queue/status` shows, and to whom."""

import re
from datetime import timedelta
from pathlib import Path
from unittest.mock import AsyncMock

import aiohttp
import pytest

from queue_engine.admission import enqueue
from queue_engine.domain.errors import Busy, RateLimitError, ReadLagError, StaleRead, Unavailable
from queue_engine.domain.model import Pause
from queue_engine.domain.reasons import Reason
from tests.acceptance.callers import Caller, caller
from tests.acceptance.world import LABEL, World, a_world


@pytest.mark.thorough
async def test_status_shows_strangers_the_load_and_callers_their_queues(
    tmp_path: Path, session: aiohttp.ClientSession
) -> None:
    """Slots for anybody; queues, their sums and names with a token only."""
    async with a_world(tmp_path, settings={"IMQ_MAX_QUEUE_DEPTH": "2"}) as world:
        mona = await caller(world, session)
        anonymous = Caller(world, session, None)
        empty = (await anonymous.ask("GET", "/queue/status")).body
        assert (empty["rt_queue"], empty["be_queue"], empty["accepting"], empty["queues"]) == (0, 0, True, [])
        assert empty["max_queue_depth"] == 2
        assert empty["available_slots"] == empty["total_slots"] > 0
        for number in range(3):
            pull = world.open(f"add-{number}")
            await world.settle()
            pull.label(LABEL, by="mona")
            await world.pass_time(timedelta(seconds=1))
        reported = (await mona.ask("GET", "/queue/status")).body
        (queue,) = reported["queues"]
        assert (queue["repository"], queue["base_branch"]) == ("acme/widgets", "main")
        assert (queue["depth"], queue["held"], queue["accepting"], queue["blocker"]) == (2, 1, False, None)
        assert not reported["accepting"]
        assert (await anonymous.ask("GET", "/queue/status")).body == {**reported, "queues": [], "accepting": True}
        wrong = Caller(world, session, "imq_" + "x" * 43)
        assert (await wrong.ask("GET", "/queue/status")).status == 401


@pytest.mark.thorough
async def test_status_sums_the_slots_of_all_processes(world: World, session: aiohttp.ClientSession) -> None:
    """A worker has no port: its last report counts, unless that is minutes old."""
    anonymous = Caller(world, session, None)
    own = (await anonymous.ask("GET", "/queue/status")).body
    reported = {"rt_queue": 3, "be_queue": 2, "total_slots": 8, "available_slots": 1, "accepting": True}
    store, now = world.bot.engine.store, world.clock.now()
    async with store.transaction() as tx:
        await tx.processes.report("worker:1", now, reported, "")
        await tx.processes.report("worker:2", now - timedelta(minutes=3), reported, "")
        await tx.processes.report(world.bot.engine.owner, now, reported, "")
    world.clock.set(now + timedelta(seconds=1))
    both = (await anonymous.ask("GET", "/queue/status")).body
    names = ("rt_queue", "be_queue", "total_slots", "available_slots")
    assert [both[name] - own[name] for name in names] == [3, 2, 8, 1]
    assert both["accepting"]
    async with store.transaction() as tx:
        await tx.processes.report("worker:1", world.clock.now(), reported | {"accepting": False}, "")
    world.clock.set(now + timedelta(seconds=2))
    assert not (await anonymous.ask("GET", "/queue/status")).body["accepting"], "its slots are full, and its line is"


async def test_call_that_github_cannot_answer_now_says_why_and_when_to_try_again(
    world: World, session: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """IMQ's own full slots are 429, without a word of GitHub's limits; what GitHub does not do now is 503."""
    mona, pull = await caller(world, session), world.open("add")
    for error, status, seconds, words in (
        (Busy("full", retry_after=timedelta(seconds=40)), 429, "40", "pending calls to GitHub"),
        (ReadLagError("lags", retry_after=timedelta(seconds=3)), 503, "3", "still shows an older state"),
        (RateLimitError("limit", retry_after=timedelta(seconds=50)), 503, "50", "GitHub's rate limit"),
        (StaleRead("older"), 503, "2", "still shows an older state"),
        (Unavailable("502"), 503, "30", "GitHub is failing"),
    ):
        monkeypatch.setattr(enqueue, "enqueue", AsyncMock(side_effect=error))
        answer = await mona.queue(pull)
        assert (answer.status, answer.headers["Retry-After"]) == (status, seconds)
        assert words in answer.body["error"]


@pytest.mark.thorough
async def test_status_of_a_paused_queue_says_why(world: World, session: aiohttp.ClientSession) -> None:
    """A paused queue is listed although it is empty; one that is idle is not."""
    mona, store, now = await caller(world, session), world.bot.engine.store, world.clock.now()
    async with store.transaction() as tx:
        repository = await tx.repositories.named("acme", "widgets")
        assert repository is not None
        paused = await tx.queues.find_or_create(repository, "main", now)
        await tx.queues.find_or_create(repository, "next", now)
        await tx.pauses.put(paused.id, Pause(Reason.TREE_MISMATCH, "looked into", now))
    (reported,) = (await mona.ask("GET", "/queue/status")).body["queues"]
    assert re.fullmatch(r"[0-9a-f]{16}", reported["id"]), "numbers would tell how many queues are hidden"
    assert (reported["blocker"], reported["depth"], reported["accepting"]) == ("tree_mismatch", 0, True)
