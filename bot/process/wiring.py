"""Build the parts of one process of IMQ, in one place."""

import os
import socket
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from uuid import uuid4

import aiohttp
import structlog
from aiohttp import web

from bot.api.access import Access
from bot.api.app import PREFIX, create_api, description, routes
from bot.api.auth import for_operators
from bot.gateway.gateway import Gateway
from bot.gateway.http.shared_pace import SharedPace
from bot.gateway.http.stored_tokens import StoredTokens
from bot.gateway.policies import Policies
from bot.gateway.token_permissions import TokenPermissions
from bot.metrics import Metrics
from bot.process.report import ProcessReporter
from bot.settings.environment import Settings
from bot.web.application import create_app
from bot.web.readiness import Readiness
from bot.web.status import QueueStatus
from bot.webhooks.missed_deliveries import MissedDeliveries
from bot.webhooks.normalize import may_matter
from bot.webhooks.receiver import Receiver
from notifications.event_bus import EventBus
from notifications.outbox_dispatcher import OutboxDispatcher
from notifications.progress_sink import BusProgress, CheckRunProgress
from queue_engine.core.database.database import Database
from queue_engine.core.database.instants import InstantKind, clamp_instants, clock_offset
from queue_engine.core.database.listener import DatabaseListener
from queue_engine.core.jobs.idempotency import KEPT
from queue_engine.core.jobs.worker import Worker, WorkerSettings
from queue_engine.core.observability.progress import ProgressLog, ProgressNotifiers
from queue_engine.core.timing.clock import Clock
from queue_engine.domain.errors import is_retryable
from queue_engine.effects.context import Change, Engine
from queue_engine.executor.processor import Processor
from queue_engine.handlers.inbox import Inbox
from queue_engine.handlers.reconciler import Reconciler
from queue_engine.handlers.restored import refetch_after_pause
from queue_engine.known.reads import GitHubReads
from queue_engine.migrations import HEAD, current, migrate
from queue_engine.store import Store, WakeupKind

_log = structlog.get_logger("imq.wiring")

_LONGEST_WAIT = timedelta(hours=1)
"""Nothing waits longer before it is looked at again; what was to, may have been stored under a clock that was wrong."""

_CLOCKS_AGREE = timedelta(minutes=1)
"""How far this machine's clock may lie from PostgreSQL's."""

_LETTER_LEASES = 4
"""An outbox item takes a few requests, one after the other: its lease is so many times that of a job."""


