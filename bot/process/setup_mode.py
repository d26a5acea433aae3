"""Complete the settings by credentials of the database; where there are none yet, serve the page `/setup`."""

import asyncio
import socket
from collections.abc import Mapping
from datetime import timedelta
from functools import partial

import aiohttp
import structlog
from aiohttp import web

from bot.gateway.http.client import Client
from bot.http.server import LimitedSite
from bot.process import lifecycle, sqlite_file
from bot.process.sqlite_file import StartRefused, exclusive
from bot.registration.manifest import Credentials
from bot.registration.manifest_flow import Offer, RegistrationSite, addresses_of
from bot.registration.step_pages import InstalledPage
from bot.registration.stored import StoredCredentials, StoredSecrets, WrongSecretKey
from bot.settings.environment import WAYS_OUT, HostSettings, Settings, load_settings
from bot.settings.private_key import derive_secret
from bot.web.application import alive, new_application
from queue_engine.core.database.database import Database
from queue_engine.core.database.outage import fault_of
from queue_engine.core.timing.clock import SystemClock
from queue_engine.store import Store

_POLL = timedelta(seconds=2)
"""How often a process looks whether another one finished the registration."""

_LAST_REQUESTS = timedelta(seconds=1)
"""How long a client that is connected when the pages end may take to send its request."""

_log = structlog.get_logger("imq.setup")


class NotRegistered(StartRefused):
    """There are no credentials, and no way to get them."""


class SetupMode:
    """One process that has no credentials yet."""

    def __init__(self, environ: Mapping[str, str], settings: HostSettings, stop: asyncio.Event) -> None:
        """`environ` are the settings as the operator gave them, with IMQ_SECRET_KEY; `stop` ends the process."""
        assert settings.secret_key is not None, "without a key nothing is stored"
        self._environ = environ
        self._settings = settings
        self._stop = stop
        self._key = settings.secret_key
        self._database = Database(settings.database_url.get_secret_value())
        self._store = Store(self._database)
        self._credentials = StoredCredentials(self._store, self._key, settings.former_secret_key)
        self._saved = asyncio.Event()

    async def complete(
        self, *, serves: bool, migrates: bool, bound: socket.socket | None = None
    ) -> tuple[Settings | None, socket.socket | None]:
        """Return the settings with credentials, and the listening socket; None if the process is stopped before.

        `serves` says whether this process has a port, `migrates` whether it migrates PostgreSQL too. `bound` is a
        socket on which it listens instead of one of its own. Raises StartRefused.
        """
        prepare = partial(sqlite_file.prepare, self._database, migrates=migrates)
        try:
            if not await lifecycle.start_when_database_answers(prepare, self._stop):
                return None, bound
            if await self._credentials.reencrypt():
                _log.info("credentials_reencrypted", advice="IMQ_FORMER_SECRET_KEY is needed for them no longer")
            found = await self._credentials.load()
            if found is None:
                if self._settings.public_url is None:
                    raise NotRegistered(f"IMQ has no GitHub App: {WAYS_OUT}.")
                bound = await (self._serve(self._settings.public_url, bound) if serves else self._wait())
                found = await self._credentials.load()
        except WrongSecretKey as problem:
            raise NotRegistered(str(problem)) from None
        finally:
            await self._database.close()
        if found is None:
            return None, bound
        return load_settings(found.complete(self._environ)).on_port(self._settings.port), bound

    async def _serve(self, public_url: str, bound: socket.socket | None) -> socket.socket:
        """Serve the pages until there are credentials; return the socket, on which clients are queued meanwhile."""
        clock = SystemClock()
        async with aiohttp.ClientSession() as session:
            one_time = StoredSecrets(self._store, self._key)
            announce = partial(_announce, f"{public_url}/setup")
            site = RegistrationSite(
                Offer(addresses_of(public_url), self._settings.github_api_url),
                client=Client(session, api_url=self._settings.github_api_url, clock=clock),
                clock=clock,
                one_time=one_time,
                key=derive_secret(self._key.get_secret_value(), "imq setup cookies"),
                save=self._save,
                announce=announce,
            )
            runner = await lifecycle.listen(_application(site), self._settings, bound)
            (listening,) = runner.sites
            assert isinstance(listening, LimitedSite)
            queueing = listening.duplicate()
            try:
                announce(await one_time.code())
                _log.info("listening", address=self._settings.address, port=runner.addresses[0][1])
                await self._wait()
                await listening.stop()
                # aiohttp counts a connection without a request as idle, and would close it.
                await asyncio.sleep(_LAST_REQUESTS.total_seconds())
            finally:
                await runner.cleanup()
        return queueing

    async def _wait(self) -> None:
        """Wait until some process has stored credentials, or this one is stopped."""
        _log.info("credentials_awaited")
        while not self._stop.is_set() and not self._saved.is_set() and not await self._is_registered():
            waits = [asyncio.ensure_future(each.wait()) for each in (self._stop, self._saved)]
            await asyncio.wait(waits, timeout=_POLL.total_seconds(), return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()

    async def _is_registered(self) -> bool:
        """Whether there are credentials; a fault of the database is logged, and passes."""
        try:
            return await self._credentials.load() is not None
        except Exception as error:
            if fault_of(error) is None:
                raise
            _log.warning("credentials_unread", exc_info=error)
            return False

    async def _save(self, credentials: Credentials) -> str:
        stored = await self._credentials.save(credentials, SystemClock().now())
        self._saved.set()
        if not stored:
            return "Another registration was finished first. Delete this App on GitHub."
        return "IMQ has stored the credentials, encrypted, and is starting."


def _application(site: RegistrationSite) -> web.Application:
    application = new_application()
    application.add_routes(site.routes())
    application.router.add_get("/setup/installed", InstalledPage(_nothing_delivered).handle)
    application.router.add_get("/healthz", alive)
    application.router.add_get("/readyz", _not_ready)
    application.router.add_post("/webhook", _not_ready)
    return application


def _announce(page: str, code: str) -> None:
    _log.warning("setup_page_open", page=page, code=code)


async def _nothing_delivered() -> bool:
    return False


async def _not_ready(_request: web.Request) -> web.Response:
    why = {"credentials": "IMQ has no GitHub App yet: open the page /setup"}
    return web.json_response({"status": "not ready", "failing": list(why), "why": why}, status=503)


async def run(
    environ: Mapping[str, str], settings: HostSettings, *, web: bool, worker: bool, bound: socket.socket | None = None
) -> None:
    """Complete the settings from the database, then run as `lifecycle.run` does. Raises StartRefused."""
    stop = lifecycle.set_by_signals()
    with exclusive(settings.database_url.get_secret_value(), lifecycle.role_of(web=web, worker=worker)):
        setup_mode = SetupMode(environ, settings, stop)
        complete, bound = await setup_mode.complete(serves=web, migrates=web and worker, bound=bound)
    try:
        if complete is not None and not stop.is_set():
            await lifecycle.run(complete, web=web, worker=worker, bound=bound)
    finally:
        if bound is not None:
            bound.close()
