"""IMQ as platforms start it: by Render's command on an empty PostgreSQL, and with few rights as by systemd."""

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hosting.platform_files import unit, yaml
from tests.process.processes import a_theatre
from tests.support.databases import PostgresServer
from tests.support.setup_process import SECRET_KEY, Imq

pytestmark = pytest.mark.process

NO_NEW_CODE = """
import ctypes, os, sys
system = ctypes.CDLL(None, use_errno=True)
if system.prctl(65, 1, 0, 0, 0):  # PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN: for this process and what it becomes
    sys.exit(f"refused: {os.strerror(ctypes.get_errno())}")
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


@pytest.fixture
def empty_postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """The URL of a database without any table."""
    name = postgres_server.create()
    yield postgres_server.url(name)
    postgres_server.drop(name)


@pytest.mark.postgres
async def test_renders_command_migrates_an_empty_database_and_offers_the_registration(empty_postgres_url: str) -> None:
    """The free plan has no step before a deploy; and nobody types the address, which Render gives to the process."""
    (service,) = yaml("render.yaml")[0]["services"]
    environment = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "RENDER": "true",
        "RENDER_EXTERNAL_URL": "https://imq-1a2b.onrender.com",
        "PORT": "0",
        "IMQ_BIND": "127.0.0.1",
        "DATABASE_URL": empty_postgres_url,
        "IMQ_SECRET_KEY": SECRET_KEY,
    }
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *("bash", "-c", service["startCommand"]), env=environment, stderr=pipe, limit=2**22
    )
    imq = Imq(process)
    try:
        opened = await imq.until("setup_page_open")
        await imq.until("listening")
    finally:
        code = await imq.end(signal.SIGTERM)
    assert opened["page"] == "https://imq-1a2b.onrender.com/setup"
    assert code == 0, "the signal reaches IMQ, and not only the shell"


async def test_process_that_may_make_no_memory_executable_lands_a_pull_request(tmp_path: Path) -> None:
    """The unit forbids that; a library that writes machine code at run time would end the service."""
    assert unit()["MemoryDenyWriteExecute"] == ["yes"]
    async with a_theatre(f"sqlite:///{tmp_path / 'imq.db'}", tmp_path) as theatre:
        theatre.python = (sys.executable, "-c", NO_NEW_CODE)
        await theatre.start()
        pull = theatre.repository.open_pull_request("A change", head="change", files={"b.md": "b\n"}, by="mona")
        pull.label("merge-queue", by="mona")
        await theatre.until(lambda: pull.merged)
        assert await theatre.stop() == 0
