"""Serve the pages of the registration on the operator's own machine, until the App is registered."""

import asyncio
import secrets
import socket
from collections.abc import Awaitable, Callable
from dataclasses import replace

import aiohttp

from bot.gateway.http.client import Client
from bot.registration.credentials import Credentials
from bot.registration.one_time_secrets import MemorySecrets
from bot.registration.site import Offer, RegistrationSite, local_addresses
from bot.settings.safe_values import HERE
from bot.web.application import new_application, serve
from queue_engine.core.timing.clock import SystemClock


async def register(
    offer: Offer, save: Callable[[Credentials], Awaitable[str]], show: Callable[[str], None]
) -> Credentials:
    """Register the App in a browser of this machine; `show` gets the address of the first page."""
    registered: asyncio.Future[Credentials] = asyncio.get_running_loop().create_future()

    async def save_once(credentials: Credentials) -> str:
        saved = await save(credentials)
        registered.set_result(credentials)
        return saved

    clock, one_time = SystemClock(), MemorySecrets()
    with socket.create_server((HERE, 0)) as bound:
        address = f"http://{HERE}:{bound.getsockname()[1]}"
        async with aiohttp.ClientSession() as session:
            site = RegistrationSite(
                replace(offer, addresses=local_addresses(offer.addresses, address)),
                client=Client(session, api_url=offer.api_url, clock=clock),
                clock=clock,
                one_time=one_time,
                key=secrets.token_bytes(32),
                save=save_once,
                announce=lambda _code: None,
            )
            application = new_application()
            application.add_routes(site.routes())
            runner = await serve(application, 0, HERE, bound=bound)
            try:
                show(f"{address}/setup?code={await one_time.code()}")
                return await registered
            finally:
                await runner.cleanup()
