"""Serve the pages that lead through GitHub's manifest flow, each step bound to the browser that began."""

import hmac
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from urllib.parse import urlsplit

import structlog
from aiohttp import web
from multidict import MultiDict

from bot.gateway.http.client import Client
from bot.http.body import Refused
from bot.http.form import read_form
from bot.logs.throttle import LogThrottle
from bot.registration import pages
from bot.registration.credentials import Credentials
from bot.registration.github_site import CodeRefused, exchange, registration_url
from bot.registration.manifest import Addresses, fill_in, read_manifest
from bot.registration.one_time_secrets import OneTimeSecrets, digest
from bot.registration.permissions import choices, chosen_permissions
from bot.settings.github_website import website
from bot.web.login.cookies import Cookies, write_cookies
from bot.web.login.signing import Signer
from queue_engine.core.timing.clock import Clock
from queue_engine.domain.errors import GitHubError

_SESSION, _STATE = "imq_setup", "imq_setup_state"
_LIFE = timedelta(hours=1)
"""As long as GitHub's code lives."""

_log = structlog.get_logger("imq.registration")


@dataclass(frozen=True, slots=True)
class Offer:
    """What the pages propose, and where GitHub sends people and webhooks."""

    addresses: Addresses
    api_url: str
    organization: str = ""
    without: tuple[str, ...] = ()


class RegistrationSite:
    """The pages. `save` keeps the credentials and returns where, in a sentence.

    `announce` shows a new code to the operator: the pages open only to a browser that has sent the newest one.
    """

    def __init__(
        self,
        offer: Offer,
        *,
        client: Client,
        clock: Clock,
        one_time: OneTimeSecrets,
        key: bytes,
        save: Callable[[Credentials], Awaitable[str]],
        announce: Callable[[str], None],
    ) -> None:
        """`key` signs the cookies."""
        self._offer = offer
        self._client = client
        self._clock = clock
        self._one_time = one_time
        redirect = urlsplit(offer.addresses.redirect)
        self._own_origin = f"{redirect.scheme}://{redirect.netloc}"
        self._cookies = Cookies(secure=redirect.scheme == "https")
        self._signer = Signer([key])
        self._log_throttle = LogThrottle(clock)
        self._save = save
        self._announce = announce
        self._manifest = read_manifest()

    def routes(self) -> list[web.RouteDef]:
        """Return the routes of all steps."""
        return [
            web.get("/setup", self._start),
            web.post("/setup/code", self._form(self._take_code)),
            web.post("/setup/manifest", self._form(self._hand_over)),
            web.get("/setup/callback", self._finish),
        ]

    def _form(
        self, handler: Callable[[web.Request, MultiDict[str]], Awaitable[web.Response]]
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        """Read the form of a step, by the rules of every form."""

        async def handle(request: web.Request) -> web.Response:
            try:
                return await handler(request, await read_form(request, self._own_origin))
            except Refused as refused:
                return pages.failure_page(refused.sentence, status=refused.status)

        return handle

    async def _start(self, request: web.Request) -> web.Response:
        if not self._is_open_to(request):
            return pages.code_page(request.query.get("code", ""), wrong=False)
        name = f"IMQ {secrets.token_hex(3)}"
        return pages.choice_page(name, self._offer.organization, choices(self._manifest, self._offer.without))

    async def _take_code(self, request: web.Request, given: MultiDict[str]) -> web.Response:
        if not await self._one_time.use_code(given.get("code", "")):
            if (repeats := self._log_throttle.count("setup_code_refused")) is not None:
                _log.warning("setup_code_refused", remote=request.remote, repeats=repeats)
            return pages.code_page("", wrong=True)
        self._announce(await self._one_time.code())
        return self._with_cookie(request, _to_first_page(), _SESSION, "")

    async def _hand_over(self, request: web.Request, given: MultiDict[str]) -> web.Response:
        if not self._is_open_to(request):
            return _to_first_page()
        optional = given.getall("permission", [])
        manifest = fill_in(
            self._manifest,
            self._offer.addresses,
            name=given.get("name", "").strip(),
            permissions=chosen_permissions(self._manifest, optional),
        )
        state = secrets.token_urlsafe(32)
        await self._one_time.begin(state)
        target = registration_url(self._offer.api_url, given.get("organization", "").strip(), state)
        response = pages.handover_page(target, website(self._offer.api_url), manifest)
        return self._with_cookie(request, response, _STATE, digest(state))

    async def _finish(self, request: web.Request) -> web.Response:
        state = request.query.get("state", "")
        kept = self._kept(request, _STATE)
        if kept is None or not hmac.compare_digest(kept, digest(state)):
            return pages.failure_page("This registration did not begin in this browser. Start again.", status=403)
        if not await self._one_time.finish(state):
            return pages.failure_page("This registration is finished, or a newer one has begun.", status=403)
        try:
            credentials = await exchange(self._client, request.query.get("code", ""))
        except CodeRefused as refused:
            return pages.failure_page(str(refused), status=400)
        except GitHubError as error:
            _log.warning("registration_not_finished", error=str(error))
            await self._one_time.begin(state)
            return pages.failure_page(f"GitHub does not answer: {error}", status=502, again=request.path_qs)
        saved = await self._save(credentials)
        _log.info("app_registered", app_id=credentials.app_id, address=credentials.html_url)
        response = pages.registered_page(credentials.install_url, saved)
        for name in (_SESSION, _STATE):
            self._cookies.delete(request, name)
        write_cookies(request, response)
        return response

    def _is_open_to(self, request: web.Request) -> bool:
        return self._kept(request, _SESSION) is not None

    def _with_cookie(self, request: web.Request, response: web.Response, name: str, content: str) -> web.Response:
        """Have the browser keep `content` for an hour, for this step alone: the signature is one of the name, too."""
        value = self._signer.sign_content(name, content, self._clock.now(), _LIFE)
        self._cookies.set(request, name, value, _LIFE)
        write_cookies(request, response)
        return response

    def _kept(self, request: web.Request, name: str) -> str | None:
        """Return what this browser keeps under the name; None if it is missing, too old or not IMQ's."""
        found = self._signer.verify_content(name, self._cookies.get(request, name), self._clock.now())
        return None if found is None else str(found)


def _to_first_page() -> web.Response:
    return web.Response(status=303, headers={"Location": "/setup"})


def addresses_of(public_url: str | None, relay_url: str | None = None) -> Addresses:
    """Return the addresses of a web process that GitHub reaches at `public_url`, or by a relay. One is given."""
    if public_url is None:
        assert relay_url is not None, "GitHub does not reach IMQ at all"
        # GitHub wants a home page, and an address to return to, which the caller replaces by one of this machine.
        return Addresses(home=relay_url, webhook=relay_url, redirect=relay_url, setup=None, callback=None)
    return Addresses(
        home=public_url,
        webhook=relay_url or f"{public_url}/webhook",
        redirect=f"{public_url}/setup/callback",
        setup=f"{public_url}/setup/installed",
        callback=f"{public_url}/auth/callback",
    )


def local_addresses(addresses: Addresses, pages_url: str) -> Addresses:
    """Return the addresses for pages that a command serves on the operator's own machine."""
    return replace(addresses, redirect=f"{pages_url}/setup/callback")
