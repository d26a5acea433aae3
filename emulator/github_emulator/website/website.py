"""Registering an app from a manifest and installing it, as a signed-in person does on github.com.

Source: GitHub's pages "Registering a GitHub App from a manifest" and "About the setup URL"; probot's set-up reads the
same parameters.
"""

import json
from html import escape
from typing import Any

from aiohttp import web
from yarl import URL

from github_emulator.core.errors import ApiError, NotFound
from github_emulator.facade.github import GitHub
from github_emulator.state import App, User
from github_emulator.website.html import errors, form, page

_REFUSED = "Invalid GitHub App configuration"
_REFUSED_TEXT = "<p>The configuration does not appear to be a valid GitHub App manifest.</p>"


class Website:
    """The pages. `visitor` is the login of the person at the browser, who owns every organization.

    A person who is not `signed_in` is sent to sign in, and comes back without the form that was sent: GitHub then shows
    an empty page (agent-glovebox #393, probot #1170).
    """

    def __init__(self, github: GitHub, *, visitor: str = "maintainer") -> None:
        self.visitor = visitor
        self.signed_in = True
        self._github = github

    def routes(self) -> list[web.RouteDef]:
        """The pages' addresses."""
        return [
            web.get("/login", self._login),
            web.post("/session", self._sign_in),
            web.get("/settings/apps/new", self._empty),
            web.get("/organizations/{organization}/settings/apps/new", self._empty),
            web.post("/settings/apps/new", self._new),
            web.post("/organizations/{organization}/settings/apps/new", self._new),
            web.post("/settings/apps", self._create),
            web.post("/organizations/{organization}/settings/apps", self._create),
            web.get("/apps/{slug}/installations/new", self._choose),
            web.post("/apps/{slug}/installations", self._install),
            web.get("/settings/installations/{installation}", self._installed),
        ]

    async def _login(self, request: web.Request) -> web.Response:
        hidden = {"return_to": request.query.get("return_to", "/")}
        return page("Sign in to GitHub", form("/session", hidden, "", "Sign in"))

    async def _sign_in(self, request: web.Request) -> web.Response:
        """Sign the person in, and send them on by a GET."""
        self.signed_in = True
        raise web.HTTPFound(URL(str((await request.post()).get("return_to", "/"))).path)

    async def _empty(self, request: web.Request) -> web.Response:
        """Ask for everything, as without a manifest."""
        self._owner(request)
        return page("Register new GitHub App", form(request.path.removesuffix("/new"), {}, "", "Create GitHub App"))

    async def _new(self, request: web.Request) -> web.Response:
        """Ask for the app's name."""
        if not self.signed_in:
            raise web.HTTPFound(URL("/login").with_query(return_to=request.path))
        self._owner(request)
        given = await request.post()
        manifest = _manifest(given.get("manifest"))
        problems = ["the manifest is no JSON object"] if manifest is None else self._problems(manifest)
        if manifest is None or problems:
            return page(_REFUSED, _REFUSED_TEXT + errors(problems), status=422)
        name = str(manifest.get("name", ""))
        label = f'<label>GitHub App name <input type="text" name="name" value="{escape(name)}"></label>'
        hidden = {"manifest": json.dumps(manifest), "state": request.query.get("state", "")}
        action = request.path.removesuffix("/new")
        return page("Create GitHub App", form(action, hidden, label, "Create GitHub App"))

    async def _create(self, request: web.Request) -> web.Response:
        """Create the app, and send the person back with the code."""
        owner, given = self._owner(request), await request.post()
        manifest = _manifest(given.get("manifest"))
        if manifest is None:
            raise web.HTTPBadRequest
        try:
            code = self._github.app_manifests.register(manifest, str(given.get("name", "")), owner)
        except ApiError as refusal:
            return page(_REFUSED, errors([refusal.message]), status=422)
        state = {"state": str(given["state"])} if given.get("state") else {}
        raise web.HTTPFound(URL(manifest["redirect_url"]).update_query({"code": code, **state}))

    async def _choose(self, request: web.Request) -> web.Response:
        """Ask where to install the app: a private one only its owner's account can."""
        app = self._app(request)
        label = f"<p>Install on your account <b>{escape(app.owner.login)}</b>: all repositories.</p>"
        action = f"/apps/{app.slug}/installations"
        return page(f"Install {app.name or app.slug}", form(action, {}, label, "Install"))

    async def _install(self, request: web.Request) -> web.Response:
        """Install the app, and send the person to its setup URL."""
        app = self._app(request)
        installation = self._github.install(app, app.owner.login)
        if app.setup_url is None:
            raise web.HTTPFound(f"/settings/installations/{installation.id}")
        query = {"installation_id": str(installation.id), "setup_action": "install"}
        raise web.HTTPFound(URL(app.setup_url).update_query(query))

    async def _installed(self, request: web.Request) -> web.Response:
        return page("Installed GitHub App", f"<p>Installation {escape(request.match_info['installation'])}</p>")

    def _problems(self, manifest: dict[str, Any]) -> list[str]:
        return self._github.app_manifests.problems(manifest)

    def _owner(self, request: web.Request) -> User:
        """The account that will own the app. Raises HTTPNotFound for an organization that is none."""
        if "organization" not in request.match_info:
            return self._github.accounts.user_or_new(self.visitor)
        try:
            owner = self._github.user(request.match_info["organization"])
        except NotFound:
            raise web.HTTPNotFound from None
        if owner.kind != "Organization":
            raise web.HTTPNotFound
        return owner

    def _app(self, request: web.Request) -> App:
        for app in self._github.state.apps.values():
            if app.slug == request.match_info["slug"]:
                return app
        raise web.HTTPNotFound


def _manifest(text: object) -> dict[str, Any] | None:
    try:
        found = json.loads(str(text))
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
