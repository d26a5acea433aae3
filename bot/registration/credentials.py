"""Represent the App's credentials, as settings and as commands of hosting platforms. Pure."""

import base64
import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pydantic import SecretStr


@dataclass(frozen=True, slots=True)
class Credentials:
    """What IMQ needs to act as the App, and the address of the App's page."""

    app_id: int
    html_url: str
    private_key: SecretStr
    """A PEM."""
    webhook_secret: SecretStr
    client_id: str = ""
    client_secret: SecretStr | None = None
    """With these two people log in."""

    @property
    def install_url(self) -> str:
        """Return the page on which people install the App."""
        return f"{self.html_url}/installations/new"

    def settings(self) -> dict[str, str]:
        """Return the settings by name. The key is in base64, which no shell and no file changes."""
        pem = self.private_key.get_secret_value()
        of_login = {
            "IMQ_GITHUB_CLIENT_ID": self.client_id,
            "IMQ_GITHUB_CLIENT_SECRET": self.client_secret.get_secret_value() if self.client_secret else "",
        }
        return {
            "IMQ_GITHUB_APP_ID": str(self.app_id),
            "IMQ_GITHUB_PRIVATE_KEY": base64.b64encode(pem.encode()).decode(),
            "IMQ_GITHUB_WEBHOOK_SECRET": self.webhook_secret.get_secret_value(),
            **{name: value for name, value in of_login.items() if value},
        }

    def complete(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the operator's settings, completed by those that they did not set."""
        return {
            **environ,
            **{name: value for name, value in self.settings().items() if not environ.get(name, "").strip()},
        }


def serialize(credentials: Credentials) -> bytes:
    """Return the credentials as bytes, secrets included: encrypt them before they are stored."""
    content = {
        "app_id": credentials.app_id,
        "html_url": credentials.html_url,
        "private_key": credentials.private_key.get_secret_value(),
        "webhook_secret": credentials.webhook_secret.get_secret_value(),
        "client_id": credentials.client_id,
        "client_secret": credentials.client_secret.get_secret_value() if credentials.client_secret else None,
    }
    return json.dumps(content).encode()


def deserialize(content: bytes) -> Credentials:
    """Return the credentials that `serialize` wrote."""
    read = json.loads(content)
    secret = read["client_secret"]
    return Credentials(
        read["app_id"],
        read["html_url"],
        SecretStr(read["private_key"]),
        SecretStr(read["webhook_secret"]),
        client_id=read["client_id"],
        client_secret=None if secret is None else SecretStr(secret),
    )


def _heroku(settings: Mapping[str, str]) -> str:
    return f"heroku config:set {_assignments(settings)}"


def _fly(settings: Mapping[str, str]) -> str:
    return f"fly secrets set {_assignments(settings)}"


def _render(settings: Mapping[str, str]) -> str:
    """Return the lines for Render's form Environment, Add from .env."""
    return "\n".join(f"{name}={value}" for name, value in settings.items())


def _assignments(settings: Mapping[str, str]) -> str:
    return " ".join(f"{name}={shlex.quote(value)}" for name, value in settings.items())


PLATFORMS: Mapping[str, Callable[[Mapping[str, str]], str]] = {"heroku": _heroku, "fly": _fly, "render": _render}
"""How each platform takes settings."""
