"""Processes that cannot start, and one that is stopped or killed while it starts."""

import asyncio
import os
import signal
import socket
import sys
from pathlib import Path

import pytest

from tests.acceptance.template import ROOT, Template
from tests.process.processes import Theatre, a_theatre

pytestmark = pytest.mark.process


async def refused(theatre: Theatre, command: str = "run", **settings: str) -> str:
    """What a process says that cannot start: a single line."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bot", command),
        cwd=ROOT,
        env=theatre.environment | {"PORT": "0"} | settings,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(60):
        said, _ = await process.communicate()
    lines = [line for line in said.decode().splitlines() if not line.startswith('{"event"')]
    assert process.returncode == 2, lines
    assert len(lines) == 1, lines
    return lines[0]


async def test_process_that_cannot_start_says_the_way_out_in_one_sentence(tmp_path: Path) -> None:
    """Each as an operator meets it; the first process goes on."""
    async with a_theatre(f"sqlite:///{tmp_path / 'imq.db'}", tmp_path) as theatre:
        theatre.template = Template()
        await theatre.start()
        assert theatre.process is not None
        for command in ("run", "web"):
            told = await refused(theatre, command)
            assert f"in use by `imq run`, process {theatre.process.pid}" in told
            assert "PostgreSQL" in told
        elsewhere = f"sqlite:///{tmp_path / 'other.db'}"
        told = await refused(theatre, DATABASE_URL=elsewhere, PORT=str(theatre.port))
        assert "Set PORT to a free port" in told
        assert "does not exist: create it" in await refused(theatre, DATABASE_URL=f"sqlite:///{tmp_path}/none/imq.db")
        assert await theatre.stop() == 0


def _free() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
async def test_signal_at_any_moment_of_a_start_is_no_error(number: signal.Signals, tmp_path: Path) -> None:
    """An error in the log means a fault of IMQ; and the next start finds all in order."""
    async with a_theatre(f"sqlite:///{tmp_path / 'imq.db'}", tmp_path) as theatre:
        template = Template()
        for words in ("Running upgrade", "-> 0013", '"listening"'):
            (tmp_path / "imq.db").unlink(missing_ok=True)
            process = await template.fork(theatre.environment | {"PORT": str(_free())}, theatre.log)
            async with asyncio.timeout(30):
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
