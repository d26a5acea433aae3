"""Schemas of GitHub's answers about the App itself, with the fields that IMQ reads."""

from datetime import datetime

from pydantic import BaseModel, Field, SecretStr


class _AccountAnswer(BaseModel):
    """An account in such an answer."""

    login: str = ""


class AppAnswer(BaseModel):
    """`GET /app`."""

    slug: str
    id: int = 0
    client_id: str = ""
    html_url: str = ""
    permissions: dict[str, str] = Field(default_factory=dict)
    events: tuple[str, ...] = ()
    created_at: datetime | None = None


class InstallationAnswer(BaseModel):
    """An installation of the App."""

    id: int
    account: _AccountAnswer | None = None
    html_url: str = ""
    suspended_at: datetime | None = None
    permissions: dict[str, str] = Field(default_factory=dict)
    events: tuple[str, ...] = ()

    @property
    def owner(self) -> str:
        """Return the account on which the App is installed."""
        return "" if self.account is None else self.account.login


class WebhookAnswer(BaseModel):
    """`GET /app/hook/config`. GitHub masks the secret, and leaves it out if there is none.

    By its schema `insecure_ssl` may be a number.
    """

    url: str = ""
    content_type: str = "json"
    insecure_ssl: str | float = "0"
    secret: str | None = None


class TokenAnswer(BaseModel):
    """`POST /app/installations/{installation_id}/access_tokens`."""

    token: SecretStr
    expires_at: datetime
    permissions: dict[str, str] = Field(default_factory=dict)
