"""Load the settings of the host that a command runs on, open its database, and name who runs the command."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click
import structlog

from bot.cli.console import CommandRefused, echo
from bot.logs.configure import configure
from bot.settings import env_file
from bot.settings.environment import (
    HostSettings,
    QueueSettings,
    Settings,
    SettingsProblem,
    load_host_settings,
    load_queue_settings,
    load_settings,
    may_be_stored,
    unknown_variables,
)
from queue_engine.config.kinds import duration
from queue_engine.core.timing.clock import SystemClock

if TYPE_CHECKING:
    from bot.registration.manifest import Credentials
    from queue_engine.core.database.database import Database
    from queue_engine.domain.model import Repository
    from queue_engine.store import Store, Transaction

T = TypeVar("T")
S = TypeVar("S", bound=QueueSettings)
H = TypeVar("H", bound=HostSettings)

_log = structlog.get_logger("imq.settings")


def settings(*, quiet: bool = False, web: bool = True) -> Settings:
    """Load the settings and configure logging; exit with code 2 and a list of all problems.

    A `quiet` command logs only warnings, unless the level is debug. Without `web` no webhooks are received.
    """
    return _configured(_load(partial(_load_complete, web=web)), quiet=quiet)


def host_settings(*, quiet: bool = False) -> HostSettings:
    """Load the settings without the App's credentials, as `settings` does."""
    return _configured(_load(load_host_settings), quiet=quiet)


def queue_settings() -> QueueSettings:
    """Load the settings that concern queues, without those that GitHub needs; exit as `settings` does."""
    return _load(load_queue_settings)


def environ() -> dict[str, str]:
    """Return the environment, completed by the file `.env` of the current directory. Raises CommandRefused."""
    try:
        return env_file.environment(os.environ, Path(env_file.NAME))
    except (OSError, UnicodeDecodeError) as error:
        raise CommandRefused(f"{env_file.NAME} cannot be read: {error}") from None


def _load_complete(given: Mapping[str, str], *, web: bool) -> Settings:
    """Load the settings, with the credentials of the database if there are none beside them."""
    if may_be_stored(given) and (credentials := _stored_credentials(load_host_settings(given))) is not None:
        return load_settings(credentials.complete(given), web=web)
    return load_settings(given, web=web)


def _stored_credentials(settings: HostSettings) -> "Credentials | None":
    from bot.registration.stored import StoredCredentials, WrongSecretKey

    assert settings.secret_key is not None, "it decrypts them"
    key, former = settings.secret_key, settings.former_secret_key
    try:
        return with_database(settings, lambda store: StoredCredentials(store, key, former).load())
    except WrongSecretKey as problem:
        raise CommandRefused(str(problem)) from None


def _load(load: Callable[[Mapping[str, str]], S]) -> S:
    try:
        return load(environ())
    except SettingsProblem as problem:
        echo(str(problem), err=True)
        sys.exit(2)


def _configured(found: H, *, quiet: bool) -> H:
    configure("warning" if quiet and found.log_level == "info" else found.log_level, found.log_format)
    if unknown := unknown_variables(environ()):
        _log.warning("unknown_settings", names=", ".join(unknown), advice="IMQ has no such settings")
    return found


def run_with_store(work: Callable[["Store"], Awaitable[T]]) -> T:
    """Do `work` on the database of the settings. Raises CommandRefused when there is no usable one."""
    return with_database(host_settings(quiet=True), work)


def with_database(settings: HostSettings, work: Callable[["Store"], Awaitable[T]]) -> T:
    """Do `work` on the database of these settings. Raises CommandRefused when there is no usable one."""

    async def opened() -> T:
        async with open_store(settings) as store:
            return await work(store)

    return asyncio.run(opened())


@asynccontextmanager
async def open_store(settings: HostSettings) -> AsyncIterator["Store"]:
    """Open the database of these settings, and close it at the end. Raises CommandRefused if it is not usable."""
    # Imported when needed, so that commands which open no database start in a third of the time.
    from queue_engine.migrations import MigrationState, migration_state
    from queue_engine.store import Store

    database = _database(settings.database_url.get_secret_value())
    try:
        if await migration_state(database) is not MigrationState.USABLE:
            raise CommandRefused("The database has another version. Run `imq migrate`.")
        yield Store(database)
    finally:
        await database.close()


def _database(url: str) -> "Database":
    from queue_engine.core.database.database import Database

    database = Database(url)
    file = database.url.database or ""
    if database.dialect == "sqlite" and not Path(file).exists():
        # Connecting would create an empty file in the current directory.
        raise CommandRefused(f"No database {file}. Change to the folder of IMQ, or set DATABASE_URL.")
    check_file(url)
    return database


def check_file(url: str) -> None:
    """Refuse an SQLite file that is missing its directory, or that cannot be written. Raises CommandRefused."""
    from bot.process.sqlite_file import FileRefused, check

    try:
        check(url)
    except FileRefused as problem:
        raise CommandRefused(str(problem)) from None


async def find_repository(tx: "Transaction", name: str) -> "Repository":
    """Return the repository of this name. Raises CommandRefused for one that the database does not have."""
    owner, _, repository = name.partition("/")
    found = await tx.repositories.named(owner, repository)
    if found is None:
        raise CommandRefused(f"IMQ does not know {name}. Install the App there, and start IMQ.")
    return found


def account() -> str | None:
    """Return who runs the command, as the operating system names them; None without a name."""
    import getpass

    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return None


class StartTime(click.ParamType[datetime]):
    """How long ago (`7d`), or an instant with its offset from UTC, or a date in UTC."""

    name = "since"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Parse the option."""
        try:
            return SystemClock().now() - duration(value)
        except ValueError:
            pass
        except OverflowError:
            self.fail("This is too long ago.", param, ctx)
        try:
            at = datetime.fromisoformat(value)
        except ValueError:
            self.fail("Give a duration such as 7d, or a date such as 2026-11-01.", param, ctx)
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at
