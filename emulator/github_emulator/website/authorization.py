"""The pages on which a person authorizes an App, and the endpoint that exchanges the code.

Sources: "Generating a user access token for a GitHub App", "Troubleshooting authorization request errors" and "OAuth
app access token request errors"; RoboJackets/apiary #1344 (a person who denies), RedPlanetHQ/core #231 (a redirect_uri
that the App's settings do not name), octokit/octokit.rb #347 (errors have status 200).
"""

import base64
import binascii
from html import escape
from typing import Any
from urllib.parse import urlencode

from aiohttp import web
from yarl import URL

from github_emulator.callers.tokens import Tokens
from github_emulator.domain.accounts.device_codes import GRANT
from github_emulator.domain.accounts.user_authorizations import CodeError
from github_emulator.facade.github import GitHub
from github_emulator.state import App
from github_emulator.website.device_pages import DevicePages
from github_emulator.website.html import form, page

_DOCS = "https://docs.github.com/apps/managing-oauth-apps"
_CHALLENGE_LENGTH = 43
_KEPT = ("client_id", "redirect_uri", "state", "code_challenge", "code_challenge_method")
_PREFIXES = ("", "/api/v3")
_USER_LIFE, _REFRESH_LIFE = 28800, 15897600


class AuthorizationPages:
    """The web application flow. `visitor` is the person whom the page proposes; a test or the demo chooses another."""

    def __init__(self, github: GitHub, tokens: Tokens) -> None:
        self.visitor = "mona"
        self._github = github
        self._tokens = tokens
        self._devices = DevicePages(
            github, token_of=lambda user: tokens.user_of_app(user.login), visitor=lambda: self.visitor
        )

    def routes(self) -> list[web.RouteDef]:
        """The addresses of the website, and those of the API that belong to the flow."""
        return [
            web.get("/login/oauth/authorize", self._ask),
            web.post("/login/oauth/authorize", self._answer),
            web.post("/login/oauth/access_token", self._exchange),
            *self._devices.routes(),
            *(web.delete(f"{prefix}/applications/{{client_id}}/token", self._revoke) for prefix in _PREFIXES),
        ]

    async def _ask(self, request: web.Request) -> web.Response:
        """Ask the person at the browser."""
        given = dict(request.query)
        app, callback = self._place(given)
        if isinstance(callback, web.Response):
            return callback
        hidden = {name: given[name] for name in _KEPT if name in given}
        people = f'<label>Person <input type="text" name="login" value="{escape(self.visitor)}"></label>'
        yes = form("/login/oauth/authorize", hidden, people, f"Authorize {app.name or app.slug}")
        no = form("/login/oauth/authorize", {**hidden, "denied": "1"}, "", "Cancel")
        return page(f"Authorize {app.name or app.slug}", yes + no)

    async def _answer(self, request: web.Request) -> web.Response:
        """Send the person back, with a code or with what they said."""
        given = {name: str(value) for name, value in (await request.post()).items()}
        app, callback = self._place(given)
        if isinstance(callback, web.Response):
            return callback
        state = {"state": given["state"]} if "state" in given else {}
        if "denied" in given:
            denied = {
                "error": "access_denied",
                "error_description": "The user has denied your application access.",
                "error_uri": f"{_DOCS}/troubleshooting-authorization-request-errors/#access-denied",
            }
            raise web.HTTPFound(URL(callback).update_query({**denied, **state}))
        user = self._github.state.users.get(given.get("login", "").lower())
        if user is None or not self._github.user_authorizations.admits(app, user):
            raise web.HTTPNotFound
        challenge = given.get("code_challenge") if self._github.behaviour.pkce else None
        code = self._github.user_authorizations.grant(app, user, callback, challenge)
        raise web.HTTPFound(URL(callback).update_query({"code": code, **state}))

    def _place(self, given: dict[str, str]) -> tuple[App, str | web.Response]:
        """The App, and where the person is sent back; or the page that says why not."""
        authorizations = self._github.user_authorizations
        app = authorizations.app(given.get("client_id", ""))
        if app is None:
            raise web.HTTPNotFound
        callback = authorizations.callback(app, given.get("redirect_uri"))
        if callback is None:
            return app, self._mismatch(app, given)
        challenge = given.get("code_challenge")
        wrong = challenge is not None and (
            len(challenge) != _CHALLENGE_LENGTH or given.get("code_challenge_method") != "S256"
        )
        if wrong and self._github.behaviour.pkce:
            return app, page("Invalid code challenge", "<p>Only S256 is supported.</p>", status=400)
        return app, callback

    def _mismatch(self, app: App, given: dict[str, str]) -> web.Response:
        if self._github.behaviour.redirect_mismatch_returned and app.callback_urls:
            query = {
                "error": "redirect_uri_mismatch",
                "error_description": "The redirect_uri MUST match the registered callback URL for this application.",
                "state": given.get("state", ""),
            }
            raise web.HTTPFound(URL(app.callback_urls[0]).update_query(query))
        return page("Be careful!", "<p>The redirect_uri is not associated with this application.</p>")

    async def _exchange(self, request: web.Request) -> web.Response:
        """A token for a code. Errors have the status 200."""
        given = await _fields(request)
        if given.get("grant_type") == GRANT:
            return self._devices.exchange(request, given)
        try:
            answer = self._token(given)
        except CodeError as refusal:
            answer = {
                "error": refusal.error,
                "error_description": refusal.description,
                "error_uri": f"{_DOCS}/troubleshooting-oauth-app-access-token-request-errors/",
            }
        if "application/json" in request.headers.get("Accept", ""):
            return web.json_response(answer)
        return web.Response(text=urlencode(answer), content_type="application/x-www-form-urlencoded")

    def _token(self, given: dict[str, str]) -> dict[str, Any]:
        app = self._github.user_authorizations.app(given.get("client_id", ""))
        if app is None or not app.client_secret or given.get("client_secret") != app.client_secret:
            raise CodeError("incorrect_client_credentials", "The client_id and/or client_secret passed are incorrect.")
        user = self._github.user_authorizations.redeem(
            app, given.get("code", ""), given.get("redirect_uri"), given.get("code_verifier")
        )
        token = self._tokens.user_of_app(user.login)
        expiring = {"expires_in": _USER_LIFE, "refresh_token": f"ghr_{token[4:]}"}
        expires = {**expiring, "refresh_token_expires_in": _REFRESH_LIFE}
        return {
            "access_token": token,
            **(expires if self._github.behaviour.user_tokens_expire else {}),
            "token_type": "bearer",
            "scope": "",
        }

    async def _revoke(self, request: web.Request) -> web.Response:
        """Delete a token ("Delete an app token"): 204, 404 for other credentials, and 422 for an unknown token."""
        app = self._github.user_authorizations.app(request.match_info["client_id"])
        if app is None or _basic(request) != (app.client_id, app.client_secret):
            return web.json_response({"message": "Not Found"}, status=404)
        if not self._tokens.revoke_user((await _fields(request)).get("access_token", "")):
            return web.json_response({"message": "Validation Failed"}, status=422)
        return web.Response(status=204)


async def _fields(request: web.Request) -> dict[str, str]:
    """What was sent: as query, as JSON, or as a form."""
    sent = await request.json() if request.content_type == "application/json" else await request.post()
    return {**request.query, **{name: str(value) for name, value in dict(sent).items()}}


def _basic(request: web.Request) -> tuple[str, str] | None:
    scheme, _, encoded = request.headers.get("Authorization", "").partition(" ")
    try:
        name, _, secret = base64.b64decode(encoded).decode().partition(":")
    except (binascii.Error, ValueError):
        return None
    return (name, secret) if scheme.lower() == "basic" else None
