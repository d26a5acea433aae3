"""Endpoints of an app's registration: its credentials for the code of a manifest, and where its webhooks go."""

from typing import Any

from github_emulator import payloads
from github_emulator.callers.errors import invalid_request
from github_emulator.rest.answer import Access, Answer
from github_emulator.rest.call import Call
from github_emulator.rest.routing import Routes
from github_emulator.state import App

routes = Routes("apps/apps")
_APP = Access("app")
_MASK = "********"
"""What GitHub shows in the place of a secret ("Get a webhook configuration for an app")."""


@routes.add("POST", "/app-manifests/{code}/conversions", Access("anyone"), docs="#create-a-github-app-from-a-manifest")
def convert(call: Call) -> Answer:
    """The app's credentials, which are never shown again."""
    app = call.github.app_manifests.convert(call.params["code"])
    credentials = {
        "client_secret": app.client_secret,
        "webhook_secret": app.webhook_secret or None,
        "pem": app.private_key,
    }
    return Answer(payloads.integration(call.github.source, app) | credentials, 201)


@routes.add("GET", "/app/hook/config", _APP, docs="apps/webhooks#get-a-webhook-configuration-for-an-app")
def get_hook(call: Call) -> Answer:
    """Where the webhooks go; the secret is masked."""
    return Answer(_hook(call.app))


@routes.add("PATCH", "/app/hook/config", _APP, docs="apps/webhooks#update-a-webhook-configuration-for-an-app")
def update_hook(call: Call) -> Answer:
    """Change what is given, and leave the rest."""
    app = call.app
    kind = call.one_of("content_type", ("json", "form"), app.hook_format)
    url: str = call.take("url", str, app.webhook_url or "")
    if url and not url.startswith(("http://", "https://")):
        raise invalid_request(f"For 'properties/url', {url} is not a valid URL.")
    app.webhook_url = url or None
    app.webhook_secret = call.take("secret", str, app.webhook_secret)
    app.hook_format = kind
    app.hook_insecure = str(call.data.get("insecure_ssl", int(app.hook_insecure))) == "1"
    return Answer(_hook(app))


def _hook(app: App) -> dict[str, Any]:
    shown = {"secret": _MASK} if app.webhook_secret else {}
    return {
        "content_type": app.hook_format,
        "insecure_ssl": str(int(app.hook_insecure)),
        "url": app.webhook_url or "",
        **shown,
    }
