"""`imq run` as a platform starts it, with few files to open, while a crowd holds connections that it does not use."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
import pytest

from imq_demo.bot_process import port_in
from tests.acceptance.template import ROOT
from tests.support.real_time import LIMIT

pytestmark = pytest.mark.process

FILES, CROWD = 128, 300
PATIENT = """
from dataclasses import replace
from datetime import timedelta
from bot.cli.main import main
from bot.web import application
usual = application.limits_for
application.limits_for = lambda files: replace(usual(files), header=timedelta(hours=1))
main(["run"], prog_name="imq")
"""
"""`imq run` on which a half-open connection lasts an hour, so that no time makes room for an answer."""


@pytest.fixture
async def port(tmp_path: Path, pem: str) -> AsyncIterator[int]:
    """A process that may open so many files, on SQLite, beside a GitHub that is not there; its log is `log`."""
    environment = {
        "PATH": os.environ["PATH"],
        "PORT": "0",
        "DATABASE_URL": f"sqlite:///{tmp_path}/imq.db",
        "IMQ_BIND": "127.0.0.1",
        "IMQ_GITHUB_APP_ID": "1",
        "IMQ_GITHUB_PRIVATE_KEY": pem,
        "IMQ_GITHUB_WEBHOOK_SECRET": "a secret that nobody guesses, and long enough",
        "IMQ_GITHUB_API_URL": "http://127.0.0.1:9",
    }
    with (tmp_path / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *("sh", "-c", f'ulimit -n {FILES}; exec "$0" -c "$1"', sys.executable, PATIENT),
            cwd=ROOT,
            env=environment,
            stdout=log,
            stderr=log,
        )
        try:
            yield await _port(tmp_path / "log", process)
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(LIMIT):
                assert await process.wait() == 0
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


async def _port(log: Path, process: asyncio.subprocess.Process) -> int:
    async with asyncio.timeout(LIMIT):
        while (port := port_in(log)) is None:
            assert process.returncode is None, "the process ended before it listened"
            await asyncio.sleep(0.02)  # no-sleep-ok: a real process starts in real time
    return port


async def test_half_open_connections_more_than_files_stop_nothing(
    session: aiohttp.ClientSession, port: int, tmp_path: Path
) -> None:
    """Three hundred stopped everything and wrote 213 MB of log; now all is answered, from the database too."""
    before = (tmp_path / "log").stat().st_size
    async with AsyncExitStack() as stack:
        for _ in range(CROWD):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            stack.callback(writer.close)
            writer.write(b"POST /webhook HTTP/1.1\r\nHost: x\r\nX-Hub")
        for path in ("/healthz", "/readyz", "/metrics", "/queue/status"):
            async with session.get(f"http://127.0.0.1:{port}{path}") as answer:
                assert answer.status == 200, path
    assert (tmp_path / "log").stat().st_size - before < 100_000
