"""Policies over files that a test sets, and a gateway on one emulated GitHub."""

from collections.abc import AsyncIterator
from datetime import timedelta

import aiohttp
import pytest
from pydantic import SecretStr

from bot.gateway import Gateway
from bot.gateway.http.connection import Connection
from bot.gateway.people import KnownTeams
from bot.gateway.policies import Policies
from bot.web.application import Readiness, create_app, serve
from bot.webhooks.receiver import Receiver
from github_emulator import CISettings, EmulatorServer, GitHub
from queue_engine.domain.model import Repository
from queue_engine.store import Store
from tests.support.policies import unasked
from tests.unit.bot.conftest import ManualClock
from tests.unit.bot.gateway.emulator_place import EVENTS, PERMISSIONS, Place, SharedClock
from tests.unit.bot.gateway.policy_files import DEFAULTS, Files, Renewed


@pytest.fixture
def files() -> Files:
    return Files()


@pytest.fixture
def policies(files: Files, store: Store, clock: ManualClock) -> Policies:
    return Policies(files, store, DEFAULTS, clock, forget_rules=lambda _: None, teams=KnownTeams(unasked, store, clock))


@pytest.fixture
def renewed(store: Store) -> Renewed:
    return Renewed(store)


@pytest.fixture
async def place(session: aiohttp.ClientSession) -> AsyncIterator[Place]:
    clock = SharedClock()
    github = GitHub(clock, seed=3)
    server = EmulatorServer(github)
    await server.start()
    for login in ("mona", "tria"):
        github.create_user(login)
    app = github.create_app("imq", permissions=PERMISSIONS, events=EVENTS, webhook_secret="s3cret")
    handle = github.create_repository(
        "acme/widgets", files={"app.py": "one\n"}, collaborators={"mona": "write", "tria": "triage"}
    )
    installation = github.install(app, "acme")
    handle.add_ci("ci/test", settings=CISettings(duration=timedelta(seconds=30)))
    handle.add_ci("ci/lint", settings=CISettings(duration=timedelta(seconds=10), status=True))
    pull = handle.open_pull_request("Add", head="topic/1", by="mona", files={"new.py": "new\n"})
    gateway = Gateway(
        Connection(session, api_url=server.url, app_id=str(app.id), private_key=SecretStr(app.private_key), clock=clock)
    )
    repository = Repository(handle.record.id, "acme", "widgets", installation.id)
    made = Place(github, server, gateway, repository, handle, pull, app)
    receiver = Receiver(secret=SecretStr("s3cret"), own_app_id=app.id, store=made.store, clock=clock)
    runner = await serve(create_app(receiver, Readiness({}, clock)), 0, "127.0.0.1")
    app.webhook_url = f"http://127.0.0.1:{runner.addresses[0][1]}/webhook"
    yield made
    await runner.cleanup()
    await server.stop()
    await github.close()
