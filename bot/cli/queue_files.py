"""`imq export`, `imq import` and `imq backup`: move queues in flight, or copy the database."""

import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import BinaryIO, TextIO

import click
from pydantic import ValidationError

from bot.cli.console import CommandRefused, RepositoryName, echo
from bot.cli.host import StartTime, find_repository, host_settings, run_with_store
from bot.process.sqlite_file import FileRefused, exclusive
from queue_engine.core.database.database import database_url
from queue_engine.core.read_model import adapter
from queue_engine.core.timing.clock import SystemClock
from queue_engine.domain.model import Repository
from queue_engine.store import EntryConflict, Store
from queue_engine.store.action_records import FIRST, ActionRecord
from queue_engine.store.figures import ALIVE
from queue_engine.store.queue_file import FORMAT, VERSION, QueueFile, file_lines, read_queues
from queue_engine.store.restored import MARK_COPY

_AT_ONCE = 1000
"""Events of a page of the timeline."""


Write = Callable[[str], None]


@click.command("export")
@click.option("--output", type=click.Path(path_type=Path), help="Write a new file, and not to standard output.")
@click.option("--repository", type=RepositoryName(), help="Export the queues of this repository only.")
@click.option("--timeline", is_flag=True, help="Write what happened, a line of JSON each, and not the queues.")
@click.option("--audit-log", is_flag=True, help="Write who did what and when, a line of JSON each, and not the queues.")
@click.option("--since", type=StartTime(), help="With --audit-log: from then on; how long ago, or a date.")
def export_queues(
    output: Path | None, repository: str | None, timeline: bool, audit_log: bool, since: datetime | None
) -> None:
    """Write the queues in flight as JSON. Stop IMQ before.

    With --timeline or --audit-log IMQ may run meanwhile; `imq replay` reads the timeline.
    """
    if timeline and audit_log:
        raise click.UsageError("Give --timeline or --audit-log.")
    if since is not None and not audit_log:
        raise click.UsageError("Use --since with --audit-log.")

    async def queues(store: Store, write: Write) -> str:
        with _without_processes("export"):
            await _refuse_beside_processes(store)
            async with store.reading() as tx:
                wanted = None if repository is None else await find_repository(tx, repository)
                chosen = None if wanted is None else wanted.id
                file = await read_queues(tx.connection, SystemClock().now(), chosen)
                async for line in file_lines(tx.connection, file, chosen):
                    write(line)
                return _counted(file)

    async def events(store: Store, write: Write) -> str:
        async for line in timeline_lines(store, repository):
            write(line)
        return "the timeline"

    async def actions(store: Store, write: Write) -> str:
        async for line in audit_lines(store, repository, since):
            write(line)
        return "the audit log"

    work = events if timeline else actions if audit_log else queues
    if output is None:
        run_with_store(partial(work, write=echo))
        return
    try:
        # Titles and branches of private repositories are for their owner only.
        with os.fdopen(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as stream:
            try:
                exported = run_with_store(partial(work, write=partial(_write, stream)))
            except BaseException:
                output.unlink()
                raise
    except OSError as error:
        raise CommandRefused(f"{output} cannot be written: {error.strerror}.") from None
    echo(f"Exported {exported} to {output}")


def _write(stream: TextIO, line: str) -> None:
    stream.write(f"{line}\n")


async def timeline_lines(store: Store, repository: str | None) -> AsyncIterator[str]:
    """Yield the events of the timeline as the API has them, a line of JSON each, the oldest first."""
    from bot.api.events import EventAnswer

    repositories: dict[int, Repository | None] = {}
    last = 0
    async with store.reading() as tx:
        wanted = None if repository is None else await find_repository(tx, repository)
        while page := await tx.timeline.since(last, limit=_AT_ONCE):
            last = page[-1].id
            for each in page:
                if wanted is not None and wanted.id != each.repository_id:
                    continue
                if each.repository_id not in repositories:
                    repositories[each.repository_id] = await tx.repositories.by_id(each.repository_id)
                if (found := repositories[each.repository_id]) is not None:
                    yield EventAnswer.of(found, each).model_dump_json()


async def audit_lines(store: Store, repository: str | None, since: datetime | None = None) -> AsyncIterator[str]:
    """Yield who did what as the API has it, a line of JSON each, the oldest first."""
    async with store.reading() as tx:
        wanted = None if repository is None else await find_repository(tx, repository)
        after = None
        while page := await tx.actions.page(since or FIRST, limit=_AT_ONCE, after=after):
            after = page[-1].at, page[-1].id
            for each in page:
                if wanted is None or each.repository == wanted.full_name:
                    yield adapter(ActionRecord).dump_json(each).decode()


@click.command("import")
@click.argument("file", type=click.File("rb"))
def import_queues(file: BinaryIO) -> None:
    """Store exported queues in this database. Start IMQ afterwards."""
    read = _read(file)

    async def work(store: Store) -> bool:
        from queue_engine.effects.context import Change
        from queue_engine.handlers.restored import import_queues as imported

        with _without_processes("import"):
            await _refuse_beside_processes(store)
            return await store.write(lambda tx: imported(Change(tx, SystemClock().now()), read))

    try:
        stored = run_with_store(work)
    except EntryConflict as problem:
        raise CommandRefused(
            f"Nothing was imported: {problem}. Import into a database whose queues are empty, from a complete file."
        ) from None
    echo(f"Imported {_counted(read)}" if stored else "These queues were imported before; nothing was changed.")


@contextmanager
def _without_processes(command: str) -> Iterator[None]:
    """Hold SQLite's file, so that no process lands an entry meanwhile. Raises CommandRefused if one runs on it."""
    try:
        with exclusive(host_settings(quiet=True).database_url.get_secret_value(), command):
            yield
    except FileRefused as problem:
        raise CommandRefused(str(problem)) from None


async def _refuse_beside_processes(store: Store) -> None:
    """Raise CommandRefused while processes report to PostgreSQL; those of SQLite hold its file instead."""
    if store.database.dialect == "sqlite":
        return
    running = await store.read(lambda tx: tx.processes.all(SystemClock().now()))
    if running:
        names = ", ".join(f"`imq {each.status.get('role', 'run')}` ({each.owner})" for each in running)
        minutes = round(ALIVE.total_seconds() / 60)
        raise CommandRefused(
            f"The database is in use by {names}. Stop all processes of IMQ, then repeat the command. "
            f"A process that was killed counts as running for {minutes} minutes."
        )


def _read(file: BinaryIO) -> QueueFile:
    try:
        return QueueFile.model_validate_json(file.read())
    except ValidationError as problem:
        first, *others = problem.errors(include_url=False, include_input=False)
        where = ".".join(map(str, first["loc"])) or "the file"
        more = f" (and {len(others)} more faults)" if others else ""
        raise CommandRefused(
            f"{file.name} is no file of queues in flight ({FORMAT}, version {VERSION}): {where}: {first['msg']}{more}."
        ) from None


def _counted(file: QueueFile) -> str:
    return f"{len(file.queues)} queues with {len(file.entries)} pull requests"


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
