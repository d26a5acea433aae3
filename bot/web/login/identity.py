"""Learn from GitHub who is at the browser: the web application flow of a GitHub App, with PKCE.

GitHub's page "Generating a user access token for a GitHub App" describes it; PKCE since 2025-07-14 (GitHub's changelog,
better-auth #6276, microsoft/vscode #264795), only by S256. An older Enterprise Server ignores PKCE (arctic #43), so the
state counts as well. Errors of the token endpoint have the status 200 (octokit.rb #347, dagger's recorded answer).

The person's token serves for one request and is revoked then. It is never stored.
"""

import base64
import hashlib
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from urllib.parse import urlencode

import structlog
from pydantic import SecretStr, ValidationError

from bot.gateway.device_flow import revoke_user_token
from bot.gateway.http.client import Call, Client, Credential
from queue_engine.core.read_model import ReadModel
from queue_engine.domain.errors import NotFound, Unavailable
from queue_engine.domain.facts import Actor

_CODE = re.compile(r"[A-Za-z0-9_-]{1,200}")
_JSON = "application/json"

_log = structlog.get_logger("imq.pages")


class LoginRefused(Exception):
    """GitHub did not say who the person is. The message is a sentence for the person."""


class _TokenAnswer(ReadModel):
    access_token: SecretStr | None = None
    error: str | None = None


class _PersonAnswer(ReadModel):
    id: int
    login: str
    type: str = "User"


@dataclass(frozen=True, slots=True)
class AppLogin:
    """The App as people authorize it. URLs have no trailing slash."""

    website: str
    callback: str
    client_id: Callable[[], Awaitable[str]]
    """Raises GitHubError."""
    client_secret: SecretStr


class Identity:
    """Asks GitHub who a person is."""

    def __init__(self, app: AppLogin, *, site: Client, api: Client) -> None:
        """`site` sends to GitHub's website, and `api` to its API."""
        self._app = app
        self._site = site
        self._api = api

    async def address(self, state: str, verifier: str) -> str:
        """Return the address of GitHub's page on which the person agrees. Raises GitHubError."""
        query = {
            "client_id": await self._app.client_id(),
            "redirect_uri": self._app.callback,
            "state": state,
            "code_challenge": challenge(verifier),
            "code_challenge_method": "S256",
        }
        return f"{self._app.website}/login/oauth/authorize?{urlencode(query)}"

    async def person(self, code: str, verifier: str) -> Actor:
        """Exchange the code and return the person. Raises LoginRefused, and GitHubError to try again."""
        if not _CODE.fullmatch(code):
            raise LoginRefused("GitHub sent no code.")
        token = await self._token(code, verifier)
        try:
            reply = await self._api.exchange(Call("GET", "/user"), Credential(token=token))
            found = _PersonAnswer.model_validate(self._api.parse(reply))
        except ValidationError:
            raise Unavailable("the answer to the person's token is not GitHub's") from None
        finally:
            await self._revoke(token)
        if found.type != "User":
            raise LoginRefused("Only people can log in.")
        return Actor(found.id, found.login)

    async def _token(self, code: str, verifier: str) -> SecretStr:
        body = {
            "client_id": await self._app.client_id(),
            "client_secret": self._app.client_secret.get_secret_value(),
            "code": code,
            "redirect_uri": self._app.callback,
            "code_verifier": verifier,
        }
        call = Call("POST", "/login/oauth/access_token", body=body, accept=_JSON)
        try:
            found = _TokenAnswer.model_validate(self._site.parse(await self._site.exchange(call, Credential())))
        except NotFound:
            found = _TokenAnswer(error="incorrect_client_credentials")
        except ValidationError:
            raise Unavailable("the answer to the code is not GitHub's") from None
        if found.access_token is not None:
            return found.access_token
        _log.warning("login_refused", error=found.error)
        if found.error in ("incorrect_client_credentials", "redirect_uri_mismatch"):
            raise LoginRefused(
                "GitHub refuses the App's client id, its client secret or its callback URL. Tell IMQ's operator."
            )
        raise LoginRefused("GitHub's code is used, or older than ten minutes.")

    async def _revoke(self, token: SecretStr) -> None:
        client_id, secret = await self._app.client_id(), self._app.client_secret
        await revoke_user_token(self._api, client_id=client_id, client_secret=secret, token=token)


def challenge(verifier: str) -> str:
    """Return the challenge of a verifier by S256 (RFC 7636)."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
