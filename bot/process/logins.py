"""Build the routes by which command lines log people in."""

import aiohttp

from bot.api.device_logins import LoginIds, LoginLimits
from bot.api.login import LoginRoutes, Logins
from bot.gateway.app import App
from bot.gateway.device_flow import DeviceFlow
from bot.http.client_address import ClientAddresses
from bot.settings.environment import Settings
from bot.settings.github_website import website
from queue_engine.effects.context import Engine


def login_routes(settings: Settings, engine: Engine, session: aiohttp.ClientSession, app: App) -> LoginRoutes:
    """Create the routes, which ask GitHub for the App's client id at the first login."""

    async def client_id() -> str:
        return settings.client_id or (await app.read()).client_id

    flow = DeviceFlow(
        session,
        website=website(settings.github_api_url),
        api_url=settings.github_api_url,
        client_id=client_id,
        clock=engine.clock,
        client_secret=settings.client_secret,
    )
    ids, limits = LoginIds(settings.github_private_key), LoginLimits(engine.clock)
    return LoginRoutes(
        engine, Logins(flow, ids, limits, ClientAddresses(settings.trusted_proxies, settings.client_header))
    )
