"""Read what GitHub says of the App itself, and set its webhook, by the App's own JWT."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from pydantic import SecretStr

from bot.gateway.http.client import Call, Client, Credential, parse_answer
from bot.gateway.http.connection import Connection
from bot.gateway.schemas import AppAnswer, DeliveryAddressAnswer, DeliveryAnswer, InstallationAnswer, WebhookAnswer
from queue_engine.core.read_model import ReadModel


class _BudgetAnswer(ReadModel):
    limit: int
    remaining: int


class _LimitsAnswer(ReadModel):
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

    async def server(self) -> tuple[datetime | None, str | None]:
        """Return GitHub's own time, from the header `Date` of any answer, and its version if it is Enterprise Server.

        Each is None without its header. Every answer of a server has its version (github/codeql-action and sourcegraph
        read it).
        """
        reply = await self._client.exchange(Call("GET", "/rate_limit"), Credential())
        version = reply.headers.get("x-github-enterprise-version")
        try:
            return parsedate_to_datetime(reply.headers["date"]).astimezone(UTC), version
        except (KeyError, ValueError):
            return None, version

    async def update_webhook(self, address: str, secret: SecretStr) -> WebhookAnswer:
        """Set the address and the secret by `PATCH /app/hook/config`; return the webhook as it is then."""
        body = {"url": address, "secret": secret.get_secret_value()}
        page = await self._connection.call(None, Call("PATCH", "/app/hook/config", body=body))
        return parse_answer(WebhookAnswer, page.data)

    async def delivery_address(self, delivery: int) -> str | None:
        """Return where GitHub sent this delivery; None if it does not say."""
        template = "/app/hook/deliveries/{delivery_id}"
        return (await self._connection.get(None, DeliveryAddressAnswer, template, {"delivery_id": str(delivery)})).url

    async def newest_delivery_status(self) -> int | None:
        """Return the HTTP status of the newest delivery; None before the first one."""
        found = await self._connection.listed(None, DeliveryAnswer, "/app/hook/deliveries?per_page=1")
        return found[0].status_code if found else None
