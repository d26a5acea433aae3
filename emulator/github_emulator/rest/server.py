"""The server: an aiohttp application over one `GitHub`, at `/` and, as Enterprise Server has it, at `/api/v3`."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from functools import cache, partial

from aiohttp import web

from github_emulator.callers.errors import DOCS, DropConnection, Refusal
from github_emulator.callers.limits import Limits
from github_emulator.callers.tokens import ANONYMOUS, Caller, Tokens
from github_emulator.core.behaviour import ABSENT_FROM_ENTERPRISE_SERVER
from github_emulator.core.clock import Clock
from github_emulator.core.errors import ApiError
from github_emulator.facade.github import GitHub
from github_emulator.rest import reply as replies
from github_emulator.rest.call import parse_body
from github_emulator.rest.control import Control
from github_emulator.rest.endpoints import ROUTES
from github_emulator.rest.faults import Fault, Faults
from github_emulator.rest.lag import Lag
from github_emulator.rest.record import Phase, RecordedCall, Requests
from github_emulator.rest.reply import Reply
from github_emulator.rest.request_handler import ApiRequest, RequestHandler, request_id
from github_emulator.rest.routing import Route
from github_emulator.website.authorization import AuthorizationPages
from github_emulator.website.git_server import GitServer
from github_emulator.website.storage import Storage
from github_emulator.website.website import Website

VERSION = "2022-11-28"
Hook = Callable[[RecordedCall], Awaitable[None]]
ReplyHook = Callable[[RecordedCall, Reply], None]
_BODY_LIMIT = 10 * 1024**2
_NO_AGENT = (
    "\nRequest forbidden by administrative rules. Please make sure your request has a User-Agent header "
    "(https://docs.github.com/en/rest/overview/resources-in-the-rest-api#user-agent-required). "
    "Check https://developer.github.com for other possible causes.\n"
)


class EmulatorServer:
    """Serves a `GitHub` over HTTP on one port of this machine.

    `requests` is the record, `faults` and `limits` are there to be changed, `on_request` is called before and after
    each request is applied and may raise `DropConnection`. `on_reply` sees each answer of the API before faults change
    it; what it raises counts as an error of the emulator. `latency` is how long each request takes on its way, in time
    of the emulator's clock. `jwt_clock` is the clock that JSON web tokens are checked
    against when clients live in another time than the emulator (a fast clock, a manual one).
    `lag` says how old the state is that reads show.
    `website` has the pages for registering and installing an app, `authorization` those for authorizing it, `control`
    what tests in other languages ask of the emulator itself.
    `crashes` are errors of the emulator itself; `stop` raises the first of them.
    """

    def __init__(
        self,
        github: GitHub,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        jwt_clock: Clock | None = None,
        token_seed: int = 0,
    ) -> None:
        """`token_seed` decides the tokens: who shares the machine with others draws it at random."""
        self.github = github
        self.tokens = Tokens(github, jwt_clock=jwt_clock or github.clock, seed=token_seed)
        self.limits = Limits(github.clock)
        self.faults = Faults()
        self.lag = Lag(github)
        self.tokens.unknown_for = partial(self.lag.draw, "token")
        self.requests = Requests()
        self.on_request: Hook | None = None
        self.on_reply: ReplyHook | None = None
        self.control = Control(
            github, faults=self.faults, lag=self.lag, requests=self.requests, token_of=self.user_token
        )
        self.website = Website(github)
        self.authorization = AuthorizationPages(github, self.tokens)
        self.latency = timedelta(0)
        self._request_handler = RequestHandler(github, self.tokens, self.limits, self.lag)
        self._host, self._port = host, port
        self._runner: web.AppRunner | None = None
        self._stopping = asyncio.Event()

    @property
    def url(self) -> str:
        """Where the API is served, without a trailing slash; `/api/v3` below it is the same."""
        assert self._runner is not None, "the server is not started"
        host, port = self._runner.addresses[0][:2]
        return f"http://{host}:{port}"

    def user_token(self, login: str) -> str:
        """A token with which a person uses the API."""
        return self.tokens.user(login)

    def clone_url(self, repository: str, login: str) -> str:
        """Where a person's git clones a repository, and pushes to it: with a token of theirs."""
        return f"{self.url.replace('://', f'://{login}:{self.user_token(login)}@')}/{repository}.git"

    @property
    def crashes(self) -> list[Exception]:
        """Errors of the emulator itself, oldest first."""
        return self._request_handler.crashes

    async def start(self) -> None:
        """Listens; afterwards `url` is known, and links in answers and webhooks start with it."""
        app = web.Application(client_max_size=_BODY_LIMIT)
        app[_SERVER] = self
        app.add_routes(self.website.routes())
        app.add_routes(self.authorization.routes())
        app.add_routes(self.control.routes())
        app.add_routes(Storage(self.github).routes())
        app.add_routes(GitServer(self.github, self.tokens).routes())
        for resource in _resources():
            app.router.register_resource(resource)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        await web.TCPSite(self._runner, self._host, self._port).start()
        self.github.addresses.api_url = self.github.addresses.html_url = self.url

    async def stop(self) -> None:
        """Cuts what hangs, closes every connection; raises the first error of the emulator itself, if any."""
        self._stopping.set()
        if self._runner is not None:
            await self._runner.cleanup()
        if self.crashes:
            raise self.crashes[0]

    async def handle(self, route: Route | None, prefix: str, request: web.Request) -> web.StreamResponse:
        """Answer a request to this endpoint, or to none, below this prefix."""
        behaviour = self.github.behaviour
        if route is not None and behaviour.enterprise_server:
            route = None if route.template in ABSENT_FROM_ENTERPRISE_SERVER else route
        template = "unknown" if route is None else route.template
        recorded = self.requests.open(
            self.github.clock.now(),
            request.method,
            request.path.removeprefix(prefix),
            dict(request.query),
            template,
        )
        recorded.resource = "core" if route is None else route.resource
        try:
            reply = await self._exchange(route, prefix, request, recorded)
        except DropConnection:
            if request.transport is not None:
                request.transport.abort()
            return web.Response()
        recorded.status = reply.status
        return web.Response(status=reply.status, body=reply.body or None, headers=reply.headers)

    async def _exchange(self, route: Route | None, prefix: str, request: web.Request, recorded: RecordedCall) -> Reply:
        """From arrival to the answer, with the faults and hooks of its way."""
        raw = await request.read()
        with suppress(ApiError):
            # Known to faults and hooks before it is applied; what is no JSON is refused when it is.
            recorded.body = {} if request.method in ("GET", "HEAD") else parse_body(raw, bare="")
        caller, refusal = self._identify(request)
        recorded.installation = None if caller.installation is None else caller.installation.id
        recorded.login = None if caller.actor is None else caller.actor.user.login
        recorded.conditional = "If-None-Match" in request.headers
        fault = self.faults.take(recorded)
        recorded.fault = None if fault is None else fault.kind
        self.limits.enter(caller.key)
        try:
            if self.latency:
                await self._pause(self.latency)
            await self._notify(recorded, "before")
            reply = None
            if fault is not None and not fault.applies_first:
                reply = await self._fail(fault, caller, recorded)
            if reply is None:
                incoming = ApiRequest(route, prefix, request, recorded, caller, raw)
                reply = refusal or self._request_handler.answer(incoming)
                recorded.applied = reply.status
                self._show(recorded, reply)
                await self._notify(recorded, "after")
                if fault is not None and fault.applies_first:
                    reply = await self._fail(fault, caller, recorded) or reply
                    if fault.kind == "bad_json":
                        reply = reply.cut()
                    if fault.kind == "bad_link":
                        reply = reply.misleading()
        finally:
            self.limits.leave(caller.key)
        return reply.with_headers(self._headers(caller, route, recorded))

    def _identify(self, request: web.Request) -> tuple[Caller, Reply | None]:
        if not request.headers.get("User-Agent"):
            return ANONYMOUS, replies.of_content(403, _NO_AGENT)
        version = request.headers.get("X-GitHub-Api-Version", VERSION)
        try:
            caller = self.tokens.caller(request.headers.get("Authorization"))
            if version != VERSION:
                raise Refusal(400, f"{version} is not a supported version of the REST API. Use {VERSION}.")
        except Refusal as error:
            return ANONYMOUS, replies.of_error(error, "")
        return caller, None

    async def _fail(self, fault: Fault, caller: Caller, recorded: RecordedCall) -> Reply | None:
        """The fault's own answer; None when the true answer shall be given after all."""
        kind = fault.kind.removeprefix("apply_then_")
        if kind == "reset":
            raise DropConnection
        if kind == "hang":
            await self._stopping.wait()
            raise DropConnection
        if kind == "delay":
            await self._pause(fault.delay)
            return None
        if kind in ("bad_json", "bad_link"):
            return None
        if kind == "rate_limit":
            return self._request_handler.limited(self.limits.exhaust(caller.key, recorded.resource), recorded)
        if kind == "secondary_limit":
            refusal = self.limits.secondary(request_id(recorded), fault.status, fault.retry_after)
            return replies.of_error(refusal, "")
        if kind == "expired_token":
            return replies.of_error(Refusal(401, "Bad credentials", docs=DOCS), "")
        headers = dict(fault.headers)
        if fault.retry_after is not None:
            headers["Retry-After"] = str(fault.retry_after)
        return replies.of_content(fault.status, fault.content(), headers)

    async def _pause(self, delay: timedelta) -> None:
        """Waits on the emulator's schedule; ends early when the server stops."""
        over = asyncio.Event()
        self.github.schedule.after(delay, over.set, name="a delayed answer")
        waits = [asyncio.ensure_future(event.wait()) for event in (over, self._stopping)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    def _show(self, recorded: RecordedCall, reply: Reply) -> None:
        if self.on_reply is not None:
            try:
                self.on_reply(recorded, reply)
            except Exception as error:
                self.crashes.append(error)

    async def _notify(self, recorded: RecordedCall, phase: Phase) -> None:
        recorded.phase = phase
        if self.on_request is not None:
            await self.on_request(recorded)

    def _headers(self, caller: Caller, route: Route | None, recorded: RecordedCall) -> dict[str, str]:
        headers = {
            "X-GitHub-Request-Id": request_id(recorded),
            "X-GitHub-Media-Type": "github.v3; format=json",
            "X-GitHub-Api-Version-Selected": VERSION,
            "Server": "github.com",
            "Cache-Control": "private, max-age=60, s-maxage=60",
            "Vary": "Accept, Authorization, Cookie, X-GitHub-OTP, Accept-Encoding, Accept, X-Requested-With",
            "Date": self.github.clock.now().strftime("%a, %d %b %Y %H:%M:%S GMT"),
            **self.limits.budget(caller.key, recorded.resource).headers(),
            **self.github.behaviour.version_headers,
        }
        if route is not None and caller.installation is not None and route.access.who == "repository":
            headers["X-Accepted-GitHub-Permissions"] = route.access.accepted
        return headers


_SERVER = web.AppKey("server", EmulatorServer)
"""The server whose application it is."""


@cache
def _resources() -> tuple[web.AbstractResource, ...]:
    """The addresses of all endpoints. All servers share them: to make them takes a twentieth of a second."""
    router = web.Application().router
    for route in ROUTES:
        for prefix in route.prefixes:
            handler = _handler(route, prefix)
            for path in route.paths:
                router.add_route(route.method, prefix + path, handler)
                if route.method == "GET":
                    router.add_route("HEAD", prefix + path, handler)
    router.add_route("*", "/{rest:.*}", _handler(None, ""))
    return tuple(router.resources())


def _handler(route: Route | None, prefix: str) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def handle(request: web.Request) -> web.StreamResponse:
        return await request.app[_SERVER].handle(route, prefix, request)

    return handle
