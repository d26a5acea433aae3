"""Read what GitHub says of the App itself, by the App's own JWT."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from pydantic import BaseModel

from bot.gateway.app_schemas import AppAnswer, InstallationAnswer, WebhookAnswer
from bot.gateway.http.client import Call, Client, Credential
from bot.gateway.http.connection import Connection


class _BudgetAnswer(BaseModel):
    limit: int
    remaining: int


class _LimitsAnswer(BaseModel):
    rate: _BudgetAnswer


class App:
    """Reads the App. Raises the errors of `queue_engine.domain.errors`."""

    def __init__(self, connection: Connection, client: Client) -> None:
        self._connection = connection
        self._client = client

    async def read(self) -> AppAnswer:
        """Read `GET /app`. Raises Unauthorized for a key, and NotFound for an id, that GitHub does not accept."""
        return await self._connection.get(None, AppAnswer, "/app")

    async def installations(self) -> list[InstallationAnswer]:
        """Read `GET /app/installations`, the suspended ones too."""
        return await self._connection.items(None, InstallationAnswer, "/app/installations?per_page=100")

    async def webhook(self) -> WebhookAnswer:
        """Read `GET /app/hook/config`."""
        return await self._connection.get(None, WebhookAnswer, "/app/hook/config")

    async def budget(self, installation_id: int) -> tuple[int, int]:
        """Read `GET /rate_limit`, which costs nothing: the requests left to an installation, and its limit an hour."""
        answer = await self._connection.get(installation_id, _LimitsAnswer, "/rate_limit", fresh=True)
        return answer.rate.remaining, answer.rate.limit

    async def server_time(self) -> datetime | None:
        """Return GitHub's own time, from the header `Date` of any answer; None if it has none."""
        reply = await self._client.exchange(Call("GET", "/rate_limit"), Credential())
        try:
            return parsedate_to_datetime(reply.headers["date"]).astimezone(UTC)
        except (KeyError, ValueError):
            return None
