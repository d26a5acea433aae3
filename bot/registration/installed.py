"""`GET /setup/installed`: where GitHub sends a person who installed the App."""

from collections.abc import Awaitable, Callable

from aiohttp import web

from bot.registration.pages import installed_page


class InstalledPage:
    """Reports whether webhooks arrive. It names neither the App nor repositories, since everybody may open it."""

    def __init__(self, delivered: Callable[[], Awaitable[bool]]) -> None:
        """`delivered` returns whether any webhook has arrived."""
        self._delivered = delivered

    async def handle(self, _request: web.Request) -> web.Response:
        """Answer 200."""
        return installed_page(delivered=await self._delivered())
