"""Build the parts of one process of IMQ, in one place."""

import os
import socket
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from functools import partial
from uuid import uuid4

import aiohttp
import structlog
from aiohttp import web

from bot.api.app import PREFIX, ApiParts, create_api, described_routes, description, open_routes
from bot.api.auth import for_operators
from bot.api.bulk import BulkJobs
from bot.api.device_login import LoginIds, LoginLimits, LoginRoutes, Logins
from bot.api.finding import Report
from bot.api.mcp_handler import McpHandler
from bot.api.permissions import Access
from bot.api.waits import ChangeWaits
from bot.gateway.device_flow import DeviceFlow
from bot.gateway.gateway import Gateway
from bot.gateway.github_app import App
from bot.gateway.http.connection import Connection
from bot.gateway.http.installation_tokens import StoredTokens
from bot.gateway.http.pacing import SharedPace
from bot.gateway.people import KnownTeams, TokenPermissions
from bot.gateway.policy_cache import Policies
from bot.http.client_address import ClientAddresses, UntrustedProxy
from bot.metrics import Metrics
from bot.metrics.gauges import ProcessReporter, RequestCounts
from bot.passport.keys import KEYS_PATH, PassportKeys, PublishedKeys
from bot.passport.notes import PassportNotes
from bot.process.app_status import AppStatus, correction_of
from bot.process.pages import add_site, create_feed, create_streams
from bot.registration.step_pages import InstalledPage
from bot.settings.environment import HostSettings, Settings
from bot.settings.setting_values import website
from bot.sinks.sink_client import SinkClient
from bot.web.application import QueueStatusHandler, Readiness, RequirementError, create_app
from bot.webhooks.normalize import may_matter
from bot.webhooks.receiver import MissedDeliveries, Receiver
from notifications.event_bus import BusProgress, CheckRunProgress, Event, EventBus
from notifications.outbox_dispatcher import OutboxDispatcher
from notifications.sinks.message_text import Site
from notifications.sinks.sender import SinkSender
from notifications.sinks.sink import SinkJobs
from queue_engine.core.database.database import Database
from queue_engine.core.database.instants import InstantKind, clamp_instants, clock_offset
from queue_engine.core.database.listener import DatabaseListener
from queue_engine.core.jobs.dead_letters import DeadLetter, FollowUp
from queue_engine.core.jobs.idempotency import KEPT
from queue_engine.core.jobs.job import JobRequest
from queue_engine.core.jobs.worker import Handler, ResultHandler, Worker, WorkerSettings
from queue_engine.core.observability.progress import ProgressLog, ProgressNotifiers
from queue_engine.core.timing.clock import Clock
from queue_engine.domain.errors import attempt_level, is_retryable
from queue_engine.effects.context import Change, Engine
from queue_engine.executor.landing import NOTES_JOB
from queue_engine.executor.scheduler import Scheduler
from queue_engine.handlers.inbox import Inbox, obeying_limits, of_dead_letter
from queue_engine.handlers.lost_deliveries import DELIVERIES
from queue_engine.handlers.reconciler import Reconciler
from queue_engine.handlers.restored import refetch_after_pause
from queue_engine.known.github_reads import GitHubReads
from queue_engine.migrations import MigrationState, migrate, migration_state
from queue_engine.shadow.mode import may_write
from queue_engine.store import Store, WakeupKind


class Sinks:
    """The sinks of one process: which event causes a message, and who sends it."""

    def __init__(self, settings: HostSettings, clock: Clock, random: Callable[[], float]) -> None:
        site = Site(website(settings.github_api_url), settings.public_url)
        self.client = SinkClient(clock)
        self.jobs = SinkJobs(settings.sinks)
        self.sender = SinkSender(settings.sinks, site, self.client, clock, random=random)


_OUTBOX_LEASES = 4
"""An outbox item takes a few requests, so its lease is a multiple of a job's."""


