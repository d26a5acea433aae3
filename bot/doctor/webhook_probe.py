"""Call the public webhook address as GitHub does, and name what is between it and IMQ.

The call is a signed `ping`, which GitHub sends when a webhook is created ("Webhook events and payloads"). IMQ stores
nothing for it. Its delivery id begins with `imq-doctor-`, and the receiver answers such a ping with its App's id.
"""

import asyncio
import hashlib
import hmac
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from uuid import uuid4

import aiohttp
from pydantic import SecretStr

from bot.api.finding import Finding
from bot.settings.setting_values import is_private
from bot.webhooks.receiver import PROBE

if TYPE_CHECKING:
    # The status of the App needs the address alone, and few processes ever examine an installation.
    from bot.doctor.doctor_facts import AppFacts

PATH = "/webhook"

_EXAMPLE = "imq.example.com"


def address_fault(address: str, public_url: str | None, relay_url: str | None = None) -> str | None:
    """Return the remedy of a wrong webhook address; None if no fault is known.

    `public_url` is the address at which people and GitHub reach IMQ, if the operator gave it.
    `relay_url` is the channel of a webhook relay, which counts more.
    """
    if relay_url:
        return None if address == relay_url else f"Set the App's webhook URL to {relay_url}."
    if public_url:
        wanted = public_url.rstrip("/") + PATH
        return None if address == wanted else f"Set the App's webhook URL to {wanted}."
    if not address:
        return f"The App has no webhook URL: set it to IMQ's public address with {PATH} at its end."
    parts = urlsplit(address)
    if parts.hostname == _EXAMPLE:
        return f"The webhook URL is the example of app.yml: set it to IMQ's public address with {PATH} at its end."
    if not parts.path.endswith(PATH):
        return f"IMQ receives webhooks at {PATH}: put that at the end of the webhook URL."
    if parts.scheme != "https" and not is_private(parts.hostname or ""):
        return "The webhook URL is plain http, over which everybody on the way reads the webhooks: make it https."
    return None


UNTRUSTED = "proxy_untrusted"
"""The code of the finding with which IMQ was reached all the same."""
_LIMIT = timedelta(seconds=10)
_MAX_BODY = 64 * 1024
_LINK = "docs/operating.md#webhook-answers"
_IMPACT = "IMQ learns of labels, pushes and checks only from its sweep, minutes later."
_REDIRECTS = (301, 302, 303, 307, 308)


@dataclass(frozen=True, slots=True)
class WebhookProbe:
    """Calls the address to which GitHub sends webhooks, or looks at the relay that forwards them."""

    session: aiohttp.ClientSession
    secret: SecretStr
    app_id: int
    relay_url: str | None = None

    async def find(self, address: str, *, arrives: bool) -> Finding | None:
        """Return the fault of the way to IMQ, if there is one.

        `arrives` says whether GitHub's newest delivery arrived: then a connection that only this machine cannot make is
        no fault.
        """
        try:
            async with asyncio.timeout(_LIMIT.total_seconds()):
                if self.relay_url is not None:
                    return await self._relay(self.relay_url)
                return await self._call(address)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            return None if arrives else _unreachable(self.relay_url or address, error)

    async def _call(self, address: str) -> Finding | None:
        body = json.dumps({"zen": "Keep it logically awesome.", "hook_id": 0}).encode()
        signature = hmac.new(self.secret.get_secret_value().encode(), body, hashlib.sha256).hexdigest()
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "GitHub-Hookshot/imq-doctor",
            "X-GitHub-Event": "ping",
            "X-GitHub-Delivery": f"{PROBE}{uuid4().hex}",
            "X-Hub-Signature-256": f"sha256={signature}",
        }
        async with self.session.post(address, data=body, headers=headers, allow_redirects=False) as answer:
            content = await answer.content.read(_MAX_BODY)
            return self._judge(address, answer.status, answer.headers, _parsed(content))

    def _judge(self, address: str, status: int, headers: Mapping[str, str], body: Any) -> Finding | None:
        if status in _REDIRECTS:
            to = headers.get("Location", "another address")
            return _finding(
                "webhook_redirected",
                f"{address} redirects to {to}.",
                "Set the App's webhook URL to the address at which IMQ answers: GitHub follows no redirect.",
            )
        answered = body if isinstance(body, dict) else {}
        if status == 202 and answered.get("result") == "probed":
            if answered.get("app") != self.app_id:
                return _finding(
                    "webhook_answered_by_another_imq",
                    f"Another IMQ answers at {address}, for another App.",
                    "Set the App's webhook URL to the address of this IMQ, or IMQ_PUBLIC_URL to its own.",
                )
            proxy = answered.get("untrusted_proxy")
            return _untrusted(proxy) if isinstance(proxy, str) else None
        if status == 202 and answered.get("result") == "ignored":
            # An IMQ of an earlier release, which knows the secret.
            return None
        if status == 401 and "webhook secret" in str(answered.get("error", "")):
            return _finding(
                "webhook_secret_differs",
                f"The IMQ at {address} has another webhook secret than these settings.",
                "Set the same IMQ_GITHUB_WEBHOOK_SECRET for every process, and start them again.",
            )
        server = headers.get("Server", "")
        return _finding(
            "webhook_answered_by_another_server",
            f"{address} answers {status}, and not as IMQ does{f' (Server: {server})' if server else ''}.",
            "Let your proxy pass POST /webhook on to IMQ's port as it is, without a login; see the proxy's log.",
        )

    async def _relay(self, url: str) -> Finding | None:
        """Listen at the relay for a moment: it sends every listener a copy, so nothing is lost."""
        async with self.session.get(url, headers={"Accept": "text/event-stream"}) as answer:
            if answer.status == 200 and answer.content_type == "text/event-stream":
                return None
            return _finding(
                "relay_answers_wrongly",
                f"The relay {url} answers {answer.status} with {answer.content_type}, and no stream of events.",
                "Check IMQ_RELAY_URL: open it in a browser, or run `imq setup --relay` with a new channel.",
            )


