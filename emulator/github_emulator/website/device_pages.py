"""The device flow: what a device asks for, and the page on which a person types its code.

Errors of the device's second call have status 200 (GitHub's page "Generating a user access token for a GitHub App"). A
client id that is unknown has 404 (cli/oauth's `device_flow.go`).
"""

import json
from collections.abc import Callable, Mapping
from html import escape
from typing import Any
from urllib.parse import urlencode

from aiohttp import web

from github_emulator.domain.accounts.device_codes import LIFE
from github_emulator.facade.github import GitHub
from github_emulator.state import User
from github_emulator.website.html import errors, form, page

_DOCS = "https://docs.github.com"
_SENTENCES = {
    "authorization_pending": "The authorization request is still pending.",
    "slow_down": "Too many requests have been made in the same timeframe.",
    "expired_token": "This 'device_code' has expired.",
    "token_expired": "This 'device_code' has expired.",
    "access_denied": "The authorization request was denied.",
    "incorrect_device_code": "The device_code provided is not valid.",
    "device_flow_disabled": "Device Flow must be explicitly enabled for this App",
    "incorrect_client_credentials": "The client_id and/or client_secret passed are incorrect.",
}


class DevicePages:
    """The addresses of devices, and the pages of people.

    `visitor` returns the login that the page proposes; the person at the browser may type another one.
    """

    def __init__(self, github: GitHub, *, token_of: Callable[[User], str], visitor: Callable[[], str]) -> None:
        self._github = github
        self._token_of = token_of
        self._visitor = visitor

    def routes(self) -> list[web.RouteDef]:
        """The addresses."""
        return [
            web.post("/login/device/code", self._begin),
            web.get("/login/device", self._ask),
            web.post("/login/device", self._confirm),
            web.post("/login/device/authorize", self._decide),
        ]

    def exchange(self, request: web.Request, given: Mapping[str, Any]) -> web.Response:
        """Answer `POST /login/oauth/access_token` of a device."""
        app = self._github.user_authorizations.app(str(given.get("client_id", "")))
        if app is None:
            return reply(request, _error("incorrect_client_credentials"))
        if not app.device_flow:
            return reply(request, _error("device_flow_disabled"))
        found = self._github.device_codes.outcome(app, str(given.get("device_code", "")))
        if not isinstance(found, User):
            return reply(request, _error(**found))
        return reply(request, {"access_token": self._token_of(found), "token_type": "bearer", "scope": ""})

    async def _begin(self, request: web.Request) -> web.Response:
        given = await fields(request)
        app = self._github.user_authorizations.app(str(given.get("client_id", "")))
        if app is None:
            return reply(request, {"error": "Not Found"}, status=404)
        if not app.device_flow:
            return reply(request, _error("device_flow_disabled"), status=self._github.behaviour.device_flow_disabled)
        code = self._github.device_codes.begin(app)
        return reply(
            request,
            {
                "device_code": code.code,
                "user_code": code.user_code,
                "verification_uri": f"{self._github.addresses.html_url}/login/device",
                "expires_in": int(LIFE.total_seconds()),
                "interval": code.interval,
            },
        )

    async def _ask(self, _request: web.Request) -> web.Response:
        return _code_page([])

    async def _confirm(self, request: web.Request) -> web.Response:
        """Name the app whose device has the code, and ask for the person's decision."""
        typed = str((await request.post()).get("user_code", ""))
        code = self._github.device_codes.typed(typed)
        if code is None:
            return _code_page(["Uh oh, we couldn't find anything. Please check your code and try again."], status=404)
        name = escape(code.app.name or code.app.slug)
        text = (
            f"<p><b>{name}</b> by {escape(code.app.owner.login)} would like to verify your GitHub identity.</p>"
            f'<p><label>Person <input type="text" name="login" value="{escape(self._visitor())}"></label></p>'
            '<p><label><input type="checkbox" name="cancel" value="1"> Cancel instead</label></p>'
        )
        return page(f"Authorize {name}", form("/login/device/authorize", {"user_code": typed}, text, "Continue"))

    async def _decide(self, request: web.Request) -> web.Response:
        given = await request.post()
        code = self._github.device_codes.typed(str(given.get("user_code", "")))
        if code is None:
            return _code_page(["This code has expired."], status=404)
        cancelled = bool(given.get("cancel"))
        person = self._github.accounts.user_or_new(str(given.get("login") or self._visitor()))
        if not self._github.user_authorizations.admits(code.app, person):
            raise web.HTTPNotFound
        self._github.device_codes.decide(code, None if cancelled else person)
        return page("Device not activated" if cancelled else "Congratulations, you're all set!", "")


async def fields(request: web.Request) -> Mapping[str, Any]:
    """The parameters of a call: in its query, as a form, or as JSON."""
    if request.content_type == "application/json":
        content = json.loads(await request.text() or "{}")
        return {**request.query, **(content if isinstance(content, dict) else {})}
    return {**request.query, **await request.post()}


def reply(request: web.Request, content: Mapping[str, object], *, status: int = 200) -> web.Response:
    """An answer as JSON where the caller accepts that, else as a form."""
    if "application/json" in request.headers.get("Accept", ""):
        return web.json_response(content, status=status)
    return web.Response(text=urlencode(content), content_type="application/x-www-form-urlencoded", status=status)


def _code_page(problems: list[str], *, status: int = 200) -> web.Response:
    label = '<label>Enter the code displayed on your device <input type="text" name="user_code"></label>'
    text = errors(problems) + form("/login/device", {}, label, "Continue")
    return page("Device Activation", text, status=status)


def _error(error: object, **more: object) -> dict[str, object]:
    return {"error": error, "error_description": _SENTENCES[str(error)], "error_uri": _DOCS, **more}
