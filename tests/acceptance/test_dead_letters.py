"""Work that fails for good in the real bot is seen, done again and discarded by its API."""

from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp
import pytest

from github_emulator import Fault
from queue_engine.domain.webhooks import WEBHOOK_JOB
from queue_engine.store.tokens import TokenPolicy
from tests.acceptance.choosing import green
from tests.acceptance.commenting import answered, reacted, say
from tests.acceptance.test_throttle import a_stranger
from tests.acceptance.train_world import a_train_world, ready
from tests.acceptance.world import CI_TIME, World, a_world


async def call(world: World, method: str, path: str, token: str) -> tuple[int, Any]:
    """A call to the bot's own web server."""
    url = f"http://127.0.0.1:{world.runner.addresses[0][1]}/api/v1{path}"
    headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": str(uuid4())}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.request(method, url) as response,
    ):
        return response.status, await response.json() if await response.read() else None


@pytest.mark.thorough
async def test_job_that_cannot_be_read_is_a_dead_letter_until_somebody_decides(world: World) -> None:
    """Done again it fails again, with its id and trace; discarded it is gone."""
    async with world.bot.engine.change() as change:
        token = await change.tx.tokens.create("ops", TokenPolicy(login=None, operator=True), now=change.now)
        job_id = await change.tx.jobs.enqueue(kind=WEBHOOK_JOB, request={}, process_id="7:1", now=change.now)
    assert token is not None
    await world.settle()
    status, page = await call(world, "GET", "/dead-letters?retryable=false", token)
    (letter,) = page["dead_letters"]
    assert (status, letter["id"], letter["job_type"], page["count"]) == (200, job_id, WEBHOOK_JOB, 1)
    assert await call(world, "POST", f"/dead-letters/{job_id}/reprocess", token) == (202, {"reprocessed": 1})
    await world.settle()
    status, again = await call(world, "GET", f"/dead-letters/{job_id}", token)
    assert (status, again["trace"], again["payload"]) == (200, letter["trace"], {})
    assert await call(world, "DELETE", f"/dead-letters/{job_id}", token) == (204, None)
    assert (await call(world, "GET", f"/dead-letters/{job_id}", token))[0] == 404


async def reprocess_all(world: World) -> None:
    """An operator has every dead letter done again that may succeed."""
    async with world.bot.engine.change() as change:
        assert await change.tx.dead_letters.reprocess(None, change.now) > 0


async def test_try_that_fails_for_good_ends_its_words_and_a_retry_begins_it_again(tmp_path: Path) -> None:
    """P6: the comment says that IMQ gave up, and no branch is left; then the retry has the result."""
    async with a_train_world(tmp_path) as world:
        (pull,) = await ready(world, "pull")
        lost = Fault("fail", times=None, method="POST", route="/repos/{owner}/{repo}/merges")
        world.server.faults.add(lost)
        await say(world, pull, "/try", by="mona")
        assert "The result will stand here." in world.comment(pull)
        await world.until(lambda: "gave up" in world.comment(pull), within=timedelta(hours=6))
        assert "The result will stand here." not in world.comment(pull)
        await world.settle()
        assert [each for each in world.repository.record.git.branches() if each.startswith("imq")] == []
        world.server.faults.clear()
        await reprocess_all(world)
        await world.pass_time(CI_TIME * 3)
        assert "passed. It queued nothing." in world.comment(pull)
        assert world.spoken(pull) == 1


async def test_try_begins_at_once_though_what_an_earlier_one_left_cannot_be_deleted(tmp_path: Path) -> None:
    """P5: IMQ deletes the branches of the test that failed for good later, and refuses no other for that."""
    async with a_train_world(tmp_path) as world:
        (pull,) = await ready(world, "pull")
        lost = world.server.faults.add(Fault("fail", times=None, route="/repos/{owner}/{repo}/merges"))
        await say(world, pull, "/try", by="mona")
        await world.until(lambda: lost.hits == 8, within=timedelta(hours=2))
        world.server.faults.add(Fault("fail", times=None, method="POST", route="/graphql"))
        await world.until(lambda: "gave up" in world.comment(pull), within=timedelta(hours=2))
        await world.pass_time(timedelta(minutes=5))
        assert [each for each in world.repository.record.git.branches() if each.startswith("imq")] != []
        world.server.faults.clear()
        await say(world, pull, "/try", by="mona")
        await world.pass_time(CI_TIME * 3)
        assert "passed. It queued nothing." in world.comment(pull)


@pytest.mark.parametrize(("by", "is_answered"), [("rhea", True), ("hubot", True), ("eve", False)])
async def test_command_that_fails_for_good_is_answered_and_a_retry_executes_it(
    tmp_path: Path, by: str, is_answered: bool
) -> None:
    """P6: the reply says that IMQ gave up; then the retry has the effect, and its reply alone stands there.

    GitHub calls a private member of the organization a stranger; their permission counts.
    """
    async with a_world(tmp_path) as world:
        a_stranger(world)
        world.github.behaviour.private_members = by == "hubot"
        world.repository.record.owner.kind = "Organization"
        world.repository.record.collaborators["hubot"] = "maintain"
        pull = await green(world, "pull")
        world.server.faults.add(Fault("fail", times=None, method="POST", route="/graphql"))
        await say(world, pull, "/pause\n/why", by=by)
        await world.pass_time(timedelta(hours=6))
        world.server.faults.clear()
        assert ("gave up" in "".join(each.body for each in pull.comments)) is is_answered
        if not is_answered:
            return
        await reprocess_all(world)
        await world.pass_time(timedelta(minutes=2))
        assert await answered(world, pull) == ["paused", "why"]
        assert "gave up" not in world.comment(pull)


@pytest.mark.parametrize(("status", "together"), [(502, True), (502, False), (404, True)])
async def test_command_is_answered_once_though_its_failure_could_not_be_reported(
    tmp_path: Path, status: int, together: bool
) -> None:
    """P6: the reply of the retry stands alone, with its reaction. What GitHub hides is one dead letter, not two."""
    async with a_world(tmp_path) as world:
        pull = await green(world, "pull")
        world.server.faults.add(Fault("fail", times=None, method="POST", route="/graphql"))
        hidden = Fault("fail", times=None, status=status, method="GET", route="/repos/{owner}/{repo}/pulls/{number}")
        world.server.faults.add(hidden)
        comment = await say(world, pull, "/pause", by="rhea")
        await world.pass_time(timedelta(hours=6))
        async with world.bot.engine.store.reading() as tx:
            letters = await tx.dead_letters.list(9)
        assert [each.job_type for each in letters] == [*(["give_up"] if status == 502 else []), WEBHOOK_JOB]
        world.server.faults.clear()
        world.server.faults.add(Fault("fail", times=4, method="POST", route="/graphql"))
        async with world.bot.engine.change() as change:
            assert await change.tx.dead_letters.reprocess(None if together else letters[-1].id, change.now) > 0
        await world.pass_time(timedelta(seconds=30))
        assert (world.spoken(pull), reacted(comment)) == (0, {"eyes"}), "IMQ tries it again"
        await world.pass_time(timedelta(minutes=5))
        if not together:
            await reprocess_all(world)
            await world.settle()
        assert (await answered(world, pull), reacted(comment)) == (["paused"], {"eyes", "+1"})


async def test_api_of_the_bot_refuses_calls_without_a_token(world: World) -> None:
    """Also under addresses that do not exist."""
    for path in ("/dead-letters", "/nowhere"):
        assert (await call(world, "GET", path, "imq_guess"))[0] == 401
