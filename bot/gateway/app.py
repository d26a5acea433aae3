"""Read what GitHub says of the App itself, by the App's own JWT."""

from bot.gateway.app_schemas import AppAnswer, InstallationAnswer, WebhookAnswer
from bot.gateway.http.connection import Connection


class App:
    """Reads the App. Raises the errors of `queue_engine.domain.errors`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def read(self) -> AppAnswer:
        """Read `GET /app`. Raises Unauthorized for a key, and NotFound for an id, that GitHub does not accept."""
        return await self._connection.get(None, AppAnswer, "/app")

    async def installations(self) -> list[InstallationAnswer]:
        """Read `GET /app/installations`, the suspended ones too."""
        return await self._connection.items(None, InstallationAnswer, "/app/installations?per_page=100")

    async def webhook(self) -> WebhookAnswer:
        """Read `GET /app/hook/config`."""
        return await self._connection.get(None, WebhookAnswer, "/app/hook/config")
