"""Serve the pages that lead through GitHub's manifest flow, each step bound to the browser that began."""

import asyncio
import hmac
import re
import secrets
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from urllib.parse import quote, urlsplit

import aiohttp
import structlog
from aiohttp import web
from multidict import MultiDict
from pydantic import BaseModel, SecretStr, ValidationError

from bot.gateway.http.client import Call, Client, Credential
from bot.http.form import Refused, read_form
from bot.logs.configure import LogThrottle
from bot.registration.manifest import Addresses, Credentials, choices, chosen_permissions, fill_in, read_manifest
from bot.registration.step_pages import failure_page, hand_over_page, step_page
from bot.registration.stored import MemorySecrets, OneTimeSecrets, digest
from bot.settings.setting_values import HERE, website
from bot.web.application import new_application, serve
from bot.web.login.session_cookies import Cookies, SignedCookie, Signer, write_cookies
from bot.web.pages.static_files import static_route
from queue_engine.core.timing.clock import Clock, SystemClock
from queue_engine.domain.errors import GitHubError, NotFound, Unavailable

_LIFE = timedelta(hours=1)
"""As long as GitHub's code lives."""

_CODE = re.compile(r"[A-Za-z0-9_-]{1,200}")

_log = structlog.get_logger("imq.registration")


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


@dataclass(frozen=True, slots=True)
class Offer:
    """What the pages propose, and where GitHub sends people and webhooks.

    `starts_first` holds if a person has to start IMQ before GitHub sends them to it, after the installation.
    """

    addresses: Addresses
    api_url: str
    organization: str = ""
    without: tuple[str, ...] = ()
    starts_first: bool = False


class RegistrationSite:
    """The pages. `save` keeps the credentials and says where, `announce` shows the operator a code to open them."""

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
        self._one_time = one_time
        redirect = urlsplit(offer.addresses.redirect)
        self._own_origin = f"{redirect.scheme}://{redirect.netloc}"
        parts = clock, Signer([key]), Cookies(secure=redirect.scheme == "https")
        self._opened = SignedCookie("imq_setup", _LIFE, *parts)
        self._begun = SignedCookie("imq_setup_state", _LIFE, *parts)
        self._log_throttle = LogThrottle(clock)
        self._save = save
        self._announce = announce
        self._manifest = read_manifest()

    def routes(self) -> list[web.RouteDef]:
        """Return the routes of all steps, and of what their pages load."""
        return [
            web.get("/setup", self._start),
            web.post("/setup/code", self._form(self._take_code)),
            web.post("/setup/manifest", self._form(self._hand_over)),
            web.get("/setup/callback", self._finish),
            static_route(),
        ]

    def _form(
        self, handler: Callable[[web.Request, MultiDict[str]], Awaitable[web.Response]]
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        """Read the form of a step, by the rules of every form."""

        async def handle(request: web.Request) -> web.Response:
            try:
                return await handler(request, await read_form(request, self._own_origin))
            except Refused as refused:
                return failure_page(refused.sentence, status=refused.status)

        return handle

    async def _start(self, request: web.Request) -> web.Response:
        if not self._is_open_to(request):
            return step_page("code", given=request.query.get("code", ""), wrong=False)
        name = f"IMQ {secrets.token_hex(3)}"
        permissions = choices(self._manifest, self._offer.without)
        return step_page("choice", name=name, organization=self._offer.organization, permissions=permissions)

    async def _take_code(self, request: web.Request, given: MultiDict[str]) -> web.Response:
        if not await self._one_time.use_code(given.get("code", "")):
            if (repeats := self._log_throttle.count("setup_code_refused")) is not None:
                _log.warning("setup_code_refused", remote=request.remote, repeats=repeats)
            return step_page("code", status=403, given="", wrong=True)
        self._announce(await self._one_time.code())
        return _with_cookie(request, _to_first_page(), self._opened, "")

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
        response = hand_over_page(target, website(self._offer.api_url), manifest)
        return _with_cookie(request, response, self._begun, digest(state))

    async def _finish(self, request: web.Request) -> web.Response:
        state = request.query.get("state", "")
        kept = self._begun.get(request)
        if kept is None or not hmac.compare_digest(kept, digest(state)):
            return failure_page("This registration did not begin in this browser. Start again.", status=403)
        if not await self._one_time.finish(state):
            return failure_page("This registration is finished, or a newer one has begun.", status=403)
        try:
            credentials = await exchange(self._client, request.query.get("code", ""))
        except CodeRefused as refused:
            return failure_page(str(refused), status=400)
        except GitHubError as error:
            _log.warning("registration_not_finished", error=str(error))
            await self._one_time.begin(state)
            return failure_page(f"GitHub does not answer: {error}", status=502, again=request.path_qs)
        saved = await self._save(credentials)
        _log.info("app_registered", app_id=credentials.app_id, address=credentials.html_url)
        sent_to = self._offer.addresses.setup if self._offer.starts_first else None
        response = step_page("registered", install_url=credentials.install_url, saved=saved, sent_to=sent_to)
        for cookie in (self._opened, self._begun):
            cookie.delete(request)
        write_cookies(request, response)
        return response

    def _is_open_to(self, request: web.Request) -> bool:
        return self._opened.get(request) is not None


def _with_cookie(request: web.Request, response: web.Response, cookie: SignedCookie, content: str) -> web.Response:
    """Have the browser keep `content` for an hour, for this step alone."""
    cookie.put(request, content)
    write_cookies(request, response)
    return response


def _to_first_page() -> web.Response:
    return web.Response(status=303, headers={"Location": "/setup"})


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


def addresses_of(public_url: str | None, relay_url: str | None = None, pages_url: str | None = None) -> Addresses:
    """Return the addresses at `public_url`, or by a relay; `pages_url` is for the operator's browser alone."""
    if public_url is None:
        assert relay_url is not None, "GitHub does not reach IMQ at all"
        callback = None if pages_url is None else f"{pages_url}/auth/callback"
        # GitHub wants a home page, and an address to return to, which the caller replaces by one of this machine.
        return Addresses(home=relay_url, webhook=relay_url, redirect=relay_url, setup=None, callback=callback)
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


async def register(
    offer: Offer, save: Callable[[Credentials], Awaitable[str]], show: Callable[[str], None]
) -> Credentials:
    """Register the App in a browser of this machine; `show` gets the address of the first page."""
    registered: asyncio.Future[Credentials] = asyncio.get_running_loop().create_future()

    async def save_once(credentials: Credentials) -> str:
        saved = await save(credentials)
        registered.set_result(credentials)
        return saved

    clock, one_time = SystemClock(), MemorySecrets()
    with socket.create_server((HERE, 0)) as bound:
        address = f"http://{HERE}:{bound.getsockname()[1]}"
        async with aiohttp.ClientSession() as session:
            site = RegistrationSite(
                replace(offer, addresses=local_addresses(offer.addresses, address)),
                client=Client(session, api_url=offer.api_url, clock=clock),
                clock=clock,
                one_time=one_time,
                key=secrets.token_bytes(32),
                save=save_once,
                announce=lambda _code: None,
            )
            application = new_application()
            application.add_routes(site.routes())
            runner = await serve(application, 0, HERE, bound=bound)
            try:
                show(f"{address}/setup?code={await one_time.code()}")
                return await registered
            finally:
                await runner.cleanup()
