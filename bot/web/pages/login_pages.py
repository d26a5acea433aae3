"""Log people in and out: `/login`, GitHub's callback, and the page of one's own account."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import structlog
from aiohttp import web

from bot.api.api_errors import ApiError
from bot.web.addresses import own_path
from bot.web.login.attempts import Attempt, Attempts, CodeLimits
from bot.web.login.identity import Identity, LoginRefused
from bot.web.login.session_cookies import Logins, viewer
from bot.web.pages.site import LoginNeeded, Pages, Site, get, post
from queue_engine.core.timing.rate_limit import RateLimit

_REFUSALS = {
    "access_denied": "You did not allow it on GitHub, so you are not logged in.",
    "redirect_uri_mismatch": "GitHub does not know this callback URL. Tell IMQ's operator.",
}

_log = structlog.get_logger("imq.pages")


@dataclass(frozen=True, slots=True)
class LoginParts:
    """What logs people in."""

    identity: Identity
    attempts: Attempts
    logins: Logins
    limits: CodeLimits


class LoginPages(Pages):
    """The pages. Without `parts` they say which settings are missing."""

    def __init__(self, site: Site, parts: LoginParts | None, missing: Sequence[str]) -> None:
        """`missing` names the settings that a login needs and that are missing."""
        super().__init__(site)
        self._parts = parts
        self._missing = tuple(missing)
        self._logged = RateLimit(1, timedelta(minutes=1))

    @get("/login")
    async def _login(self, request: web.Request) -> web.Response:
        to = own_path(request.query.get("to", "/"))
        if viewer(request).logged_in:
            return self._site.see_other(request, to)
        return await self._page(request, to)

    async def _page(self, request: web.Request, to: str, problem: str = "", status: int = 200) -> web.Response:
        return await self._site.render(
            request, "login.html", status=status, to=to, problem=problem, missing=self._missing
        )

    @get("/login/github")
    async def _to_github(self, request: web.Request) -> web.Response:
        """Send the person to GitHub, which sends them to the callback."""
        if self._parts is None:
            return await self._page(request, "/", status=404)
        attempt = self._parts.attempts.begin(request, request.query.get("to", "/"))
        address = await self._parts.identity.address(attempt.state, attempt.verifier)
        return web.Response(status=303, headers={"Location": address})

    @get("/auth/callback")
    async def _callback(self, request: web.Request) -> web.Response:
        """Finish a login that began in this browser."""
        if self._parts is None:
            return await self._page(request, "/", status=404)
        attempt = self._parts.attempts.finish(request, request.query.get("state", ""))
        if attempt is None:
            if viewer(request).logged_in:
                # The person went back, or pressed reload, after they were logged in.
                return self._site.see_other(request, "/")
            self._log_stranger("login_not_begun_here", request.remote)
            return await self._page(request, "/", "This login did not begin in this browser, or it is over.", 403)
        if (error := request.query.get("error")) is not None:
            return await self._page(request, attempt.to, _REFUSALS.get(error, "GitHub refused this login."), 403)
        return await self._finish(request, attempt, self._parts)

    def _log_stranger(self, event: str, remote: str | None) -> None:
        """Log what a visitor can cause, once a minute: a visitor must not fill the log."""
        now = self._site.engine.clock.now()
        if self._logged.wait(now) <= timedelta(0):
            self._logged.take(now)
            _log.warning(event, remote=remote)

    async def _finish(self, request: web.Request, attempt: Attempt, parts: LoginParts) -> web.Response:
        if (wait := parts.limits.take(request)) > timedelta(0):
            self._log_stranger("logins_limited", request.remote)
            raise ApiError(429, "too many logins came from your address; try again later", retry_after=wait)
        try:
            person = await parts.identity.person(request.query.get("code", ""), attempt.verifier)
        except LoginRefused as refused:
            return await self._page(request, attempt.to, str(refused), 403)
        await parts.logins.begin(request, person)
        parts.limits.remember(request, person.id)
        return self._site.see_other(request, attempt.to)

    @get("/account")
    async def _account(self, request: web.Request) -> web.Response:
        if not viewer(request).logged_in:
            raise LoginNeeded
        return await self._site.render(request, "account.html")

    @post("/logout")
    async def _logout(self, request: web.Request) -> web.Response:
        return await self._end(request, "You are logged out.", everywhere=False)

    @post("/logout/everywhere")
    async def _logout_everywhere(self, request: web.Request) -> web.Response:
        return await self._end(request, "You are logged out in every browser.", everywhere=True)

    async def _end(self, request: web.Request, message: str, *, everywhere: bool) -> web.Response:
        """End the session. The form carried its secret, so there is one."""
        assert self._parts is not None, "without a login there is no session"
        await self._parts.logins.end(request, viewer(request), everywhere=everywhere)
        return self._site.see_other(request, "/login", message)