class Bot:
    """The parts of one process: `start`, then driven by `bot.process.lifecycle` (or step by step, by tests), then
    `close`."""

    def __init__(self, settings: Settings, *, clock: Clock, random: Callable[[], float], role: str = "run") -> None:
        """`role` is the command that started the process: `run`, `web` or `worker`."""
        self.settings, self.clock = settings, clock
        self.metrics = Metrics()
        self.database = Database(settings.database_url.get_secret_value())
        self.bus = EventBus[Event]()
        self._random = random
        # Cookies that GitHub's website sets for one person's login must not reach the next one's.
        self._session = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar())
        self._sinks = Sinks(settings, clock, random)
        self._store = Store(self.database, meter=self.metrics, follow_up=self._caused_by)
        self._store.notifier.works = role != "web"
        owner = f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"
        alone = role == "run" and self.database.dialect == "sqlite"
        self.passport_keys = PassportKeys(settings.github_private_key, settings.secret_key, settings.former_secret_key)
        self.gateway = self._gateway(None if alone else SharedPace(self._store, owner))
        compared = GitHubReads(self.gateway, self._store, clock, meter=self.metrics)  # type: ignore[abstract]
        self._github = TokenPermissions(compared, self._store, clock)  # type: ignore[abstract]
        """GitHub as all parts call it, so that no part uses an answer older than the known facts."""
        self.engine = self._engine(owner)
        self.feed, self.watch = create_feed(self.engine)
        self.waits = ChangeWaits(self.engine, self.feed.following)
        self.feed.subscribe(self.waits.on_event)
        self.sweeper = Reconciler(self.engine, interval=settings.sweep, matters=may_matter)
        kept = (settings.timeline_kept, settings.landings_kept)
        self.inbox = Inbox(self.engine, self.sweeper, timeline_kept=kept[0], landings_kept=kept[1])
        self.missed = MissedDeliveries(self.inbox.receive, self.sweeper.request_deliveries, self.engine.wakeup)
        self.worker = self._worker()
        self.scheduler = Scheduler(self.engine, concurrency=settings.concurrency)
        self.dispatcher = self._dispatcher()
        self.app_status = self._app_status()
        self.reporter = ProcessReporter(
            self.engine.store,
            self.metrics,
            clock,
            owner=self.engine.owner,
            role=role,
            slots=self.gateway.slots_status,
            budget=lambda: self.gateway.budget,
            accepted=lambda: self.app_status.accepted,
        )

        self.request_counts = RequestCounts(self.engine.store, clock, self.gateway.request_counts)

    async def start(self, *, worker: bool = True) -> None:
        """Migrate an SQLite file; a worker releases the leases of its predecessor.

        SQLite has one worker, so no running one can have a lease at its start; on PostgreSQL others may be running, and
        leases expire by themselves. If no process wrote for a while, the database may be restored: every queued pull
        request is read first.
        """
        if self.database.dialect == "sqlite":
            await migrate(self.database)
        # The caller refuses to run on tables of another version.
        if not await self._migrated():
            return
        async with self.engine.change() as change:
            # A web process may start before the worker, and its writes would hide the gap.
            await refetch_after_pause(change)
            if worker:
                if self.database.dialect == "sqlite":
                    await change.tx.queues.release_all()
                    await change.tx.jobs.release_all(change.now)
                    await change.tx.outbox.release_all()
                await shorten_waits(change, self.settings.lease * _OUTBOX_LEASES)

    def application(self) -> web.Application:
        proxy = UntrustedProxy(ClientAddresses(self.settings.trusted_proxies, self.settings.client_header))
        receiver = Receiver(
            secret=self.settings.github_webhook_secret,
            own_app_id=int(self.settings.github_app_id),
            store=self.missed.receive,
            clock=self.clock,
            meter=self.metrics,
            proxy=proxy,
        )
        checks = {"database": self._database_answers, "migrations": self._migrated, "app": self._app_accepted}
        app = create_app(receiver, Readiness(checks, self.clock, lambda: self.app_status.advice or proxy.advice))
        access = Access(self.engine, self.gateway.people, public_pages=self.settings.public_pages)
        logins = login_routes(self.settings, self.engine, access, self._session, self.gateway.app)
        app.router.add_routes([description(described_routes(self.engine, access)), *open_routes(logins)])
        keys_required = self.settings.idempotency_key == "required"
        streams = create_streams(self.settings, self.engine, access, self.feed, self.watch)
        parts = ApiParts(self._examine, logins, self.gateway.heads, self.waits, streams.serve_token)
        app.add_subapp(PREFIX, create_api(self.engine, access, parts, keys_required=keys_required))
        app.router.add_routes(McpHandler(self.engine, app, self.settings.public_url).routes())
        guarded = for_operators(self.reporter.handle, self.engine.store, self.clock)
        app.router.add_get("/metrics", guarded if self.settings.metrics_need_token else self.reporter.handle)
        status = QueueStatusHandler(self.engine, access, self.gateway.slots_status, self.settings.max_queue_depth)
        app.router.add_get("/queue/status", status.handle)
        app.router.add_get(KEYS_PATH, PublishedKeys(self.engine, self.passport_keys).handle)
        app.router.add_get("/setup/installed", InstalledPage(self._delivered).handle)
        add_site(app, self.settings, self.engine, access, streams, session=self._session, github=self.gateway.app)
        return app

    def listener(self) -> DatabaseListener | None:
        """Create the listener that wakes this process for work of others; None on SQLite."""
        if self.database.dialect == "sqlite":
            return None
        notifier, wakeup = self.engine.store.notifier, self.engine.wakeup
        return DatabaseListener(
            self.database,
            notifier,
            wakeup.notify,
            clock=self.clock,
            random=self._random,
            lost=self.sweeper.schedule_now,
        )

    def end(self) -> None:
        """Drain: finish what is running, start nothing new."""
        self.engine.ending.set()
        self.dispatcher.end()

    async def close(self) -> None:
        """Cancel running work and close connections."""
        await self.scheduler.cancel()
        await self.worker.cancel()
        await self.inbox.drain()
        await self.watch.close()
        await self.reporter.close()
        await self.request_counts.close()
        await self._session.close()
        await self._sinks.client.close()
        await self.database.close()

    def _gateway(self, shared: SharedPace | None) -> Gateway:
        connection = Connection(
            self._session,
            api_url=self.settings.github_api_url,
            app_id=self.settings.github_app_id,
            private_key=self.settings.github_private_key,
            clock=self.clock,
            meter=self.metrics,
            shared=shared,
            stored_tokens=StoredTokens(self._store, self.settings.github_private_key),
        )
        connection.may_write = lambda repository: may_write(self.engine, repository)
        return Gateway(connection)

    def _app_status(self) -> AppStatus:
        return AppStatus(
            self.gateway.app,
            self.gateway.repositories,
            self.clock,
            public_url=self.settings.public_url,
            relay_url=self.settings.relay_url,
            correct=correction_of(self.gateway.app, self.settings).apply,
            retry_after=self.settings.interval / 2,
        )

    def _engine(self, owner: str) -> Engine:
        store, policy = self._store, self.settings.policy()
        policies = Policies(
            self._github,
            store,
            policy,
            self.clock,
            forget_rules=self._github.forget_rules,
            teams=KnownTeams(self.gateway.teams.team, store, self.clock),
            shared=self.settings.organization_config,
        )
        progress = ProgressNotifiers(
            (ProgressLog(), BusProgress(self.bus), CheckRunProgress(store, policy, self.clock))
        )
        return Engine(
            store=store,
            github=self._github,
            clock=self.clock,
            policies=policies,
            random=self._random,
            owner=owner,
            publish=self.bus.publish,
            jobs_of=self._sinks.jobs.of_event,
            sign=self.passport_keys.sign,
            progress=progress,
            lease=self.settings.lease,
            meter=self.metrics,
        )

    def _worker(self) -> Worker:
        access = Access(self.engine, self.gateway.people)
        bulk = BulkJobs(self.engine, access, self.waits)
        handlers = {
            **self.inbox.handlers(),
            **bulk.handlers(),
            **self._sinks.sender.handlers(),
            NOTES_JOB: obeying_limits(PassportNotes(self.engine).write, self._random),
        }
        self.metrics.expect_jobs(tuple(handlers))
        return create_worker(self.engine, handlers, self._caused_by)

    def _caused_by(self, letter: DeadLetter) -> Iterable[JobRequest]:
        """Name the jobs that a dead letter causes."""
        return (*of_dead_letter(letter), *self._sinks.jobs.of_dead_letter(letter))

    def _dispatcher(self) -> OutboxDispatcher:
        dispatcher = OutboxDispatcher(
            self.engine.store,
            self._github,
            self.clock,
            owner=self.engine.owner,
            random=self._random,
            lease=self.settings.lease * _OUTBOX_LEASES,
            meter=self.metrics,
        )
        dispatcher.answer_by(self.engine.policies)
        dispatcher.wake_by(self.engine.wakeup.waiter({WakeupKind.OUTBOX}, shared=True))
        dispatcher.link_to(website(self.settings.github_api_url))
        return dispatcher

    async def _examine(self, repository: str | None) -> Report:
        """Examine the installation for a caller of the API. Raises RepositoryNotFound."""
        # Imported when used: few processes ever examine an installation.
        from bot.doctor.doctor_facts import read_host
        from bot.doctor.examination import Doctor
        from bot.doctor.webhook_probe import WebhookProbe

        doctor = Doctor(
            self.gateway,
            self.clock,
            self.settings.policy(),
            public_url=self.settings.public_url,
            relay_url=self.settings.relay_url,
            probe=WebhookProbe(
                self._session,
                self.settings.github_webhook_secret,
                int(self.settings.github_app_id),
                self.settings.relay_url,
            ),
        )
        return await doctor.examine(await read_host(self.settings, os.environ, now=self.clock.now()), repository)

    async def _app_accepted(self) -> bool:
        await self.app_status.first_answer()
        if self.app_status.refusal is not None:
            raise RequirementError(self.app_status.refusal)
        return True

    async def _database_answers(self) -> bool:
        await self.database.ping()
        return True

    async def _delivered(self) -> bool:
        return await self.engine.store.read(lambda tx: tx.keys.any_in(DELIVERIES))

    async def _migrated(self) -> bool:
        return await migration_state(self.database) is MigrationState.USABLE


