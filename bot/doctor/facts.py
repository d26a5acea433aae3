"""Hold the facts that the checks judge: plain data, read once."""

import asyncio
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from bot.gateway.doctor_reads import PushRules, RulesetBypass
from bot.gateway.schemas import AppAnswer, InstallationAnswer, WebhookAnswer
from bot.settings.environment import HostSettings, unknown_variables
from notifications.sinks.sender import DISABLED
from notifications.sinks.sink import SINK_JOBS, Sink
from queue_engine.config.document import ConfigError
from queue_engine.config.model import Policy
from queue_engine.core.database.database import Database
from queue_engine.core.database.outage import fault_of
from queue_engine.domain.facts import BranchRules, Delivery, MergeMethod
from queue_engine.domain.model import Repository
from queue_engine.migrations import MigrationState, migration_state
from queue_engine.store import Store
from queue_engine.workflows.trigger_choice import TriggerChoice


@dataclass(frozen=True, slots=True)
class HostFacts:
    """The settings, the database and its disk."""

    unknown_settings: tuple[str, ...] = ()
    database_fault: str | None = None
    """Why the database cannot be used, in a sentence."""
    migrated: bool = True
    disk_free: int | None = None
    """Bytes of SQLite's file system that are free; None for other databases."""
    missing_for_login: tuple[str, ...] = ()
    """Settings that a login at the pages needs, where the pages have an address."""
    sinks: tuple[Sink, ...] = ()
    sinks_gone: frozenset[str] = frozenset()
    """Names of sinks whose receiver is gone, as their dead letters say."""
    sinks_failing: frozenset[str] = frozenset()
    """Names of sinks with other dead letters."""


@dataclass(frozen=True, slots=True)
class AppFacts:
    """The App, as GitHub has it."""

    refusal: str | None = None
    """GitHub's answer, if it does not accept the credentials."""
    outage: str | None = None
    """Why GitHub did not answer."""
    clock_ahead: timedelta | None = None
    """How far this machine's clock is ahead of GitHub's."""
    app: AppAnswer | None = None
    installations: tuple[InstallationAnswer, ...] = ()
    webhook: WebhookAnswer | None = None
    public_url: str | None = None
    relay_url: str | None = None
    deliveries: tuple[Delivery, ...] = ()
    """The last page of attempts, newest first."""
    delivered_to: str | None = None
    """The address of the newest one; None if GitHub does not say."""
    reached: bool = False
    """Whether a call to the webhook address reached this IMQ just now."""
    budgets: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """By account, the requests left and the limit of the hour."""


@dataclass(frozen=True, slots=True)
class HeadChecks:
    """The names of all checks that reported on a head, each with the App that reported it."""

    merged: bool
    reported: frozenset[tuple[str, int | None]]


@dataclass(frozen=True, slots=True)
class TrainFacts:
    """What decides whether trains run on a base branch."""

    choice: TriggerChoice
    candidates: PushRules
    """Of the branches on which IMQ builds and publishes candidates."""
    base: PushRules
    unproved: tuple[str, ...] = ()
    """Branches with names as IMQ gives them, of which GitHub does not show that IMQ alone made them."""


@dataclass(frozen=True, slots=True)
class RepositoryFacts:
    """A repository and the rules of its default branch."""

    repository: Repository
    branch: str
    policy: Policy
    config_error: ConfigError | None = None
    auto_merge: bool = False
    label_missing: bool = False
    """The repository has no label of the name that IMQ sets."""
    testing_label_missing: bool = False
    """The repository has queue-only checks, and no label that starts them."""
    methods: frozenset[MergeMethod] = frozenset(MergeMethod)
    rules: BranchRules | None = None
    """None where IMQ could not read them."""
    rulesets: tuple[RulesetBypass, ...] = ()
    heads: tuple[HeadChecks, ...] = ()
    """Of a few open and merged pull requests, the newest first."""
    renovate: tuple[str, Mapping[str, Any]] | None = None
    """The path and the content of Renovate's configuration."""
    dependabot: Mapping[str, Any] | None = None
    trains: TrainFacts | None = None
    """None without trains, and where IMQ could not read what decides about them."""
    unread: tuple[str, ...] = ()
    """What GitHub did not show, with its answer."""


_MOST_LETTERS = 500


async def read_host(settings: HostSettings, environ: Mapping[str, str]) -> HostFacts:
    """Read them without creating a database that is missing."""
    database = Database(settings.database_url.get_secret_value())
    unknown, fault, migrated, free = unknown_variables(environ), None, False, None
    gone, failing = frozenset[str](), frozenset[str]()
    try:
        file = Path(database.url.database or "") if database.dialect == "sqlite" else None
        if file is not None and file.absolute().parent.is_dir():
            free = (await asyncio.to_thread(shutil.disk_usage, file.absolute().parent)).free
        if file is not None and not await asyncio.to_thread(file.exists):
            fault = f"There is no database {file}; `imq run` creates it."
        else:
            migrated = await migration_state(database) is MigrationState.USABLE
        if migrated and settings.sinks:
            gone, failing = await _dead_sinks(database)
    except Exception as error:
        if (kind := fault_of(error)) is None:
            raise
        fault = kind.sentence
    finally:
        await database.close()
    # Without either, nobody wants the login, and its missing settings are no fault.
    wants_login = settings.client_secret is not None or settings.operators is not None
    missing = tuple(settings.missing_for_login()) if wants_login else ()
    return HostFacts(unknown, fault, migrated, free, missing, settings.sinks, gone, failing)


async def _dead_sinks(database: Database) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of sinks with dead letters: those whose receiver is gone, and the others."""
    async with Store(database).reading() as tx:
        letters = [
            letter for kind in SINK_JOBS.values() for letter in await tx.dead_letters.list(_MOST_LETTERS, job_type=kind)
        ]
    gone = {str(each.payload.get("sink")) for each in letters if each.error_message.startswith(DISABLED)}
    return frozenset(gone), frozenset(str(each.payload.get("sink")) for each in letters) - gone