class Bot:
    """The parts of one process: `start`, then driven by `bot.process.lifecycle` (or step by step, by tests), then
    `close`."""

    def __init__(self, settings: Settings, *, clock: Clock, random: Callable[[], float], role: str = "run") -> None:
        """`role` is the command that started the process: `run`, `web` or `worker`."""
        self.settings = settings
        self.clock = clock
        self.metrics = Metrics()
        self.database = Database(settings.database_url.get_secret_value())
        self.bus = EventBus()
        self._random = random
        self._session = aiohttp.ClientSession()
        self._store = Store(self.database, meter=self.metrics)
        owner = f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"
        alone = role == "run" and self.database.dialect == "sqlite"
        self.gateway = self._gateway(None if alone else SharedPace(self._store, owner))
        compared = GitHubReads(self.gateway, self._store, clock, meter=self.metrics)
        self._github = TokenPermissions(compared, self._store, clock)
        """GitHub as all parts get it, so that nobody judges an answer that is older than what is known."""
        self.engine = self._engine(owner)
        self.sweeper = Reconciler(self.engine, interval=settings.sweep, matters=may_matter)
        self.inbox = Inbox(self.engine, self.sweeper)
        self.missed = MissedDeliveries(self.inbox.receive, self.sweeper.look_for_deliveries, self.engine.bell)
        self.worker = self._worker()
        self.processor = Processor(self.engine)
        self.dispatcher = self._dispatcher()
        self.reporter = ProcessReporter(
            self.engine.store,
            self.metrics,
            clock,
            owner=self.engine.owner,
            role=role,
            slots=self.gateway.slots_status,
            budget=lambda: self.gateway.budget,
        )

    async def start(self, *, worker: bool = True) -> None:
        """Bring an SQLite file up to date; a worker takes back what the one before it left half done.

        SQLite belongs to one installation with one worker, so that nobody alive can hold a lease at its start; on
        PostgreSQL others may be at work, and leases that nobody renews end by themselves. Where no process wrote for a
        while, the database may be a restored one: every queued pull request is read first.
        """
        if self.database.dialect == "sqlite":
            await migrate(self.database)
        # Tables of another version are not touched: the caller refuses to run on them.
        if not await self._migrated():
            return
        async with self.engine.change() as change:
            # A web process may start before the worker, and what it stores would hide the pause.
            await refetch_after_pause(change)
            if worker:
                if self.database.dialect == "sqlite":
                    await change.tx.queues.release_all()
                    await change.tx.jobs.release_all(change.now)
                    await change.tx.outbox.release_all()
                await self._set_right(change)

    def application(self) -> web.Application:
        """The web application of this process."""
        receiver = Receiver(
            secret=self.settings.github_webhook_secret,
            own_app_id=int(self.settings.github_app_id),
            store=self.missed.receive,
            clock=self.clock,
        )
        checks = {"database": self._database_answers, "migrations": self._migrated}
        app = create_app(receiver, Readiness(checks, self.clock))
        access = Access(self.engine, self.gateway.people)
        app.router.add_routes([description(routes(self.engine, access))])
        app.add_subapp(PREFIX, create_api(self.engine, access))
        guarded = for_operators(self.reporter.handle, self.engine.store, self.clock)
        app.router.add_get("/metrics", guarded if self.settings.metrics == "token" else self.reporter.handle)
        status = QueueStatus(self.engine, access, self.gateway.slots_status, self.settings.max_queue_depth)
        app.router.add_get("/queue/status", status.handle)
        return app

    def listener(self) -> DatabaseListener | None:
        """Hears what other processes make due, and rings this one's bell; there are none on SQLite."""
        if self.database.dialect == "sqlite":
            return None
        store, bell = self.engine.store, self.engine.bell
        return DatabaseListener(
            self.database,
            store.voice,
            bell.notify,
            clock=self.clock,
            random=self._random,
            lost=self.sweeper.look_again,
        )

    async def run_due(self) -> bool:
        """Do everything that is due now, one part after another; whether anything was."""
        done = False
        for part in (self.sweeper, self.worker, self.processor, self.dispatcher):
            done = await part.run_due() or done
        return done

    async def next_due(self) -> datetime | None:
        """When something is due next."""
        sweep = await self.sweeper.next_due()
        async with self.engine.store.reading() as tx:
            due = await tx.next_due()
        return due if sweep is None or (due is not None and due < sweep) else sweep

    async def close(self) -> None:
        """End what still runs and let go of connections."""
        await self.processor.cancel()
        await self.worker.cancel()
        await self.inbox.drain()
        await self.reporter.close()
        await self._session.close()
        await self.database.close()

    def _gateway(self, shared: SharedPace | None) -> Gateway:
        return Gateway(
            self._session,
            api_url=self.settings.github_api_url,
            app_id=self.settings.github_app_id,
            private_key=self.settings.github_private_key,
            clock=self.clock,
            meter=self.metrics,
            shared=shared,
            stored_tokens=StoredTokens(self._store, self.settings.github_private_key),
        )

    def _engine(self, owner: str) -> Engine:
        store, policy = self._store, self.settings.policy()
        policies = Policies(
            self._github,
            store,
            policy,
            self.clock,
            forget_rules=self._github.forget_rules,
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
            progress=progress,
            lease=self.settings.lease,
            meter=self.metrics,
        )

    def _worker(self) -> Worker:
        handlers = self.inbox.handlers()
        self.metrics.expect_jobs(tuple(handlers))
        return Worker(
            self.database,
            self.clock,
            handlers,
            WorkerSettings(
                owner=self.engine.owner,
                random=self._random,
                lease=self.settings.lease,
                is_retryable=is_retryable,
                meter=self.metrics,
            ),
            done=partial(self.engine.bell.notify, WakeupKind.JOBS),
        )

    def _dispatcher(self) -> OutboxDispatcher:
        return OutboxDispatcher(
            self.engine.store,
            self._github,
            self.clock,
            owner=self.engine.owner,
            random=self._random,
            lease=self.settings.lease * _LETTER_LEASES,
            meter=self.metrics,
        )

    async def _set_right(self, change: Change) -> None:
        """Shorten what was stored under a clock that was ahead. Not by a clock that may itself be the wrong one."""
        if (difference := await clock_offset(change.tx.connection, change.now)) > _CLOCKS_AGREE:
            _log.warning("clock_differs_from_the_databases", seconds=difference.total_seconds())
            return
        lease = self.settings.lease * _LETTER_LEASES
        bounds = {
            InstantKind.PAST: timedelta(0),
            InstantKind.LEASE: lease,
            InstantKind.WAIT: _LONGEST_WAIT,
            InstantKind.KEPT: KEPT,
        }
        if drawn := await clamp_instants(change.tx.connection, change.now, bounds):
            _log.warning("waits_shortened", instants=drawn)

    async def _database_answers(self) -> bool:
        await self.database.ping()
        return True

    async def _migrated(self) -> bool:
        return await current(self.database) == HEAD