def create_worker(engine: Engine, handlers: Mapping[str, Handler | ResultHandler], follow_up: FollowUp) -> Worker:
    """Create the worker that does the engine's jobs; `follow_up` names the jobs that a dead letter causes."""
    return Worker(
        engine.store.database,
        engine.clock,
        handlers,
        WorkerSettings(
            owner=engine.owner,
            random=engine.random,
            lease=engine.lease,
            is_retryable=is_retryable,
            attempt_level=attempt_level,
            meter=engine.meter,
            follow_up=follow_up,
        ),
        done=partial(engine.wakeup.notify, WakeupKind.JOBS, ended=True),
    )


def login_routes(
    settings: Settings, engine: Engine, access: Access, session: aiohttp.ClientSession, app: App
) -> LoginRoutes:
    """Create the routes, which ask GitHub for the App's client id at the first login."""

    async def client_id() -> str:
        return settings.client_id or (await app.read()).client_id

    flow = DeviceFlow(
        session,
        website=website(settings.github_api_url),
        api_url=settings.github_api_url,
        client_id=client_id,
        clock=engine.clock,
        client_secret=settings.client_secret,
    )
    ids, limits = LoginIds(settings.github_private_key), LoginLimits(engine.clock)
    addresses = ClientAddresses(settings.trusted_proxies, settings.client_header)
    return LoginRoutes(engine, access, Logins(flow, ids, limits, addresses))


_log = structlog.get_logger("imq.waits")

_LONGEST_WAIT = timedelta(hours=1)
"""The longest wait that IMQ stores; a longer one was stored while the clock was wrong."""

_CLOCKS_AGREE = timedelta(minutes=1)
"""How far this machine's clock may differ from PostgreSQL's."""


async def shorten_waits(change: Change, lease: timedelta) -> None:
    """Shorten waits that were stored while the clock was ahead, unless the current clock may be wrong itself.

    `lease` is the longest lease.
    """
    if (difference := await clock_offset(change.tx.connection, change.now)) > _CLOCKS_AGREE:
        _log.warning("clock_differs_from_the_databases", seconds=difference.total_seconds())
        return
    bounds = {
        InstantKind.PAST: timedelta(0),
        InstantKind.LEASE: lease,
        InstantKind.WAIT: _LONGEST_WAIT,
        InstantKind.KEPT: KEPT,
    }
    if shortened := await clamp_instants(change.tx.connection, change.now, bounds):
        _log.warning("waits_shortened", instants=shortened)
