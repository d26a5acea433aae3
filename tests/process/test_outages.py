"""The whole bot, in a process of its own, while its database breaks and recovers: no person is needed."""

import asyncio
import hashlib
import hmac
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp
import psycopg
import pytest

from queue_engine.core.database.database import Database
from queue_engine.core.database.outage import OutageKind
from queue_engine.migrations import migrate
from tests.acceptance.template import ROOT, Template
from tests.acceptance.world import LABEL
from tests.process.processes import Theatre, a_theatre
from tests.support.private_postgres import PrivatePostgres
from tests.support.real_time import LIMIT

pytestmark = pytest.mark.process


def logged(theatre: Theatre) -> list[dict[str, Any]]:
    """What the bot has logged so far."""
    lines = theatre.log.read_text().splitlines() if theatre.log.exists() else []
    return [json.loads(line) for line in lines if line.startswith("{")]


async def ready(theatre: Theatre) -> tuple[int, dict[str, Any]]:
    """What the bot says of its readiness."""
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{theatre.port}/readyz") as answer:
        return answer.status, await answer.json()


async def readiness_of(theatre: Theatre, status: int) -> dict[str, Any]:
    """What the bot says once it answers so: it looks once a second."""
    async with asyncio.timeout(LIMIT):
        while True:
            answered, body = await ready(theatre)
            if answered == status:
                return body
            await asyncio.sleep(0.05)  # no-sleep-ok: real processes live in real time


async def deliver(theatre: Theatre, delivery: str) -> tuple[int, dict[str, Any]]:
    """Send the bot a delivery about a pull request that is not queued, as GitHub would."""
    payload = {
        "installation": {"id": 9},
        "action": "closed",
        "repository": {"id": 5, "full_name": "ada/" + "e" * 90},
        "pull_request": {
            "number": 3,
            "head": {"sha": "a" * 40},
            "base": {"ref": "main"},
            "state": "open",
            "updated_at": "2026-01-02T03:04:05Z",
        },
    }
    body = json.dumps(payload).encode()
    headers = {
        "X-GitHub-Event": "pull_request",
        "X-GitHub-Delivery": delivery,
        "X-Hub-Signature-256": "sha256=" + hmac.new(b"s3cret-0123456789abcdef", body, hashlib.sha256).hexdigest(),
        "Content-Type": "application/json",
    }
    url = f"http://127.0.0.1:{theatre.port}/webhook"
    async with aiohttp.ClientSession() as session, session.post(url, data=body, headers=headers) as answer:
        return answer.status, await answer.json()


@pytest.mark.postgres
async def test_postgres_restarted_under_a_bot_lands_what_was_labeled_meanwhile(
    private_postgres: PrivatePostgres, tmp_path: Path
) -> None:
    """While it is away deliveries are answered 503; when it is back they are looked for at once, and all land."""
    database = Database(private_postgres.url)
    await migrate(database)
    await database.close()
    async with a_theatre(private_postgres.url, tmp_path) as theatre:
        theatre.template = Template()
        before, during = (
            theatre.repository.open_pull_request(f"Add {n}", head=f"add-{n}", by="mona", files={f"{n}.py": f"{n}\n"})
            for n in ("before", "during")
        )
        theatre.environment["IMQ_SWEEP_SECONDS"] = "120"
        await theatre.start()
        before.label(LABEL, by="mona")
        await theatre.until(lambda: LABEL in before.labels and any(before.comments))
        await asyncio.to_thread(private_postgres.stop)
        during.label(LABEL, by="mona")
        await theatre.until(lambda: _refused(theatre, during) and bool(_lines_of(theatre, OutageKind.UNREACHABLE)))
        answer = await readiness_of(theatre, 503)
        assert answer["why"] == {
            "database": OutageKind.UNREACHABLE.sentence,
            "migrations": OutageKind.UNREACHABLE.sentence,
        }
        await asyncio.to_thread(private_postgres.start)
        await theatre.until(lambda: before.merged and during.merged)
        # One line for the outage, and one for its end; more if it took longer than a minute.
        lines = _lines_of(theatre, OutageKind.UNREACHABLE)
        assert {line["level"] for line in lines} == {"warning", "info"}
        assert len(_warnings_of(theatre, OutageKind.UNREACHABLE)) <= 4, lines
        assert not theatre.deaths
        assert not any("Traceback" in str(line) for line in logged(theatre) if line.get("fault"))
        assert [line for line in logged(theatre) if line["level"] in {"error", "critical"}] == []


