"""Find out by GitHub's device flow which person is at a command line.

Sources: GitHub's page "Generating a user access token for a GitHub App" (the calls, their fields and errors,
`slow_down` with the new `interval`, no `client_secret`; errors of the second call have status 200), and cli/oauth's
`device_flow.go`, for which a refused first call has status 400, 401, 403, 404 or 422. github/docs #32628 confirms that
no secret is needed. octokit/oauth-methods.js sends both calls as JSON.

`device_flow_disabled` is 400 for octokit/create-octokit-project.js #208, and also reported in hubtty #83 and ghenv #10.
No parameter of a manifest enables the flow: neither GitHub's page on manifests nor probot's type of one has it. So the
App's owner enables it on the App's settings page.

GitHub's token of the person stays in memory, for one call. IMQ revokes it afterwards if it has the App's client secret.
Otherwise the token expires by itself, usually after eight hours.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import aiohttp
import structlog
from cachetools import LRUCache
from pydantic import SecretStr, ValidationError

from bot.gateway.http.client import Call, Client, Credential, parse_answer
from bot.gateway.http.refusals import refusal
from queue_engine.core.read_model import ReadModel
from queue_engine.core.timing.clock import Clock
from queue_engine.domain.errors import GitHubError, NotFound, Unavailable
from queue_engine.domain.facts import Actor

_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_JSON = "application/json"
_AFTER_SLOW_DOWN = timedelta(seconds=10)
"""GitHub's usual 5 seconds, and the 5 more of RFC 8628, section 3.5."""

_LONGEST_INTERVAL = 900

_MAX_UNREAD = 100


class DeviceFlowRefused(Exception):
    """The App's owner has not enabled the device flow, or this GitHub has none."""


class LoginRefused(Exception):
    """The login cannot be finished. `reason` is `denied`, `expired`, or `used` for a code that GitHub does not know."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class DeviceCode(ReadModel):
    """GitHub's answer to a begun login. The bounds keep a broken answer from stopping or hurrying a caller."""

    device_code: SecretStr
    user_code: str
    verification_uri: str
    expires_in: int = 900
    interval: int = 5


@dataclass(frozen=True, slots=True)
class Wait:
    """The person has not typed the code yet; GitHub may be asked again after `interval`, None if it did not change."""

    interval: timedelta | None = None


class _UserAnswer(ReadModel):
    id: int
    login: str
    type: str = "User"


class DeviceFlow:
    """Begins logins at the origin `website`, and asks for their outcome. Raises GitHubError for all that may pass."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        *,
        website: str,
        api_url: str,
        client_id: Callable[[], Awaitable[str]],
        clock: Clock,
        client_secret: SecretStr | None = None,
    ) -> None:
        self._client_secret = client_secret
        self._website = Client(session, api_url=website, clock=clock)
        self._api = Client(session, api_url=api_url, clock=clock)
        self._read_client_id = client_id
        self._client_id: str | None = None
        self._clock = clock
        self._unread: LRUCache[str, SecretStr] = LRUCache(_MAX_UNREAD)
        """By device code, the token of a person whom GitHub did not name yet: it gives each token once."""

    async def begin(self) -> DeviceCode:
        """Ask `POST /login/device/code` for the codes. Raises DeviceFlowRefused."""
        status, answer = await self._post("/login/device/code", {})
        if status == 404 or answer.get("error") in ("device_flow_disabled", "unauthorized_client"):
            # An Enterprise Server before 2.22 has no such address.
            raise DeviceFlowRefused
        try:
            return DeviceCode.model_validate(answer)
        except ValidationError:
            raise Unavailable(f"GitHub did not begin the login: {_error(answer)}", status=status) from None

    async def outcome(self, device_code: SecretStr) -> Wait | Actor:
        """Ask `POST /login/oauth/access_token` once. Raises LoginRefused, and DeviceFlowRefused."""
        code = device_code.get_secret_value()
        if (unread := self._unread.get(code)) is not None:
            return await self._person(code, unread)
        status, answer = await self._post("/login/oauth/access_token", {"device_code": code, "grant_type": _GRANT})
        token = answer.get("access_token")
        if isinstance(token, str) and token:
            self._unread[code] = SecretStr(token)
            return await self._person(code, SecretStr(token))
        match answer.get("error"):
            case "authorization_pending":
                return Wait()
            case "slow_down":
                interval = answer.get("interval")
                if isinstance(interval, int) and 0 < interval <= _LONGEST_INTERVAL:
                    return Wait(timedelta(seconds=interval))
                return Wait(_AFTER_SLOW_DOWN)
            case "access_denied":
                raise LoginRefused("denied")
            case "expired_token" | "token_expired":
                # The page's table has the first word, and its text the second one.
                raise LoginRefused("expired")
            case "incorrect_device_code":
                raise LoginRefused("used")
            case "device_flow_disabled":
                raise DeviceFlowRefused
        raise Unavailable(f"GitHub did not finish the login: {_error(answer)}", status=status)

    async def _person(self, code: str, token: SecretStr) -> Actor:
        """Read `GET /user`: who authorized the App. The token is forgotten once GitHub answered."""
        reply = await self._api.exchange(Call("GET", "/user"), Credential(token=token))
        found = parse_answer(_UserAnswer, self._api.parse(reply))
        self._unread.pop(code, None)
        if self._client_secret is not None and self._client_id is not None:
            secret = self._client_secret
            await revoke_user_token(self._api, client_id=self._client_id, client_secret=secret, token=token)
        if found.type != "User":
            raise LoginRefused("denied")
        return Actor(found.id, found.login)

    async def _post(self, path: str, fields: Mapping[str, str]) -> tuple[int, Mapping[str, Any]]:
        """Send a call to the website; return status and body. Raises GitHubError for an answer that is no object."""
        if self._client_id is None:
            self._client_id = await self._read_client_id()
        if not self._client_id:
            raise DeviceFlowRefused
        body = {"client_id": self._client_id, **fields}
        reply = await self._website.exchange(Call("POST", path, body=body, accept=_JSON), Credential())
        try:
            answer = json.loads(reply.body)
        except ValueError:
            answer = None
        if isinstance(answer, dict) and reply.status < 500 and reply.status != 429:
            return reply.status, answer
        error = refusal(reply.status, reply.headers, reply.body, self._clock.now())
        if isinstance(error, NotFound):
            return 404, {}
        raise error if reply.status >= 400 else GitHubError("the answer is not GitHub's", status=reply.status)


def _error(answer: Mapping[str, Any]) -> str:
    """Return GitHub's error code; nothing else of the answer, which may have a code in it."""
    return str(answer.get("error", "its answer has other fields"))[:100]


_log = structlog.get_logger("imq.github")


async def revoke_user_token(api: Client, *, client_id: str, client_secret: SecretStr, token: SecretStr) -> None:
    """Send `DELETE /applications/{client_id}/token` ("Delete an app token"). A fault is logged: the token expires."""
    call = Call(
        "DELETE",
        "/applications/{client_id}/token",
        {"client_id": client_id},
        {"access_token": token.get_secret_value()},
    )
    basic = SecretStr(f"{client_id}:{client_secret.get_secret_value()}")
    try:
        reply = await api.exchange(call, Credential(basic=basic))
        if reply.status >= 300:
            _log.warning("login_token_not_revoked", status=reply.status)
    except GitHubError as error:
        _log.warning("login_token_not_revoked", error=error.message)
