"""`imq setup`: register the GitHub App."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import click

from bot.cli.console import echo
from bot.cli.host import account, host_settings, open_store, with_database
from bot.settings import env_file
from bot.settings.environment import CREDENTIALS, HostSettings
from bot.settings.setting_values import HERE, public_url, relay_url, safe_api_url

if TYPE_CHECKING:
    from bot.registration.manifest import Credentials
    from queue_engine.store import Store

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
        return saved

    def show(page: str) -> None:
        echo(f"Open this page in your browser: {page}")
        if options.opens:
            click.launch(page)

    offer = Offer(addresses_of(url, relay, pages), api_url, options.org, options.without, starts_first)
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
    found = await store.read(lambda tx: tx.github_secrets.find())
    return found is not None and found.sealed is not None


async def _save(options: _Options, settings: HostSettings, credentials: "Credentials", extra: dict[str, str]) -> str:
    """Store the credentials where the options say; return where they are."""
    if options.platform is not None:
        from bot.registration.manifest import PLATFORMS

        echo(PLATFORMS[options.platform](credentials.settings() | extra))
        return "The terminal shows the credentials."
    if options.database and settings.secret_key is not None:
        from bot.registration.stored import StoredCredentials
        from queue_engine.core.timing.clock import SystemClock

        async with open_store(settings) as store:
            stored, now = StoredCredentials(store, settings.secret_key), SystemClock().now()
            await stored.save(credentials, now, by=account(), via="command_line", replace=options.force)
        return "The credentials are in the database, encrypted."
    env_file.write(options.path, credentials.settings() | extra)
    return f"The credentials are in {options.path}."


def _lines(credentials: "Credentials", extra: dict[str, str]) -> str:
    return "\n".join(f"{name}={value}" for name, value in (credentials.settings() | extra).items())


def _api_url(enterprise: str | None) -> str | None:
    """Return the API of an Enterprise Server, whose address may be given with or without its path."""
    return enterprise and enterprise.removesuffix(_API_PATH) + _API_PATH
