"""Processes that cannot start, and one that is stopped or killed while it starts."""

import asyncio
import os
import re
import signal
import socket
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import pytest

from github_emulator import Fault
from tests.acceptance.template import Template, _Connection
from tests.process.processes import Theatre, a_theatre
from tests.process.test_outages import logged, readiness_of
from tests.support.ports import held_port
from tests.support.real_time import LIMIT

pytestmark = pytest.mark.process


async def refused(theatre: Theatre, command: str = "run", **settings: str) -> str:
    """What a process says that cannot start: a single line."""
    assert theatre.template is not None
    log = theatre.log.with_name("refused.log")
    log.unlink(missing_ok=True)
    process = await theatre.template.fork(theatre.environment | {"PORT": "0"} | settings, log, command)
    async with asyncio.timeout(LIMIT):
        code = await process.wait()
    lines = [line for line in log.read_text().splitlines() if not line.startswith('{"event"')]
    assert code == 2, lines
    assert len(lines) == 1, lines
    return lines[0]


async def test_process_that_cannot_start_says_the_way_out_in_one_sentence(tmp_path: Path) -> None:
    """Each as an operator meets it; the first process continues."""
    async with a_theatre(f"sqlite:///{tmp_path / 'imq.db'}", tmp_path) as theatre:
        theatre.template = Template()
        await theatre.start()
        assert theatre.process is not None
        for command in ("run", "web"):
            message = await refused(theatre, command)
            assert f"in use by `imq run`, process {theatre.process.pid}" in message
            assert "PostgreSQL" in message
        elsewhere = f"sqlite:///{tmp_path / 'other.db'}"
        message = await refused(theatre, DATABASE_URL=elsewhere, PORT=str(theatre.port))
        assert "Set PORT to a free port" in message
        assert "does not exist: create it" in await refused(theatre, DATABASE_URL=f"sqlite:///{tmp_path}/none/imq.db")
        assert await theatre.stop() == 0
        with closing(sqlite3.connect(tmp_path / "imq.db")) as database:
            database.execute("UPDATE alembic_version SET version_num = '9999'")
            database.execute("UPDATE schema_compatibility SET oldest = '9998'")
            database.commit()
        message = await refused(theatre)
        assert "A newer version of IMQ migrated the database to revision 9999" in message
        assert "Install the newer version, or restore a backup" in message


async def test_process_whose_key_github_refuses_is_not_ready_until_it_is_accepted(tmp_path: Path) -> None:
    """The platform sends no traffic, and `/readyz` says what GitHub answered."""
    async with a_theatre(f"sqlite:///{tmp_path / 'imq.db'}", tmp_path) as theatre:
        theatre.template = Template()
        theatre.server.faults.add(Fault("fail", route="/app", status=401, times=None))
        starting = asyncio.create_task(theatre.start())
        await theatre.until(lambda: theatre.log.exists() and "listening" in theatre.log.read_text())
        answer = await readiness_of(theatre, 503)
        assert answer["failing"] == ["app"]
        assert "Bad credentials" in answer["why"]["app"]
        theatre.server.faults.clear()
        async with asyncio.timeout(LIMIT):
            await starting
        events = [line["event"] for line in logged(theatre) if line["component"] == "app"]
        assert events[:3] == ["app_refused", "app_accepted", "app_found"]


async def test_github_that_cannot_be_reached_is_one_line_of_the_log(tmp_path: Path) -> None:
    """A minute of a start without a network: no traceback, and no line per attempt."""
    async with a_theatre(f"sqlite:///{tmp_path / 'imq.db'}", tmp_path) as theatre:
        theatre.template = Template()
        with held_port() as closed:
            theatre.environment |= {"IMQ_GITHUB_API_URL": f"http://127.0.0.1:{closed}", "IMQ_SWEEP_SECONDS": "0.5"}
            await theatre.start()
            await theatre.until(lambda: _sent(tmp_path) > 1)
        message = [line for line in logged(theatre) if line["level"] != "debug" and "127.0.0.1" in str(line)]
        assert [line["event"] for line in message] == ["listening", "github_unreachable"]
        assert "Traceback" not in theatre.log.read_text()


def _sent(directory: Path) -> int:
    """How often a job failed and is tried again."""
    with closing(sqlite3.connect(directory / "imq.db")) as database:
        return int(database.execute("SELECT coalesce(max(attempt), 0) FROM jobs").fetchone()[0])


def _open_in(pid: int | str) -> set[str]:
    """The pipes and sockets that a process holds."""
    found = set()
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed since the folder was listed
            found.add(os.readlink(each))
    return {each for each in found if each.startswith(("pipe:", "socket:"))}


def _parent_of(pid: int) -> str:
    return str(re.findall(r"PPid:\t(\d+)", Path(f"/proc/{pid}/status").read_text())[0])


async def test_forked_process_holds_nothing_of_its_template(tmp_path: Path) -> None:
    """Else a port stays open after the process that bound it has died, or output has no end."""
    async with a_theatre(f"sqlite:///{tmp_path / 'imq.db'}", tmp_path) as theatre:
        theatre.template = Template()
        version = await theatre.template.fork_piped(("--version",), theatre.environment)
        await theatre.start()
        assert (await version.communicate())[0].startswith(b"imq, version")
        assert theatre.process is not None
        held = _open_in(theatre.process.pid)
        assert held
        assert not held & (_open_in(_parent_of(theatre.process.pid)) | _open_in("self"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
async def test_signal_at_any_moment_of_a_start_is_no_error(number: signal.Signals, tmp_path: Path) -> None:
    """An error in the log means a fault of IMQ; and the next start finds all in order."""
    async with a_theatre(f"sqlite:///{tmp_path / 'imq.db'}", tmp_path) as theatre:
        template = Template()
        theatre.environment["IMQ_LOG_LEVEL"] = "debug"  # Alembic says when it stores the revision
        for words in ("Running stamp_revision", '"listening"'):
            (tmp_path / "imq.db").unlink(missing_ok=True)
            process = await template.fork(theatre.environment | {"PORT": "0"}, theatre.log)
            async with asyncio.timeout(LIMIT):
                while not (theatre.log.exists() and words in theatre.log.read_text()):  # noqa: ASYNC110
                    await asyncio.sleep(0.001)  # no-sleep-ok: a real process starts in real time
            process.send_signal(number)
            code = await process.wait()
            assert code in {0, 1, -number}, theatre.log.read_text()
            log = theatre.log.read_text()
            assert not any(f'"level": "{level}"' in log for level in ("error", "critical")), log
            assert "Traceback" not in log
            os.truncate(theatre.log, 0)
        theatre.template = template
        await theatre.start()
        assert await theatre.stop() == 0
        assert '"level": "error"' not in theatre.log.read_text()


async def test_template_that_ends_ends_every_wait_for_it() -> None:
    """A program that starts processes fails with a reason; it neither hangs nor is called for ever."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    connection = _Connection()
    connection._socket = ours
    with ours, theirs:
        orders = [asyncio.ensure_future(connection.fork(None)) for _ in range(2)]
        await asyncio.sleep(0)
        theirs.close()
        async with asyncio.timeout(LIMIT):
            ends = await asyncio.gather(*orders, return_exceptions=True)
        assert [str(each) for each in ends] == ["the template ended"] * 2
        assert asyncio.get_running_loop().remove_reader(ours) is False
