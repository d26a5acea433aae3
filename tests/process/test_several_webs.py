"""Two web processes and a worker on PostgreSQL: what a program begins at one web process, it continues at the other."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp
import pytest

from queue_engine.core.database.database import Database
from queue_engine.migrations import migrate
from queue_engine.store import Store
from tests.acceptance.streams import Message, Reader, reading_at
from tests.acceptance.template import Forked, Template
from tests.acceptance.world import LABEL, REPOSITORY
from tests.process.processes import Theatre, a_theatre
from tests.process.test_kill_calls import CALL, token_of
from tests.process.test_rolling_upgrade import merged, opened, ready
from tests.support.databases import PostgresServer
from tests.support.ports import held_port
from tests.support.real_time import LIMIT

pytestmark = [pytest.mark.process, pytest.mark.postgres]

EVENTS = f"/api/v1/events?repository={REPOSITORY}"


@dataclass
class Web:
    """A web process, at an address that it has again after a restart."""

    theatre: Theatre
    running: list[Forked]

    async def start(self) -> None:
        self.running.append(await fork(self.theatre, "web"))
        await ready(self.theatre, self.running[-1])

    async def kill(self) -> None:
        """`kill -9`."""
        self.running[-1].send_signal(signal.SIGKILL)
        await self.running[-1].wait()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.theatre.port}{path}"


@dataclass
class Program:
    """A program with the token of a person."""

    token: str

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    async def queue_all(self, web: Web, pulls: list[Any]) -> str:
        """Queue these by one call at a web process; returns the id of the process."""
        body = {"pulls": [{"number": pull.number} for pull in pulls]}
        headers = self.headers | {"Idempotency-Key": str(uuid4())}
        async with (
            aiohttp.ClientSession() as session,
            session.post(web.url(CALL), json=body, headers=headers) as answer,
        ):
            assert answer.status == 202, await answer.text()
            return str((await answer.json())["process_id"])

    async def statuses(self, web: Web, process_id: str) -> list[int]:
        """Wait at a web process until all results have come."""
        path, found = f"/api/v1/processes/{process_id}?wait=20", None
        async with asyncio.timeout(LIMIT), aiohttp.ClientSession(headers=self.headers) as session:
            while found is None or found["state"] != "done":
                version = "" if found is None else found["version"]
                async with session.get(web.url(path), headers={"If-None-Match": f'"{version}"'}) as answer:
                    assert answer.status in {200, 304}, await answer.text()
                    found = await answer.json() if answer.status == 200 else found
        return [each["status"] for each in found["results"]]


async def fork(theatre: Theatre, command: str) -> Forked:
    assert theatre.template is not None
    return await theatre.template.fork_module("bot", (command,), theatre.environment, theatre.log)


@asynccontextmanager
async def two_webs(theatre: Theatre) -> AsyncIterator[tuple[Web, Web]]:
    """Two web processes and a worker; GitHub sends webhooks to the first one."""
    theatre.template = Template()
    # IMQ has GitHub send a lost delivery again six times: all must not come before a web process has started.
    theatre.environment["IMQ_SWEEP_SECONDS"] = "6"
    worker = await fork(theatre, "worker")
    first = Web(theatre, [])
    second = Web(replace(theatre, environment=theatre.environment.copy()), [])
    try:
        with held_port() as port:
            second.theatre.environment["PORT"] = str(port)
            for web in (first, second):
                await web.start()
            yield first, second
    finally:
        for process in (worker, *first.running, *second.running):
            if process.returncode is None:
                os.kill(process.pid, signal.SIGKILL)


async def until_queued(reader: Reader, pulls: list[Any]) -> list[Message]:
    """What the stream has until each of these is queued."""
    found: list[Message] = []
    missing = {pull.number for pull in pulls}
    async with asyncio.timeout(LIMIT):
        while missing:
            found.append(await reader.next())
            if found[-1].data["event"] == "queued":
                missing.discard(found[-1].data["number"])
    return found


async def until_cut(reader: Reader) -> list[Message]:
    """What the stream still has of the timeline until its connection breaks, or ends."""
    found: list[Message] = []
    with suppress(aiohttp.ClientError):
        while (message := await reader.read()) is not None:
            found += [message] if message.kind == "message" else []
    return found


async def until_landed(reader: Reader, pulls: list[Any], before: list[Message]) -> list[Message]:
    """What the stream has until each of these has landed, `before` included."""
    found: list[Message] = []
    async with asyncio.timeout(LIMIT):
        while {pull.number for pull in pulls} - {
            each.data["number"] for each in (*before, *found) if each.data["event"] == "landed"
        }:
            found.append(await reader.next())
    return found


async def assert_nothing_lost(database: Database, theatre: Theatre, pulls: list[Any], received: list[Message]) -> None:
    """The program got each event, and each pull request was queued once."""
    repository, ids = theatre.repository.record.id, {each.data["id"] for each in received}
    async with Store(database).reading() as tx:
        events = [each for pull in pulls for each in await tx.timeline.of_pull_request(repository, pull.number)]
    # The program no longer waits for what comes after the last landing.
    assert {each.id for each in events if each.id <= max(ids)} <= ids
    assert sorted(each.number for each in events if each.event == "queued") == sorted(pull.number for pull in pulls)


@pytest.mark.thorough
async def test_program_continues_at_another_web_process_and_a_killed_one_loses_nothing(
    postgres_server: PostgresServer, tmp_path: Path
) -> None:
    """P2: results, waits and event streams are those of the database, whichever web process is asked."""
    name = postgres_server.create()
    database = Database(postgres_server.url(name))
    await migrate(database)
    try:
        async with a_theatre(postgres_server.url(name), tmp_path) as theatre, two_webs(theatre) as (first, second):
            known, *pulls = [opened(theatre, each) for each in ("known", "one", "two", "three", "four")]
            # IMQ knows a repository since its first webhook.
            known.label(LABEL, by="mona")
            await theatre.until(lambda: known.merged)
            program = Program(await token_of(theatre, "mona"))

            async with reading_at(second.url(EVENTS), program.headers) as reader:
                begun = await program.queue_all(first, pulls[:2])
                assert await program.statuses(second, begun) == [202, 202]
                received = await until_queued(reader, pulls[:2])
                await second.kill()
                received += await until_cut(reader)
                last_id = reader.last_id

            begun = await program.queue_all(first, pulls[2:])
            await first.kill()
            await second.start()
            assert await program.statuses(second, begun) == [202, 202]
            async with reading_at(second.url(EVENTS), program.headers, last_id=last_id) as reader:
                await first.start()
                await theatre.until(lambda: all(pull.merged for pull in pulls))
                received += await until_landed(reader, pulls, received)
            await assert_nothing_lost(database, theatre, pulls, received)
            assert sorted(merged(theatre)) == sorted(pull.number for pull in (known, *pulls))
    finally:
        await database.close()
        postgres_server.drop(name)
