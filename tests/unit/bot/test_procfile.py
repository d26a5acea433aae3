"""The Procfile's processes, started as a platform starts them: by a shell, with `PORT` and a `postgres://` URL."""

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import psycopg
import pytest

from bot.registration.manifest import read_manifest
from github_emulator import App, EmulatorServer, GitHub, SystemClock
from tests.support.databases import PostgresServer
from tests.support.real_time import LIMIT

ROOT = Path(__file__).resolve().parents[3]
LINES = dict(line.split(": ", 1) for line in (ROOT / "Procfile").read_text().splitlines())

pytestmark = pytest.mark.process


def platform(**settings: str) -> dict[str, str]:
    """A platform's environment: its own variables, and the operator's settings."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {"PATH": path, "DYNO": "web.1", **settings}


async def start(name: str, environment: dict[str, str]) -> asyncio.subprocess.Process:
    """Start one line of the Procfile by a shell, in a group of its own; with `exec`, so that its exit code is seen."""
    return await asyncio.create_subprocess_exec(
        *("sh", "-c", f"exec {LINES[name]}"),
        cwd=ROOT,
        env=environment,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )


async def finish(process: asyncio.subprocess.Process, number: int | None = None) -> tuple[int | None, str]:
    """Signal all of a process group, and wait for its end; exit code and what was logged."""
    if number is not None:
        os.killpg(process.pid, number)
    try:
        async with asyncio.timeout(LIMIT):
            _, log = await process.communicate()
    except TimeoutError:
        os.killpg(process.pid, signal.SIGKILL)
        _, log = await process.communicate()
    return process.returncode, log.decode()


@asynccontextmanager
async def listening(name: str, environment: dict[str, str]) -> AsyncIterator[tuple[asyncio.subprocess.Process, int]]:
    """Within it a process listens on the port that it yields; it is killed if the test did not end it."""
    process = await start(name, environment)
    try:
        assert process.stderr is not None
        async for line in process.stderr:
            if (event := json.loads(line))["event"] == "listening":
                break
        else:
            pytest.fail(f"{name} ended with exit code {await process.wait()} before it listened")
        yield process, event["port"]
    finally:
        if process.returncode is None:
            await finish(process, signal.SIGKILL)


@asynccontextmanager
async def going(github: GitHub) -> AsyncIterator[None]:
    """Within it the emulator's time brings about what is planned."""
    stop = asyncio.Event()
    task = asyncio.create_task(github.schedule.run(stop))
    try:
        yield
    finally:
        stop.set()
        await task


@pytest.fixture
def empty_postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """The URL of a database without any table, with the scheme that platforms still give."""
    name = postgres_server.create()
    yield postgres_server.url(name).replace("postgresql://", "postgres://", 1)
    postgres_server.drop(name)


@pytest.fixture
async def github() -> AsyncIterator[GitHub]:
    """A GitHub whose CI takes a fraction of a second."""
    github = GitHub(SystemClock(50))
    yield github
    await github.close()


@pytest.fixture
async def server(github: GitHub) -> AsyncIterator[EmulatorServer]:
    """Its API."""
    server = EmulatorServer(github, jwt_clock=SystemClock())
    await server.start()
    yield server
    await server.stop()


def register(github: GitHub) -> App:
    """The App as `app.yml` describes it."""
    manifest = read_manifest()
    return github.create_app(
        "imq",
        permissions=manifest.permissions,
        events=manifest.events,
        webhook_secret="s3cret-0123456789abcdef",
    )


@pytest.mark.thorough
@pytest.mark.postgres
async def test_procfile_label_leads_to_a_merge_with_web_and_worker_apart(
    github: GitHub, server: EmulatorServer, empty_postgres_url: str
) -> None:
    """Release, web and worker start, answer, land a labelled pull request, and end within 20 s of SIGTERM."""
    app = register(github)
    environment = platform(
        PORT="0",
        IMQ_BIND="127.0.0.1",
        DATABASE_URL=empty_postgres_url,
        IMQ_GITHUB_APP_ID=str(app.id),
        IMQ_GITHUB_PRIVATE_KEY=app.private_key.replace("\n", "\\n"),
        IMQ_GITHUB_WEBHOOK_SECRET=app.webhook_secret,
        IMQ_GITHUB_API_URL=f"{server.url}/api/v3",
    )
    code, log = await finish(await start("release", environment))
    assert code == 0, log

    repository = github.create_repository("acme/widgets", files={"a.txt": "a\n"})
    ci = repository.add_ci("ci/test")
    repository.protect("main", required_checks=[(ci.name, ci.app.id)], strict=True)
    async with going(github), listening("web", environment) as (web, port):
        app.webhook_url = f"http://127.0.0.1:{port}/webhook"
        for path in ("/healthz", "/readyz"):
            assert await status(port, path) == 200
        worker = await start("worker", environment)
        try:
            github.install(app, "acme")
            pull = repository.open_pull_request("A change", head="change", files={"b.txt": "b\n"})
            landed = landing(github)
            pull.label("merge-queue")
            async with asyncio.timeout(LIMIT):
                await landed.wait()
            figures = await page(port)
        finally:
            worker_code, worker_log = await finish(worker, signal.SIGTERM)
        web_code, web_log = await finish(web, signal.SIGTERM)
    assert pull.merged
    assert not [exchange for exchange in server.requests if exchange.status in (401, 403)]
    assert (web_code, worker_code) == (0, 0), web_log + worker_log
    assert 'imq_processes{role="worker"} 1.0' in figures, "the web process answers for the worker, which has no port"
    assert len(re.findall(r'^imq_build_info{process="w(?:eb|orker)-[0-9a-f]{8}"', figures, re.MULTILINE)) == 2
    with psycopg.connect(empty_postgres_url) as connection:
        assert connection.execute("SELECT owner FROM processes").fetchall() == [], "who ends in order is not missed"


@pytest.mark.parametrize("name", ["release", "web", "worker"])
async def test_procfile_settings_missing_are_all_named(name: str) -> None:
    """On a platform without any setting each process names all that is missing, and ends with exit code 2."""
    code, log = await finish(await start(name, platform(PORT="8080")))
    assert code == 2
    app = ("IMQ_GITHUB_APP_ID", "IMQ_GITHUB_PRIVATE_KEY")
    needed = {"release": (), "web": (*app, "IMQ_GITHUB_WEBHOOK_SECRET"), "worker": app}
    for setting in (*needed[name], "DATABASE_URL"):
        assert setting in log
    assert "Traceback" not in log


def landing(github: GitHub) -> asyncio.Event:
    """Set once a pull request was merged."""
    landed = asyncio.Event()

    def observe(event: str, payload: dict[str, object]) -> None:
        pull = payload.get("pull_request")
        if event == "pull_request" and isinstance(pull, dict) and pull.get("merged"):
            landed.set()

    github.webhooks.observers.append(observe)
    return landed


async def page(port: int) -> str:
    """The figures as Prometheus gets them."""
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/metrics") as answer:
        return await answer.text()


async def status(port: int, path: str) -> int:
    """What a process answers."""
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as answer:
        return answer.status
