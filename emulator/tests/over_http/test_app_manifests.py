"""Registering an app from a manifest, as a person in a browser and a program together do it."""

import hashlib
import hmac
import json
import re
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from aiohttp import ClientResponse
from yarl import URL

from github_emulator import App
from over_http.conftest import Client

MANIFEST: dict[str, Any] = {
    "name": "Queue of acme",
    "url": "https://imq.example.com",
    "hook_attributes": {"url": "https://imq.example.com/webhook"},
    "redirect_url": "https://imq.example.com/setup/callback?from=github",
    "setup_url": "https://imq.example.com/setup/installed",
    "public": False,
    "default_permissions": {"issues": "read", "checks": "write"},
    "default_events": ["issue_comment", "check_run"],
}


async def submit(client: Client, path: str, **fields: str) -> ClientResponse:
    """Submit a form as a browser does, without following a redirect."""
    return await client.session.post(client.server.url + path, data=fields, allow_redirects=False)


async def create(client: Client, manifest: dict[str, Any], *, path: str = "/settings/apps", name: str = "") -> URL:
    """Go through both pages; return where GitHub sends the browser."""
    shown = await submit(client, f"{path}/new?state=s%26t", manifest=json.dumps(manifest))
    assert shown.status == 200
    hidden = dict(re.findall(r'name="(manifest|state|name)" value="([^"]*)"', await shown.text()))
    fields = {key: unescape(value) for key, value in hidden.items()}
    answer = await submit(client, path, **(fields | ({"name": name} if name else {})))
    assert answer.status == 302, await answer.text()
    return URL(answer.headers["Location"])


async def test_manifest_gives_the_credentials_for_the_code_once(client: Client) -> None:
    """The code and the state come back beside the redirect's own parameters; the second use finds nothing."""
    client.github.create_user("guild", "Organization")
    redirect = await create(client, MANIFEST, path="/organizations/guild/settings/apps")
    assert redirect.with_query(None) == URL("https://imq.example.com/setup/callback")
    assert (redirect.query["from"], redirect.query["state"]) == ("github", "s&t")
    path = f"/app-manifests/{redirect.query['code']}/conversions"
    answer = await client.call("POST", path, 201, who="anonymous")
    app = client.github.state.apps[answer["id"]]
    assert (answer["slug"], answer["name"], answer["owner"]["login"]) == ("queue-of-acme", "Queue of acme", "guild")
    assert (answer["pem"], answer["webhook_secret"]) == (app.private_key, app.webhook_secret)
    assert (app.webhook_url, app.events) == ("https://imq.example.com/webhook", frozenset(MANIFEST["default_events"]))
    assert app.permissions == {"metadata": "read", "issues": "read", "checks": "write"}
    await client.call("POST", path, 404, who="anonymous")


async def test_code_of_a_manifest_ends_after_an_hour(client: Client) -> None:
    """Who comes too late registers again."""
    redirect = await create(client, MANIFEST)
    await client.github.advance(timedelta(hours=1))
    await client.call("POST", f"/app-manifests/{redirect.query['code']}/conversions", 404, who="anonymous")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"url": ""}, '"url" wasn\'t supplied.'),
        ({"hook_attributes": {"active": False}}, '"url" wasn\'t supplied.'),
        ({"default_events": ["installation"]}, "Default events unsupported: installation"),
        ({"default_events": ["push"]}, "Default events are not supported by permissions: push"),
        (
            {"default_permissions": {"pull_requests": "write"}},
            "Default events are not supported by permissions: issue_comment and check_run",
        ),
    ],
)
async def test_manifest_that_github_refuses_creates_no_app(
    client: Client, change: dict[str, Any], sentence: str
) -> None:
    """The page says why, in GitHub's words."""
    before = len(client.github.state.apps)
    answer = await submit(client, "/settings/apps/new", manifest=json.dumps(MANIFEST | change))
    assert answer.status == 422
    assert sentence in unescape(await answer.text())
    assert len(client.github.state.apps) == before


async def test_manifest_with_a_taken_name_is_refused(client: Client) -> None:
    """Names of apps and accounts are unique on all of GitHub."""
    answer = await submit(client, "/settings/apps", manifest=json.dumps(MANIFEST), name="IMQ")
    assert answer.status == 422
    assert "Name is already taken" in await answer.text()


async def test_manifest_without_a_webhook_registers_an_app_that_has_none(client: Client) -> None:
    """`hook_attributes` may be left out; the address is set later."""
    redirect = await create(client, {key: MANIFEST[key] for key in MANIFEST if key != "hook_attributes"})
    answer = await client.call("POST", f"/app-manifests/{redirect.query['code']}/conversions", 201, who="anonymous")
    assert client.github.state.apps[answer["id"]].webhook_url is None


async def test_registered_app_is_installed_and_the_person_sent_to_its_setup_url(client: Client) -> None:
    """`{html_url}/installations/new` leads to the installation, and its id to the app."""
    redirect = await create(client, MANIFEST)
    answer = await client.call("POST", f"/app-manifests/{redirect.query['code']}/conversions", 201, who="anonymous")
    chosen = await client.session.get(f"{answer['html_url']}/installations/new")
    assert chosen.status == 200
    found = re.search(r'action="([^"]+)"', await chosen.text())
    assert found is not None
    chosen = await submit(client, found[1])
    target = URL(chosen.headers["Location"])
    installation = client.github.state.installations[int(target.query["installation_id"])]
    assert installation.app.id == answer["id"]
    assert target.with_query(None) == URL(MANIFEST["setup_url"])
    assert target.query["setup_action"] == "install"


async def test_webhook_address_and_secret_are_changed_by_the_app(client: Client) -> None:
    """The secret is never shown; deliveries go to the new address, signed with the new secret, in the new format."""
    app: App = client.app
    answer = await client.get("/app/hook/config", who="app")
    address = answer["url"]
    assert answer.content == {"content_type": "json", "insecure_ssl": "0", "url": address}
    change = {"secret": "another-secret-of-the-app", "content_type": "form"}
    changed = await client.call("PATCH", "/app/hook/config", 200, who="app", json_body=change)
    assert changed.content == {"content_type": "form", "insecure_ssl": "0", "url": address, "secret": "********"}
    client.repo.push("main", {"n": "1\n"}, "On", by="maria")
    delivery = client.github.state.deliveries[-1]
    assert delivery.request_headers["Content-Type"] == "application/x-www-form-urlencoded"
    unset = {"url": "https://elsewhere.example.com/webhook", "content_type": "json"}
    await client.call("PATCH", "/app/hook/config", 200, who="app", json_body=unset)
    client.repo.push("main", {"n": "2\n"}, "On", by="maria")
    delivery = client.github.state.deliveries[-1]
    digest = hmac.new(app.webhook_secret.encode(), delivery.payload.encode(), hashlib.sha256).hexdigest()
    assert delivery.url == "https://elsewhere.example.com/webhook"
    assert delivery.request_headers["X-Hub-Signature-256"] == f"sha256={digest}"
    assert app.webhook_secret == "another-secret-of-the-app"
    await client.call("PATCH", "/app/hook/config", 401, json_body=unset)
