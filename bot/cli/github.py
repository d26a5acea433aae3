"""Call GitHub as the App of the settings, for commands of the operator."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import aiohttp

from bot.cli.console import CommandRefused
from bot.gateway.gateway import Gateway
from bot.gateway.http.client import Call
from bot.gateway.http.connection import Connection, Page
from bot.gateway.http.scopes import Target
from bot.settings.environment import Settings
from queue_engine.core.timing.clock import Clock, SystemClock
from queue_engine.domain.errors import GitHubError, ReadLagError
from queue_engine.domain.facts import Actor


class RetryConnection(Connection):
    """Waits until GitHub's replicas accept a token that it just issued; the bot stores such a wait instead."""

    pause: Callable[[float], Awaitable[None]] = staticmethod(asyncio.sleep)

    async def call(self, target: Target, call: Call, *, fresh: bool = False) -> Page:
        """Make a call again and again while its token is new, for half a minute at most."""
        while True:
            try:
                return await super().call(target, call, fresh=fresh)
            except ReadLagError as early:
                await self.pause(early.retry_after.total_seconds())


@asynccontextmanager
async def gateway_of(settings: Settings, clock: Clock) -> AsyncIterator[Gateway]:
    """Open a gateway with connections of its own, and close them at the end."""
    async with aiohttp.ClientSession() as session:
        yield Gateway(
            RetryConnection(
                session,
                api_url=settings.github_api_url,
                app_id=settings.github_app_id,
                private_key=settings.github_private_key,
                clock=clock,
            )
        )


async def account_of(settings: Settings, login: str) -> Actor:
    """Ask GitHub, as the App of these settings, for the account of this login. Raises CommandRefused."""
    async with gateway_of(settings, SystemClock()) as gateway:
        try:
            installations = await gateway.installations()
            if not installations:
                raise CommandRefused(f"The App is not installed, so IMQ cannot look up {login}.")
            account = await gateway.people.by_login(installations[0], login)
        except GitHubError as error:
            raise CommandRefused(f"IMQ could not look up {login}: {error.message}") from None
    if account is None:
        raise CommandRefused(f"GitHub has no account {login}.")
    return account
