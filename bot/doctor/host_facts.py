"""Read the settings, the database and its disk, for the checks."""

import asyncio
import shutil
from collections.abc import Mapping
from pathlib import Path

from bot.doctor.facts import HostFacts
from bot.settings.environment import HostSettings, unknown_variables
from notifications.sinks.sender import DISABLED
from notifications.sinks.sink import SINK_JOBS
from queue_engine.core.database.database import Database
from queue_engine.core.database.outage import fault_of
from queue_engine.migrations import MigrationState, migration_state
from queue_engine.store import Store

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
