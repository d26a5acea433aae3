"""Correct where GitHub sends the App's webhooks, and the secret that signs them."""

import structlog
from pydantic import SecretStr

from bot.gateway.app import App
from bot.gateway.schemas import WebhookAnswer
from bot.settings.environment import Settings
from queue_engine.domain.errors import GitHubError

_REFUSED = 401
"""How IMQ answers a delivery that is signed with another secret."""

_log = structlog.get_logger("imq.app")


class WebhookCorrection:
    """Sets the address and the secret where they differ from the settings.

    GitHub never shows the secret. It differs if there is none, or if IMQ refused the signature of the newest delivery.
    """

    def __init__(self, app: App, address: str | None, secret: SecretStr) -> None:
        """`address` is where GitHub reaches IMQ; None leaves everything as it is."""
        self._app = app
        self._address = address
        self._secret = secret

    async def apply(self, found: WebhookAnswer) -> WebhookAnswer:
        """Return the webhook as it is afterwards. Raises GitHubError only for reads."""
        if self._address is None:
            return found
        moved = found.url != self._address
        resigned = moved or found.secret is None or await self._app.newest_delivery_status() == _REFUSED
        if not resigned:
            return found
        try:
            corrected = await self._app.update_webhook(self._address, self._secret)
        except GitHubError as error:
            _log.warning("webhook_not_corrected", address=found.url, wanted=self._address, error=error.message)
            return found
        _log.warning("webhook_corrected", before=found.url, address=self._address, secret="set")  # noqa: S106
        return corrected


def correction_of(app: App, settings: Settings) -> WebhookCorrection:
    """Return the correction that the settings ask for."""
    corrects = settings.corrects_webhook and settings.github_webhook_secret.get_secret_value()
    address = settings.webhook_address if corrects else None
    return WebhookCorrection(app, address, settings.github_webhook_secret)
