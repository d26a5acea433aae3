"""Read the settings, the database and its disk, for the checks."""

import asyncio
import shutil
from collections.abc import Mapping
from pathlib import Path

from bot.doctor.facts import HostFacts
from bot.settings.environment import HostSettings, unknown_variables
from queue_engine.core.database.database import Database
from queue_engine.core.database.outage import fault_of
from queue_engine.migrations import MigrationState, migration_state


async def read_host(settings: HostSettings, environ: Mapping[str, str]) -> HostFacts:
    """Read them without creating a database that is missing."""
    database = Database(settings.database_url.get_secret_value())
    unknown, fault, migrated, free = unknown_variables(environ), None, False, None
    try:
        file = Path(database.url.database or "") if database.dialect == "sqlite" else None
        if file is not None and file.absolute().parent.is_dir():
            free = (await asyncio.to_thread(shutil.disk_usage, file.absolute().parent)).free
        if file is not None and not await asyncio.to_thread(file.exists):
            fault = f"There is no database {file}; `imq run` creates it."
        else:
            migrated = await migration_state(database) is MigrationState.USABLE
    except Exception as error:
        if (kind := fault_of(error)) is None:
            raise
        fault = kind.sentence
    finally:
        await database.close()
    return HostFacts(unknown, fault, migrated, free)