async def probed(probe: WebhookProbe, app: "AppFacts") -> list[Finding]:
    """Probe the address of the App's webhook; if that is wrong, the one at which IMQ is meant to be."""
    address = "" if app.webhook is None else app.webhook.url
    if not address or address_fault(address, app.public_url, app.relay_url) is not None:
        if app.public_url is None or app.relay_url:
            return []
        address = app.public_url.rstrip("/") + PATH
    newest = app.deliveries[0] if app.deliveries else None
    arrives = newest is not None and newest.succeeded and app.delivered_to in (None, address)
    found = await probe.find(address, arrives=arrives)
    return [] if found is None else [found]


def _parsed(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        return None


def _untrusted(proxy: str) -> Finding:
    return Finding(
        UNTRUSTED,
        "IMQ",
        f"A reverse proxy at {proxy} forwards requests, and IMQ_TRUSTED_PROXIES does not name it.",
        "All clients share the limits of one: a single stranger can keep everybody from logging in.",
        "Set IMQ_TRUSTED_PROXIES to the proxy's network, such as `private`, in every web process.",
        "docs/operating.md#settings-in-depth",
    )


def _unreachable(address: str, error: Exception) -> Finding:
    """Name why no connection came about."""
    match error:
        case aiohttp.ClientConnectorDNSError():
            return _finding(
                "webhook_name_unknown",
                f"The name in {address} does not resolve.",
                "Check the name and its DNS record; a new record takes minutes to hours.",
            )
        case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientSSLError() | ssl.SSLError():
            return _finding(
                "webhook_certificate_refused",
                f"TLS fails at {address}: {_brief(error)}.",
                "Renew the certificate, with its whole chain, for exactly this name. GitHub refuses others.",
            )
        case TimeoutError():
            return _finding(
                "webhook_unreachable",
                f"{address} does not answer within {_LIMIT.total_seconds():.0f} seconds.",
                "Check that the process runs, and that a firewall lets GitHub's addresses in.",
            )
    return _finding(
        "webhook_unreachable",
        f"No connection to {address}: {_brief(error)}.",
        "Check that the process runs, its port and bind address, and the firewall. If only this machine cannot "
        "connect, look at the App's recent deliveries on GitHub.",
    )


def _brief(error: Exception) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__


def _finding(code: str, finding: str, remedy: str) -> Finding:
    return Finding(code, "App", finding, _IMPACT, remedy, _LINK)
