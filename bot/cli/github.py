"""Call GitHub as the App of the settings, for commands that run without a database."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp

from bot.gateway.gateway import Gateway
from bot.gateway.http.connection import Connection
from bot.settings.environment import Settings
from queue_engine.core.timing.clock import Clock


@asynccontextmanager
async def gateway_of(settings: Settings, clock: Clock) -> AsyncIterator[Gateway]:
    """Open a gateway with connections of its own, and close them at the end."""
    async with aiohttp.ClientSession() as session:
        yield Gateway(
            Connection(
                session,
                api_url=settings.github_api_url,
                app_id=settings.github_app_id,
                private_key=settings.github_private_key,
                clock=clock,
            )
        )