def _lines_of(theatre: Theatre, fault: OutageKind) -> list[dict[str, Any]]:
    return [line for line in logged(theatre) if line.get("fault") == fault]


def _warnings_of(theatre: Theatre, fault: OutageKind) -> list[dict[str, Any]]:
    """The lines that tell of the outage. Lines of a loop that recovered may stand beside them, whatever else fails."""
    return [line for line in _lines_of(theatre, fault) if line["level"] != "info"]


def _refused(theatre: Theatre, pull: Any) -> bool:
    """Whether the bot could not store a delivery about this pull request."""
    return any(
        each.status_code == 503 and json.loads(each.payload).get("pull_request", {}).get("number") == pull.number
        for each in theatre.github.state.deliveries
    )


@pytest.mark.thorough
@pytest.mark.postgres
async def test_bot_started_before_its_postgres_waits_for_it(private_postgres: PrivatePostgres, tmp_path: Path) -> None:
    """After a power cut both come up in any order."""
    database = Database(private_postgres.url)
    await migrate(database)
    await database.close()
    await asyncio.to_thread(private_postgres.stop)
    async with a_theatre(private_postgres.url, tmp_path) as theatre:
        theatre.template = Template()
        starting = asyncio.create_task(theatre.start())
        await theatre.until(lambda: bool(_lines_of(theatre, OutageKind.UNREACHABLE)))
        await asyncio.to_thread(private_postgres.start)
        async with asyncio.timeout(LIMIT):
            await starting
        assert await readiness_of(theatre, 200) == {"status": "ready"}


_TRIGGERS = """
DO $$ DECLARE each text; BEGIN
  FOR each IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' LOOP
    EXECUTE format('CREATE TRIGGER room BEFORE INSERT OR UPDATE ON %I EXECUTE FUNCTION need_room()', each);
  END LOOP;
END $$;
CREATE TABLE ballast (size int);
CREATE FUNCTION need_pages() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM fail_if_full(); END $$;
CREATE EVENT TRIGGER room ON ddl_command_end WHEN TAG IN ('CREATE TABLE AS') EXECUTE FUNCTION need_pages();
"""
_FUNCTIONS = """
CREATE FUNCTION fail_if_full() RETURNS void LANGUAGE plpgsql AS $$ BEGIN
  IF EXISTS (SELECT FROM ballast) THEN
    RAISE EXCEPTION 'could not extend file "base/16384/16402": No space left on device' USING ERRCODE = '53100';
  END IF;
END $$;
CREATE FUNCTION need_room() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  PERFORM fail_if_full();
  RETURN NULL;
END $$;
"""
"""Beside ballast each statement that needs room fails as `mdextend` reports a full disk; reads and deletes work."""


def execute(postgres: PrivatePostgres, statements: str) -> None:
    """Execute them in one transaction."""
    with psycopg.connect(postgres.url) as connection:
        connection.execute(statements)


@pytest.mark.postgres
async def test_postgres_on_a_full_disk_refuses_clearly_and_lands_everything_when_there_is_room(
    private_postgres: PrivatePostgres, tmp_path: Path
) -> None:
    """Deliveries are answered 503, and none is lost; one line, no traceback, no death, and no pull request leaves."""
    database = Database(private_postgres.url)
    await migrate(database)
    await database.close()
    execute(private_postgres, _FUNCTIONS + _TRIGGERS)
    async with a_theatre(private_postgres.url, tmp_path) as theatre:
        theatre.template = Template()
        before, during = (
            theatre.repository.open_pull_request(f"Add {n}", head=f"add-{n}", by="mona", files={f"{n}.py": f"{n}\n"})
            for n in ("before", "during")
        )
        await theatre.start()
        before.label(LABEL, by="mona")
        await theatre.until(lambda: any(before.comments))
        execute(private_postgres, "INSERT INTO ballast VALUES (1)")
        status, answer = await deliver(theatre, str(uuid4()))
        assert (status, answer["error"]) == (503, f"the delivery could not be stored; redeliver it. {_FULL}")
        during.label(LABEL, by="mona")
        await theatre.until(lambda: _refused(theatre, during) and bool(_lines_of(theatre, OutageKind.FULL)))
        assert (await readiness_of(theatre, 503))["why"] == {"database": _FULL}
        execute(private_postgres, "DELETE FROM ballast")
        await theatre.until(lambda: before.merged and during.merged)
        assert await readiness_of(theatre, 200) == {"status": "ready"}
        assert len(_warnings_of(theatre, OutageKind.FULL)) <= 4
        assert not any("Traceback" in str(line) for line in logged(theatre))
        assert not theatre.deaths


