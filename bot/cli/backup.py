"""`imq backup`: copy the database of SQLite while IMQ runs."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import click

from bot.cli.console import CommandRefused, echo
from bot.cli.setup import host_settings
from queue_engine.core.database.database import database_url
from queue_engine.store.queue_file import MARK_COPY


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
def backup(file: Path) -> None:
    """Copy SQLite's database into a new file, while IMQ runs."""
    url = database_url(host_settings(quiet=True).database_url.get_secret_value())
    if url.get_backend_name() != "sqlite":
        raise CommandRefused("The database is PostgreSQL: `pg_dump --format=custom --file=FILE` backs it up.")
    source = Path(url.database or "")
    if not source.exists():
        raise CommandRefused(f"No database {source}. Change to the folder of IMQ, or set DATABASE_URL.")
    try:
        # The copy has everything that the database has: only its owner may read it, from its first byte on.
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError as error:
        raise CommandRefused(f"{file} cannot be written: {error.strerror}.") from None
    try:
        copy(source, file)
    except sqlite3.Error as error:
        file.unlink()
        raise CommandRefused(f"{source} cannot be copied to {file}: {error}.") from None
    echo(f"Copied {source} to {file}")


def copy(source: Path, target: Path) -> None:
    """Copy one instant of the database, and mark the copy, so that IMQ doubts it at its start. Raises sqlite3.Error."""
    with closing(sqlite3.connect(source)) as running, closing(sqlite3.connect(target, isolation_level=None)) as made:
        running.backup(made)
        # One file, without companions that a person would have to copy too. IMQ's start sets WAL mode again.
        made.execute("PRAGMA journal_mode=DELETE")
        made.execute(MARK_COPY)
