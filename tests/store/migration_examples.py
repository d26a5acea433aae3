"""Instants of the tests of migrations."""

from datetime import UTC, datetime, timedelta
from typing import Any

from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection

from queue_engine.core.database.database import metadata

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NOON = NOW + timedelta(hours=12)
MINUTE = timedelta(minutes=1)


def differences(connection: Connection) -> list[Any]:
    return list(compare_metadata(MigrationContext.configure(connection, opts={"compare_type": True}), metadata))
