"""Find the pages of GitHub's website, and exchange the code of a registration for the App's credentials."""

import re
import secrets
from urllib.parse import quote

from pydantic import BaseModel, SecretStr, ValidationError

from bot.gateway.http.client import Call, Client, Credential
from bot.registration.credentials import Credentials
from bot.settings.github_website import website
from queue_engine.domain.errors import NotFound, Unavailable

_CODE = re.compile(r"[A-Za-z0-9_-]{1,200}")


class CodeRefused(Exception):
    """GitHub has no App for this code. The message is a sentence for the person at the browser."""


class _Conversion(BaseModel):
    """The answer of "Create a GitHub App from a manifest"; the webhook secret may be null."""

    id: int
    html_url: str
    pem: SecretStr
    webhook_secret: SecretStr | None
    client_id: str = ""
    client_secret: SecretStr | None = None


def registration_url(api_url: str, organization: str, state: str) -> str:
    """Return the address that takes the manifest, for an account of a person if `organization` is empty."""
    place = f"/organizations/{quote(organization, safe='')}" if organization else ""
    return f"{website(api_url)}{place}/settings/apps/new?state={quote(state, safe='')}"


async def exchange(client: Client, code: str) -> Credentials:
    """Exchange the code, which works once and for an hour. Raises CodeRefused, and Unavailable to try again."""
    if not _CODE.fullmatch(code):
        raise CodeRefused("GitHub sent no code. Start again.")
    call = Call("POST", "/app-manifests/{code}/conversions", {"code": code})
    try:
        found = _Conversion.model_validate(client.parse(await client.exchange(call, Credential())))
    except NotFound:
        raise CodeRefused("GitHub knows no App for this code: it works once, and for an hour. Start again.") from None
    except ValidationError:
        raise Unavailable("the answer to the code is not GitHub's") from None
    # An App without a webhook has no secret; IMQ sets this one at its start.
    secret = found.webhook_secret or SecretStr(secrets.token_hex(32))
    return Credentials(
        found.id, found.html_url, found.pem, secret, client_id=found.client_id, client_secret=found.client_secret
    )
