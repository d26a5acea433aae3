"""The gateway and the receiver on one emulated GitHub."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from bot.gateway import Gateway
from github_emulator import EmulatorServer, GitHub, ManualClock
from queue_engine.domain.model import Repository
from queue_engine.domain.webhooks import WebhookEvent

PERMISSIONS = {
    "administration": "read",  # without it GitHub sends no webhooks about rulesets
    "checks": "write",
    "contents": "write",
    "issues": "write",
    "metadata": "read",
    "pull_requests": "write",
    "statuses": "read",
}
EVENTS = ("check_run", "check_suite", "pull_request", "push", "repository_ruleset", "status")


class SharedClock(ManualClock):
    """The emulator's time, in the shape the gateway asks for."""

    async def sleep(self, duration: timedelta) -> None:
        self.advance(duration)


@dataclass
class Place:
    """An emulator with one repository, one pull request, CI, and the gateway on it."""

    github: GitHub
    server: EmulatorServer
    gateway: Gateway
    repository: Repository
    handle: Any
    pull: Any
    app: Any
    webhook_events: list[Any] = field(default_factory=list)

    async def store(self, webhook_event: WebhookEvent) -> bool:
        self.webhook_events.append(webhook_event)
        return True

    async def run_ci(self) -> None:
        for _ in range(4):
            await self.github.settle()
            await self.github.advance(timedelta(minutes=1))
