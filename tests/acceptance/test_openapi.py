"""The API does what its OpenAPI document says: schemathesis reads the one and calls the other, over HTTP."""

import asyncio
import json
import sys
from datetime import timedelta
from pathlib import Path

import aiohttp
import pytest

from queue_engine.domain.webhooks import WEBHOOK_JOB
from queue_engine.store.tokens import TokenPolicy
from tests.acceptance.world import LABEL, World

_SEED = "20261122"
_EXAMPLES = "12"


@pytest.mark.thorough
@pytest.mark.process
async def test_api_answers_every_call_as_its_document_says(world: World, tmp_path: Path) -> None:
    """Valid, invalid and strange calls of every route get an answer that the document knows, and never a 500."""
    for name in ("one", "two"):
        world.open(name).label(LABEL, by="mona")
    await world.settle()
    async with world.bot.engine.change() as change:
        token = await change.tx.tokens.create("tester", TokenPolicy(login="rhea", operator=True), now=change.now)
        dead = await change.tx.jobs.enqueue(kind=WEBHOOK_JOB, request={}, process_id="7:42", now=change.now)
    await world.settle()
    (tmp_path / "schemathesis.toml").write_text(_CONFIG.format(id=dead))
    port = world.runner.addresses[0][1]
    passing = asyncio.create_task(_time_passes(world))
    out, code = await _tested(f"http://127.0.0.1:{port}/api/v1/openapi.json", str(token), tmp_path)
    passing.cancel()
    assert code == 0, f"seed {_SEED}\n{out}"


async def _time_passes(world: World) -> None:
    """Let calls that wait come to their end."""
    while True:
        await asyncio.sleep(0.1)  # no-sleep-ok: schemathesis lives in real time
        world.clock.set(world.clock.now() + timedelta(minutes=1))


_CONFIG = """
[parameters]
"path.owner" = "acme"
"path.repo" = "widgets"
"path.number" = "1"
"path.branch" = "main"
"path.id" = "{id}"
"""
"""Where something stands, so that calls get further than to the first 404."""


async def _tested(url: str, token: str, directory: Path) -> tuple[str, int | None]:
    """What schemathesis says of the document at this address, and its exit code."""
    tester = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "schemathesis.cli",
        "run",
        url,
        *("--header", f"Authorization: Bearer {token}"),
        *("--max-examples", _EXAMPLES, "--seed", _SEED, "--generation-deterministic"),
        *("--phases", "coverage,fuzzing"),
        # A stream has no end, and its first event is no event of a queue; tests of streams read it.
        *("--exclude-path", "/api/v1/events"),
        *("--suppress-health-check", "all", "--no-color"),
        cwd=directory,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await tester.communicate()
    return out.decode(), tester.returncode


async def test_document_is_open_to_everybody_and_complete(world: World) -> None:
    """Who wants to write a client needs no token to read what there is."""
    port = world.runner.addresses[0][1]
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/api/v1/openapi.json") as got:
        assert got.status == 200
        document = json.loads(await got.text())
    assert document["openapi"] == "3.1.0"
    assert {"/api/v1/dead-letters", "/api/v1/repositories/{owner}/{repo}/pulls/{number}/queue"} <= set(
        document["paths"]
    )
