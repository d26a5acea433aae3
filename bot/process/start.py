"""Start a process: with the credentials of its settings, or with those of the database."""

import socket
from collections.abc import Mapping

from bot.process import lifecycle
from bot.process.setup_mode import SetupMode
from bot.process.sqlite_file import exclusive
from bot.settings.environment import HostSettings


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
