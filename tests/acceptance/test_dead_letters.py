"""Work that fails for good in the real bot is seen, done again and discarded by its API."""

from typing import Any
from uuid import uuid4

import aiohttp
import pytest

from queue_engine.domain.webhooks import WEBHOOK_JOB
from queue_engine.store.tokens import TokenPolicy
from tests.acceptance.world import World


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


async def test_api_of_the_bot_refuses_calls_without_a_token(world: World) -> None:
    """Also under addresses that do not exist."""
    for path in ("/dead-letters", "/nowhere"):
        assert (await call(world, "GET", path, "imq_guess"))[0] == 401
