"""`imq setup`: register the App. And what commands share: load settings, open the database, print tables."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, TypeVar

import click
import structlog

from bot.cli.console import CommandRefused, echo
from bot.logs.configure import configure
from bot.logs.printable import on_one_line
from bot.settings import env_file
from bot.settings.environment import (
    CREDENTIALS,
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
from bot.settings.safe_values import HERE, public_url, relay_url, safe_api_url

if TYPE_CHECKING:
    from bot.registration.manifest import Credentials
    from queue_engine.core.database.database import Database
    from queue_engine.store import Store

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
    # Imported when needed, so that commands which open no database start in a third of the time.
    from queue_engine.core.database.database import Database
    from queue_engine.core.database.outage import fault_of

    database = Database(settings.database_url.get_secret_value())
    file = database.url.database or ""
    if database.dialect == "sqlite" and not Path(file).exists():
        # Connecting would create an empty file in the current directory.
        raise CommandRefused(f"No database {file}. Change to the folder of IMQ, or set DATABASE_URL.")
    check_file(settings.database_url.get_secret_value())
    try:
        return asyncio.run(_run_with_store(database, work))
    except click.ClickException:
        raise
    except Exception as error:
        if (fault := fault_of(error)) is None:
            raise
        raise CommandRefused(fault.sentence) from None


def check_file(url: str) -> None:
    """Refuse an SQLite file that is missing its directory, or that cannot be written. Raises CommandRefused."""
    from bot.process.sqlite_file import FileRefused, check

    try:
        check(url)
    except FileRefused as problem:
        raise CommandRefused(str(problem)) from None


async def _run_with_store(database: "Database", work: Callable[["Store"], Awaitable[T]]) -> T:
    from queue_engine.migrations import MigrationState, migration_state
    from queue_engine.store import Store

    try:
        if await migration_state(database) is not MigrationState.USABLE:
            raise CommandRefused("The database has another version. Run `imq migrate`.")
        return await work(Store(database))
    finally:
        await database.close()


def columns(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Format a table in plain text, each column as wide as its longest cell."""
    table = [tuple(map(on_one_line, row)) for row in (titles, *rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in table)
    return "\n".join(line.rstrip() for line in lines)


def instant(at: datetime | None) -> str:
    """Format an instant to the second, in UTC; a dash for None."""
    return "-" if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"


def account() -> str | None:
    """Return who runs the command, as the operating system names them; None without a name."""
    import getpass

    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return None


_KEY = "IMQ_SECRET_KEY"
_KEY_BYTES = 32
_API_PATH = "/api/v3"


class _Url(click.ParamType[str]):
    """A URL that a check of the settings accepts."""

    name = "URL"

    def __init__(self, check: Callable[[str], str]) -> None:
        self._check = check

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the URL without a trailing slash. Raises BadParameter."""
        try:
            return self._check(value)
        except ValueError as problem:
            self.fail(f"{value} {problem}", param, ctx)


@dataclass(frozen=True, slots=True)
class _Options:
    """The options as they were typed."""

    url: str | None
    relay: str | None
    org: str
    enterprise: str | None
    without: tuple[str, ...]
    path: Path
    force: bool
    platform: str | None
    database: bool
    opens: bool


@click.command()
@click.option("--url", type=_Url(public_url), help="Where GitHub reaches IMQ.  [default: IMQ_PUBLIC_URL]")
@click.option("--relay", type=_Url(relay_url), help="Channel of a webhook relay, where GitHub does not reach IMQ.")
@click.option("--org", default="", help="Organization that owns the App.  [default: your own account]")
@click.option("--enterprise", type=_Url(safe_api_url), help="Your GitHub Enterprise Server.")
@click.option("--without", multiple=True, metavar="PERMISSION", help="Optional permission to leave out.")
@click.option(
    "--env-file",
    "path",
    type=click.Path(path_type=Path),
    default=env_file.NAME,
    show_default=True,
    help="File to write.",
)
@click.option("--force", is_flag=True, help="Replace credentials that are there already.")
@click.option(
    "--print",
    "platform",
    type=click.Choice(["heroku", "fly", "render"]),
    help="Print commands instead of writing a file.",
)
@click.option("--database", is_flag=True, help="Store them in the database, encrypted with IMQ_SECRET_KEY.")
@click.option("--open", "opens", is_flag=True, help="Open the page in the browser.")
def setup(**given: Any) -> None:
    """Register the GitHub App, and write its credentials to a file, the terminal or the database."""
    # Imported when needed, so that `imq --help` is printed at once.
    from bot.registration.manifest import unknown_optional
    from bot.registration.manifest_flow import Offer, addresses_of, register

    options, settings = _Options(**given), host_settings(quiet=True)
    url, relay = options.url or settings.public_url, options.relay or settings.relay_url
    if url is None and relay is None:
        raise click.UsageError(
            "Where does GitHub reach IMQ? Give --url https://imq.example.com, or --relay https://smee.io/CHANNEL."
        )
    if wrong := unknown_optional(options.without):
        raise click.UsageError(wrong)
    _refuse_to_overwrite(options, settings)
    api_url = _api_url(options.enterprise) or settings.github_api_url
    elsewhere = api_url if api_url != HostSettings.model_fields["github_api_url"].default else None
    # A trial with a relay has its pages on this machine: GitHub sends the person back there after the login.
    pages = url or (None if options.platform else f"http://{HERE}:{settings.port}")
    has_key = settings.secret_key or options.platform or env_file.conflicts(options.path, [_KEY])
    key = None if has_key else token_hex(_KEY_BYTES)
    found = {"IMQ_PUBLIC_URL": pages, "IMQ_RELAY_URL": relay, "IMQ_GITHUB_API_URL": elsewhere, _KEY: key}
    extra = {name: value for name, value in found.items() if value is not None}
    # After the installation GitHub sends the person and the first webhook to the public address.
    starts_first = url is not None

    async def save(credentials: "Credentials") -> str:
        try:
            saved = await _save(options, settings, credentials, extra)
        except Exception as error:
            # GitHub shows the credentials once: they must not be lost.
            echo(_lines(credentials, extra))
            saved = f"The credentials could not be stored ({error}). The terminal shows them."
        echo(f"Registered the App. {saved}")
        return f"{saved} Start IMQ with them first." if starts_first else saved

    def show(page: str) -> None:
        echo(f"Open this page in your browser: {page}")
        if options.opens:
            click.launch(page)

    offer = Offer(addresses_of(url, relay, pages), api_url, options.org, options.without)
    credentials = asyncio.run(register(offer, save, show))
    install = f"install the App on your repositories: {credentials.install_url}"
    if starts_first:
        echo(f"Start IMQ with them{'' if options.platform else ', by `imq run` for example'}. Then {install}")
    else:
        echo(f"Now {install}\nThen start IMQ: `imq run`")
        if pages is not None:
            echo(f"Its pages: {pages}")


def _refuse_to_overwrite(options: _Options, settings: HostSettings) -> None:
    """Refuse to lose the credentials of an older App, before a new one is made."""
    if options.platform is not None:
        return
    if options.database:
        if settings.secret_key is None:
            raise click.UsageError("Set IMQ_SECRET_KEY: it encrypts the credentials in the database.")
        place, found = "The database", with_database(settings, _is_registered)
    else:
        place, found = str(options.path), bool(env_file.conflicts(options.path, CREDENTIALS))
        if not options.path.absolute().parent.is_dir():
            raise click.UsageError(f"There is no directory {options.path.absolute().parent}.")
    if found and not options.force:
        raise click.UsageError(f"{place} has the credentials of an App already. --force replaces them.")


async def _is_registered(store: "Store") -> bool:
    async with store.reading() as tx:
        found = await tx.github_secrets.find()
    return found is not None and found.sealed is not None


async def _save(options: _Options, settings: HostSettings, credentials: "Credentials", extra: dict[str, str]) -> str:
    """Store the credentials where the options say; return where they are."""
    if options.platform is not None:
        from bot.registration.manifest import PLATFORMS

        echo(PLATFORMS[options.platform](credentials.settings() | extra))
        return "The terminal shows the credentials."
    if options.database and settings.secret_key is not None:
        from bot.registration.stored import StoredCredentials
        from queue_engine.core.database.database import Database
        from queue_engine.core.timing.clock import SystemClock
        from queue_engine.store import Store

        database = Database(settings.database_url.get_secret_value())
        try:
            stored, now = StoredCredentials(Store(database), settings.secret_key), SystemClock().now()
            await stored.save(credentials, now, by=account(), via="command_line", replace=options.force)
        finally:
            await database.close()
        return "The credentials are in the database, encrypted."
    env_file.write(options.path, credentials.settings() | extra)
    return f"The credentials are in {options.path}."


def _lines(credentials: "Credentials", extra: dict[str, str]) -> str:
    return "\n".join(f"{name}={value}" for name, value in (credentials.settings() | extra).items())


def _api_url(enterprise: str | None) -> str | None:
    """Return the API of an Enterprise Server, whose address may be given with or without its path."""
    return enterprise and enterprise.removesuffix(_API_PATH) + _API_PATH
