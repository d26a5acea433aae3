"""Commands and calls are done once, even if a process dies before the reply, or a delivery comes twice."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from github_emulator import Fault, RecordedCall
from queue_engine.core.jobs.idempotency import Keys
from queue_engine.store.outbox.outbox import KEPT
from tests.acceptance.callers import Caller, caller, path_of
from tests.acceptance.test_given_while_held import answered, say
from tests.acceptance.test_held import held
from tests.acceptance.world import CI_TIME, LABEL, World, a_world

MERGE = "PUT /repos/{owner}/{repo}/pulls/{number}/merge"
REACTIONS = "/repos/{owner}/{repo}/issues/comments/{comment_id}/reactions"


async def test_unqueue_while_the_merge_is_under_way_ends_the_consent_before_the_label_is_removed(world: World) -> None:
    """P4: should the merge fail it is not tried again, however long GitHub refuses to remove the label."""
    pull = world.open("add")
    await world.pass_time(CI_TIME * 2)
    pull.label(LABEL, by="mona")
    world.server.faults.add(Fault(kind="fail", method="PUT", route=MERGE.split()[1], status=502))
    remove = "/repos/{owner}/{repo}/issues/{number}/labels/{name}"
    world.server.faults.add(Fault(kind="fail", method="DELETE", route=remove, status=502, times=None))

    async def call_off(exchange: RecordedCall) -> None:
        if (exchange.template, exchange.phase) == (MERGE, "before"):
            world.server.on_request = None
            pull.comment("/unqueue", by="mona")
            await world.github.schedule.run_due()
            await world.bot.worker.run_due()

    world.server.on_request = call_off
    await world.until_status(pull, None)
    await world.pass_time(timedelta(minutes=1))
    assert LABEL in pull.labels
    assert await answered(world, pull) == ["landing"]
    assert (pull.merged, world.requests(MERGE)) == (False, 1)


async def give_up(world: World) -> None:
    """The one job that waits for its next try becomes a dead letter."""
    async with world.bot.engine.change() as change:
        later = change.now + timedelta(hours=1)
        claimed = await change.tx.jobs.claim_some(9, owner="w", now=later, lease=world.bot.engine.lease)
        (job,) = [each for each in claimed if each.attempt > 1]
        await change.tx.dead_letters.add(job, "refused", change.now, attempts=9, retryable=True)


async def do_again(world: World) -> None:
    """Give the one dead letter there is back to the job store, as an operator does by its id."""
    async with world.bot.engine.store.transaction() as tx:
        (letter,) = await tx.dead_letters.list(limit=2)
        assert await tx.dead_letters.reprocess(letter.id, world.clock.now())


@pytest.mark.thorough
async def test_comment_that_is_revived_after_a_newer_one_was_answered_is_not_done_again(world: World) -> None:
    """What was answered stays answered: only what failed after it, the reaction, is done again."""
    pull = world.open("add")
    await world.pass_time(CI_TIME * 2)
    world.server.faults.add(Fault(kind="fail", method="POST", route=REACTIONS, status=410, skip=1, times=None))
    pull.comment("/pause for a moment", by="rhea")
    await world.pass_time(timedelta(minutes=1))
    world.server.faults.clear()
    await give_up(world)
    assert await world.paused() == "paused_by_hand"
    await say(world, pull, "/resume", by="rhea")
    await do_again(world)
    await world.settle()
    assert await world.paused() is None
    assert await answered(world, pull) == ["resumed"]


@pytest.mark.thorough
async def test_comment_that_is_revived_long_after_it_was_made_is_not_done(world: World) -> None:
    """Whether it was answered is forgotten by then, and its author wants something else."""
    pull = world.open("add")
    await world.settle()
    world.server.faults.add(Fault(kind="fail", method="POST", route=REACTIONS, status=410, times=None))
    pull.comment("/pause for a moment", by="rhea")
    await world.pass_time(timedelta(minutes=1))
    world.server.faults.clear()
    await give_up(world)
    world.clock.set(world.clock.now() + KEPT + timedelta(seconds=1))
    await do_again(world)
    await world.settle()
    assert await world.paused() is None


def dying(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next answer of a call is not stored: as if the process had died before."""
    finish, failures = Keys.finish, iter([OSError("killed")])

    async def fails_once(self: Keys, *given: Any, **more: Any) -> None:
        for failure in failures:
            raise failure
        await finish(self, *given, **more)

    monkeypatch.setattr(Keys, "finish", fails_once)


async def test_requeue_by_the_api_gives_the_place_up_once(
    world: World, mona: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P2: the same call again finds what it did."""
    front, pull, last = world.open("front"), world.open("add"), world.open("last")
    for each in (front, pull):
        await mona.queue(each)
    requeue = path_of(pull).replace("/queue", "/requeue")
    dying(monkeypatch)
    assert (await mona.ask("POST", requeue, key="k")).status >= 500
    await mona.queue(last)
    again = await mona.ask("POST", requeue, key="k")
    assert (again.status, again.body["position"]) == (202, 1)
    await world.settle()
    assert LABEL in pull.labels
    assert await world.reasons(pull) == ["unqueued"]
    assert (await mona.ask("POST", requeue, key="other")).body["position"] == 2


@pytest.mark.thorough
async def test_requeue_by_the_api_that_waits_for_a_place_says_so_again(
    tmp_path: Path, session: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It left its place to who waited longer: the same call again is no new one at a full queue."""
    async with a_world(tmp_path, settings={"IMQ_MAX_QUEUE_DEPTH": "1"}) as world:
        mona = await caller(world, session)
        pull, other = world.open("add"), world.open("other")
        await mona.queue(pull)
        other.label(LABEL, by="mona")
        await world.settle()
        requeue = path_of(pull).replace("/queue", "/requeue")
        dying(monkeypatch)
        assert (await mona.ask("POST", requeue, key="k")).status >= 500
        again = await mona.ask("POST", requeue, key="k")
        assert (again.status, again.body["status"]) == (202, "held")
        assert await world.reasons(pull) == ["unqueued", "queue_full"]
        await world.until(lambda: bool(pull.merged))


@pytest.mark.thorough
async def test_queueing_by_the_api_is_answered_as_new_although_its_answer_was_lost(
    world: World, mona: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller learns that it was this very call."""
    pull = world.open("add")
    dying(monkeypatch)
    assert (await mona.queue(pull, key="k")).status >= 500
    assert [entry.number for entry in await world.entries()] == [pull.number]
    assert (await mona.queue(pull, key="k")).status == 202
    assert (await mona.queue(pull, key="other")).status == 200


@pytest.mark.thorough
async def test_leaving_the_line_by_the_api_is_stored_with_its_answer(
    tmp_path: Path, session: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits on if the answer was not stored, and the same call again takes it out."""
    async with a_world(tmp_path, settings={"IMQ_MAX_QUEUE_DEPTH": "1"}) as world:
        mona = await caller(world, session)
        world.open("front").label(LABEL, by="mona")
        pull = world.open("outside")
        await world.settle()
        pull.label(LABEL, by="mona")
        await world.settle()
        dying(monkeypatch)
        assert (await mona.ask("DELETE", path_of(pull), key="k")).status >= 500
        assert await held(world) == [pull.number]
        left = await mona.ask("DELETE", path_of(pull), key="k")
        assert (left.status, left.body["left"]) == (200, True)
        assert await held(world) == []
        await world.until(lambda: LABEL not in pull.labels)
