"""`imq setup`: register the GitHub App from this machine's browser, and keep its credentials."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bot.cli.console import echo
from bot.cli.setup import host_settings
from bot.settings import env_file
from bot.settings.environment import CREDENTIALS
from bot.settings.safe_values import public_url, safe_api_url

if TYPE_CHECKING:
    from bot.registration.credentials import Credentials

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
    org: str
    enterprise: str | None
    without: tuple[str, ...]
    path: Path
    force: bool
    platform: str | None
    opens: bool


@click.command()
@click.option("--url", type=_Url(public_url), help="Where GitHub reaches IMQ.  [default: IMQ_PUBLIC_URL]")
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
@click.option("--force", is_flag=True, help="Replace the credentials that the file has.")
@click.option(
    "--print",
    "platform",
    type=click.Choice(["heroku", "fly", "render"]),
    help="Print commands instead of writing a file.",
)
@click.option("--open", "opens", is_flag=True, help="Open the page in the browser.")
def setup(**given: Any) -> None:
    """Register the GitHub App, and write its credentials to a file."""
    # Imported when needed, so that `imq --help` is printed at once.
    from bot.registration import local
    from bot.registration.permissions import unknown_optional
    from bot.registration.site import Offer, addresses_of

    options, settings = _Options(**given), host_settings(quiet=True)
    url = options.url or settings.public_url
    if url is None:
        raise click.UsageError(
            "Where does GitHub reach IMQ? Give --url https://imq.example.com, or set IMQ_PUBLIC_URL."
        )
    if wrong := unknown_optional(options.without):
        raise click.UsageError(wrong)
    if options.platform is None:
        _refuse_to_overwrite(options)
    api_url = _api_url(options.enterprise) or settings.github_api_url
    extra = {"IMQ_PUBLIC_URL": url} | ({"IMQ_GITHUB_API_URL": api_url} if options.enterprise else {})

    async def save(credentials: "Credentials") -> str:
        return _save(options, credentials, extra)

    def show(page: str) -> None:
        echo(f"Open this page in your browser: {page}")
        if options.opens:
            click.launch(page)

    offer = Offer(addresses_of(url), api_url, options.org, options.without)
    credentials = asyncio.run(local.register(offer, save, show))
    echo(f"Registered the App. Install it on your repositories: {credentials.install_url}")
    if options.platform is None:
        echo("Then start IMQ: imq run")


def _refuse_to_overwrite(options: _Options) -> None:
    """Refuse to lose the credentials of an older App, before a new one is made."""
    found = env_file.conflicts(options.path, CREDENTIALS)
    if found and not options.force:
        raise click.UsageError(f"{options.path} has {', '.join(found)} already. --force replaces them.")
    if not options.path.absolute().parent.is_dir():
        raise click.UsageError(f"There is no directory {options.path.absolute().parent}.")


def _save(options: _Options, credentials: "Credentials", extra: dict[str, str]) -> str:
    """Print the credentials, or write them to the file; return where they are."""
    from bot.registration.credentials import PLATFORMS

    values = credentials.settings() | extra
    if options.platform is not None:
        echo(PLATFORMS[options.platform](values))
        return "The terminal shows the credentials."
    try:
        env_file.write(options.path, values)
    except OSError as error:
        echo(PLATFORMS["render"](values))
        return f"{options.path} could not be written ({error.strerror}). The terminal shows the credentials."
    return f"The credentials are in {options.path}."


def _api_url(enterprise: str | None) -> str | None:
    """Return the API of an Enterprise Server, whose address may be given with or without its path."""
    return enterprise and enterprise.removesuffix(_API_PATH) + _API_PATH
