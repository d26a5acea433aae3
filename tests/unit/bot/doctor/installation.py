"""A sound installation on the emulator, over HTTP, into which tests put faults."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import aiohttp
from aiohttp import web
from pydantic import SecretStr

from bot.api.finding import Report
from bot.doctor.doctor_facts import HostFacts
from bot.doctor.examination import Doctor
from bot.gateway.gateway import Gateway
from bot.gateway.http.connection import Connection
from bot.registration.manifest import read_manifest
from bot.webhooks.receiver import Receiver
from github_emulator import App, CISettings, EmulatorServer, GitHub, Installation, ManualClock, RepositoryHandle
from github_emulator import SystemClock as EmulatorClock
from queue_engine.config.model import Policy
from queue_engine.core.timing.clock import Clock, SystemClock
from queue_engine.domain.webhooks import WebhookEvent
from tests.support.app_key import KEY
from tests.support.gates import NOW

NAME = "acme/rocket"
WEBHOOK = "https://imq.acme.dev/webhook"
SOUND_HOST = HostFacts(disk_free=10**12)


@dataclass
class Place:
    """An App that is registered as the manifest says, and a repository whose required check reports."""

    github: GitHub
    server: EmulatorServer
    app: App
    installation: Installation
    repository: RepositoryHandle
    session: aiohttp.ClientSession
    clock: Clock

    def gateway(self, *, app_id: int | None = None) -> Gateway:
        """The gateway of a process of its own, which remembers nothing."""
        return Gateway(
            Connection(
                self.session,
                api_url=self.server.url,
                app_id=str(app_id or self.app.id),
                private_key=SecretStr(self.app.private_key),
                clock=self.clock,
            )
        )

    async def examine(
        self, host: HostFacts = SOUND_HOST, only: str | None = None, *, app_id: int | None = None
    ) -> Report:
        """The report of a run."""
        policy = Policy(own_app=self.app.id)
        doctor = Doctor(self.gateway(app_id=app_id), self.clock, policy, public_url="https://imq.acme.dev")
        return await doctor.examine(host, only)

    async def open_pull_request(self, name: str) -> None:
        """Open a pull request, and let CI report on it. Nothing is delivered: the webhook's address has no server."""
        address, self.app.webhook_url = self.app.webhook_url, None
        self.repository.open_pull_request(name, head=name, by="mona", files={f"{name}.py": "1\n"})
        await self.github.settle()
        await self.github.advance(timedelta(seconds=1))
        self.app.webhook_url = address


@asynccontextmanager
async def a_receiver(secret: str, app_id: int) -> AsyncIterator[str]:
    """An IMQ that receives webhooks; its address."""

    async def store(_event: WebhookEvent) -> bool:
        raise AssertionError("the doctor stores nothing")

    receiver = Receiver(secret=SecretStr(secret), own_app_id=app_id, store=store, clock=SystemClock())
    app = web.Application()
    app.router.add_post("/webhook", receiver.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/webhook"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def a_place(directory: Path) -> AsyncIterator[Place]:
    """A sound installation, whose emulator clock is stopped at the present."""
    github = GitHub(ManualClock(NOW), directory=directory)
    server = EmulatorServer(github, jwt_clock=EmulatorClock())
    await server.start()
    manifest = read_manifest()
    github.create_user("mona")
    app = github.create_app("imq", permissions=manifest.permissions, events=manifest.events, webhook_secret="s" * 20)
    app.key = KEY
    repository = github.create_repository(NAME, files={"README.md": "Rocket\n"}, collaborators={"mona": "admin"})
    repository.create_label("merge-queue")
    ci = repository.add_ci("ci/test", settings=CISettings(duration=timedelta(0)))
    installation = github.install(app, "acme")
    repository.protect("main", required_checks=[("ci/test", ci.app.id)])
    try:
        async with aiohttp.ClientSession() as session:
            place = Place(github, server, app, installation, repository, session, SystemClock())
            await place.open_pull_request("first")
            app.webhook_url = WEBHOOK
            yield place
    finally:
        await server.stop()
        await github.close()


def keep_results(place: Place) -> None:
    """Results shall be kept where only documents changed on the base, and GitHub merges up-to-date heads only."""
    place.repository.push("main", {".github/imq.yml": "checks: {untested_paths: docs/**}\n"}, by="mona")
    place.repository.add_ruleset("Up to date", required_checks=["ci/test"], strict=True, by="mona")