_ROOM = 12 * 1024 * 1024


@dataclass(frozen=True)
class SmallDisk:
    """A file system of a few megabytes at `/mnt`, seen by those who enter the namespace of process `pid`."""

    pid: int

    @property
    def enter(self) -> tuple[str, ...]:
        """What a command is begun with to see it."""
        user = () if os.geteuid() == 0 else ("--user", "--preserve-credentials")
        return ("nsenter", f"--target={self.pid}", *user, "--mount")

    @property
    def path(self) -> Path:
        """Where this process sees it."""
        return Path("/proc", str(self.pid), "root", "mnt")

    def fill(self) -> None:
        """Leave not a block free."""
        with suppress(OSError), (self.path / "ballast").open("ab", buffering=0) as ballast:
            while True:
                ballast.write(b"0" * 4096)

    def free(self) -> None:
        """What an operator does."""
        (self.path / "ballast").unlink()


@pytest.fixture
def small_disk() -> Iterator[SmallDisk]:
    """One that ends with the test; skipped where mounting is not allowed."""
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    script = f"mount -t tmpfs -o size={_ROOM} none /mnt && echo mounted && exec cat"
    command = ("unshare", *user, "--mount", "sh", "-c", script)
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stderr is not None
        if holder.stdout.readline() != "mounted\n":
            pytest.skip(f"no file system can be mounted here: {holder.stderr.read().strip()}")
        yield SmallDisk(holder.pid)


async def test_sqlite_on_a_full_disk_refuses_clearly_and_goes_on_when_there_is_room(
    small_disk: SmallDisk, tmp_path: Path
) -> None:
    """Deliveries are answered 503, the log and readyz say that the disk is full; nothing is lost or half-written."""
    async with a_theatre("sqlite:////mnt/imq.db", tmp_path) as theatre:
        theatre.python = (*small_disk.enter, "env", f"--chdir={ROOT}", sys.executable)
        before, during = (
            theatre.repository.open_pull_request(f"Add {n}", head=f"add-{n}", by="mona", files={f"{n}.py": f"{n}\n"})
            for n in ("before", "during")
        )
        await theatre.start()
        before.label(LABEL, by="mona")
        await theatre.until(lambda: before.merged)
        small_disk.fill()
        stored, status, answer = list[str](), 202, dict[str, Any]()
        while status == 202 and len(stored) < 5000:
            stored.append(str(uuid4()))
            status, answer = await deliver(theatre, stored[-1])
        refused = stored.pop()
        assert (status, answer["error"]) == (503, f"the delivery could not be stored; redeliver it. {_FULL}")
        during.label(LABEL, by="mona")
        await theatre.until(lambda: _refused(theatre, during))
        assert await readiness_of(theatre, 503) == {
            "status": "not ready",
            "failing": ["database"],
            "why": {"database": _FULL},
        }
        lines = _warnings_of(theatre, OutageKind.FULL)
        assert {line["advice"] for line in lines} == {_FULL}
        assert len(lines) <= 4, lines
        small_disk.free()
        await theatre.until(lambda: during.merged)
        assert await readiness_of(theatre, 200) == {"status": "ready"}
        assert (await deliver(theatre, refused))[1] == {"result": "stored"}
        assert not theatre.deaths
        assert await theatre.stop() == 0
        # A copy, because SQLite follows names by itself, and to another namespace none leads.
        shutil.copytree(small_disk.path, tmp_path / "disk")
        _is_whole(tmp_path / "disk", {*stored, refused})


_FULL = OutageKind.FULL.sentence


def _is_whole(directory: Path, deliveries: set[str]) -> None:
    """The file is sound, and holds every delivery that was accepted."""
    with closing(sqlite3.connect(directory / "imq.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        keys = {key for (key,) in connection.execute("SELECT key FROM idempotency_keys")}
    assert deliveries <= keys
