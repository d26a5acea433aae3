"""Commands that run IMQ's processes and the demo, and migrate the database."""

import asyncio
import sys
from contextlib import ExitStack

import click

from bot.cli.console import CommandRefused, echo
from bot.cli.host import check_file, environ, host_settings
from bot.cli.host import settings as _settings
from bot.logs.printable import printable
from bot.process.process_memory import imported_for_good, keep_small
from bot.settings.environment import Settings, may_be_stored


@click.command()
def run() -> None:
    """Run web and worker in one process, and migrate the database."""
    _run(web=True, worker=True)


@click.command()
def web() -> None:
    """Run the web process, which receives webhooks."""
    _run(web=True, worker=False)


@click.command()
def worker() -> None:
    """Run the worker process, which advances the queues."""
    _run(web=False, worker=True)


@click.command()
def migrate() -> None:
    """Create or update the database's tables."""
    settings = host_settings()
    check_file(settings.database_url.get_secret_value())
    from queue_engine import migrations
    from queue_engine.core.database.database import Database

    async def migrated() -> None:
        database = Database(settings.database_url.get_secret_value())
        try:
            await migrations.migrate(database)
        finally:
            await database.close()

    try:
        asyncio.run(migrated())
    except migrations.MigrationError as problem:
        raise CommandRefused(str(problem)) from None
    echo("The database has the tables of this version.")


@click.command()
@click.option(
    "--speed", type=click.FloatRange(min=0, min_open=True), default=1.0, show_default=True, help="Factor of real time."
)
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of all random choices.")
@click.option(
    "--lag", type=click.FloatRange(min=0), default=0.0, show_default=True, help="Seconds by which GitHub's reads lag."
)
@click.option("--keep-open", is_flag=True, help="Keep the emulator and the bot running at the end.")
@click.option("--trains", is_flag=True, help="Land 24 pull requests in sequence and in trains, side by side.")
@click.option(
    "--failing",
    type=click.FloatRange(0, 50),
    default=10.0,
    show_default=True,
    help="Percent of these pull requests that are to leave, with --trains.",
)
@click.option("--pairs", is_flag=True, help="These fail together with another one, and not alone, with --trains.")
def demo(speed: float, seed: int, lag: float, keep_open: bool, trains: bool, failing: float, pairs: bool) -> None:
    """Queue ten pull requests on a local GitHub: good ones land, the others are ejected with a reason."""
    try:
        from imq_demo.run import run_demo
    except ModuleNotFoundError:
        raise CommandRefused(
            "The demo is not installed: get it by `pip install 'imq[demo]'`, or run `make demo` in a clone of IMQ."
        ) from None

    sys.exit(run_demo(speed, seed, keep_open, lag=lag, trains=trains, failing=failing / 100, pairs=pairs))


def _run(*, web: bool, worker: bool) -> None:
    keep_small()
    given = environ()
    settings = host_settings() if may_be_stored(given) else _settings(web=web)
    # Imported when needed, so that `imq --help` and faults in the settings are printed at once.
    with imported_for_good():
        from bot.process import lifecycle
        from bot.process.sqlite_file import StartRefused
        from bot.process.traces import exported

    try:
        with ExitStack() as stack, exported(given):
            bound = None
            if web and settings.port == 0:
                bound = stack.enter_context(lifecycle.bind(settings))
                settings = settings.on_port(bound.getsockname()[1])
            if isinstance(settings, Settings):
                asyncio.run(lifecycle.run(settings, web=web, worker=worker, bound=bound))
            else:
                from bot.process import setup_mode

                asyncio.run(setup_mode.run(given, settings, web=web, worker=worker, bound=bound))
    except StartRefused as problem:
        raise CommandRefused(printable(str(problem))) from None
