"""Old and new processes share a database during an upgrade, and pull requests continue to land."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from queue_engine.core.database.database import Database
from queue_engine.migrations import MigrationState, current, migrate, migration_state
from tests.acceptance.template import Forked, Template
from tests.acceptance.world import LABEL
from tests.process.next_release import NEXT
from tests.process.processes import Theatre, a_theatre
from tests.support.databases import PostgresServer
from tests.support.real_time import LIMIT

pytestmark = [pytest.mark.process, pytest.mark.postgres]

OLD, NEW = "bot", "tests.process.next_release"


async def start(theatre: Theatre, module: str, command: str) -> Forked:
    """A process of one release; its output goes to the log."""
    assert theatre.template is not None
    return await theatre.template.fork_module(module, (command,), theatre.environment, theatre.log)


async def ready(theatre: Theatre, process: Forked) -> None:
    async with asyncio.timeout(LIMIT), aiohttp.ClientSession() as session:
        while True:
            assert process.returncode is None, theatre.log.read_text()[-3000:]
            try:
                async with session.get(f"http://127.0.0.1:{theatre.port}/readyz") as answer:
                    if answer.status == 200:
                        return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.02)  # no-sleep-ok: a real process starts in real time


async def ended(process: Forked) -> int:
    process.send_signal(signal.SIGTERM)
    async with asyncio.timeout(LIMIT):
        return await process.wait()


@pytest.mark.thorough
async def test_upgrade_with_old_and_new_processes_side_by_side_lands_everything_once(
    postgres_server: PostgresServer, tmp_path: Path
) -> None:
    """P2, P3, P6: label to merge continues while `imq migrate` of the next release runs, with processes of both
    releases side by side, and with those of the next one alone."""
    name = postgres_server.create()
    database = Database(postgres_server.url(name))
    await migrate(database)
    running: list[Forked] = []
    try:
        async with a_theatre(postgres_server.url(name), tmp_path) as theatre:
            theatre.template = Template()
            pulls = [opened(theatre, f"pull-{number}") for number in range(5)]
            old_web, old_worker = [await start(theatre, OLD, command) for command in ("web", "worker")]
            running += [old_web, old_worker]
            await ready(theatre, old_web)
            for pull in pulls[:3]:
                pull.label(LABEL, by="rhea")
            await theatre.until(lambda: pulls[0].merged)
            migration = await start(theatre, NEW, "migrate")
            running.append(migration)
            await theatre.until(lambda: migration.returncode is not None and pulls[1].merged)
            assert (migration.returncode, await current(database)) == (0, NEXT), theatre.log.read_text()[-3000:]
            assert await migration_state(database) is MigrationState.USABLE
            await ready(theatre, old_web)
            new_worker = await start(theatre, NEW, "worker")
            running.append(new_worker)
            assert await ended(old_web) == 0
            new_web = await start(theatre, NEW, "web")
            running.append(new_web)
            await ready(theatre, new_web)
            pulls[3].label(LABEL, by="rhea")
            await theatre.until(lambda: pulls[3].merged)
            assert await ended(old_worker) == 0
            pulls[4].label(LABEL, by="rhea")
            await theatre.until(lambda: all(pull.merged for pull in pulls))
            await theatre.until(lambda: all(len(comments(pull)) == 1 for pull in pulls))
            for process in (new_web, new_worker):
                await ended(process)
            assert merged(theatre) == [pull.number for pull in pulls]
            assert '"level": "error"' not in theatre.log.read_text()
    finally:
        for process in running:
            if process.returncode is None:
                os.kill(process.pid, signal.SIGKILL)
        await database.close()
        postgres_server.drop(name)


def opened(theatre: Theatre, name: str) -> Any:
    return theatre.repository.open_pull_request(name, head=name, by="mona", files={f"{name}.py": "1\n"})


def merged(theatre: Theatre) -> list[int]:
    """The pull requests that IMQ merged, in order, each as often as it merged it."""
    calls = [call for call in theatre.server.requests if call.template.endswith("/merge") and call.status == 200]
    return [int(call.path.split("/")[-2]) for call in calls]


def comments(pull: Any) -> list[str]:
    return [comment.body for comment in pull.comments if "<!-- imq:comment" in comment.body]
