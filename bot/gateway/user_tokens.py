"""Revoke the token of a person that GitHub gave to the App, once IMQ knows who the person is."""

import structlog
from pydantic import SecretStr

from bot.gateway.http.client import Call, Client, Credential
from queue_engine.domain.errors import GitHubError

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
