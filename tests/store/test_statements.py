from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules
from types import SimpleNamespace
from typing import cast

import pytest
from sqlalchemy import Dialect
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.base import Executable
from sqlalchemy.sql.elements import ClauseElement
from sqlalchemy.types import NullType

import queue_engine.core
import queue_engine.store
from queue_engine.core.database.database import Upsert

DIALECTS: dict[str, Dialect] = {each.name: each for each in (sqlite.dialect(), postgresql.dialect())}  # type: ignore[no-untyped-call]


def statements(dialect: Dialect) -> Iterator[tuple[str, ClauseElement]]:
    """Every statement that a module of the store or of the core keeps, by its name."""
    connection = cast(AsyncConnection, SimpleNamespace(dialect=dialect))
    for package in (queue_engine.core, queue_engine.store):
        for module in iter_modules(package.__path__, package.__name__ + "."):
            for name, kept in vars(import_module(module.name)).items():
                for each in kept if isinstance(kept, tuple) else (kept,):
                    statement = each.on(connection) if isinstance(each, Upsert) else each
                    if isinstance(statement, Executable) and isinstance(statement, ClauseElement):
                        yield f"{module.name}.{name}", statement


@pytest.mark.parametrize("database", DIALECTS)
def test_statement_that_is_built_once_knows_the_type_of_each_value(database: str) -> None:
    """A value without a type is bound as the driver likes: an instant, say, as a text that compares wrongly."""
    found = dict(statements(DIALECTS[database]))
    untyped = {
        name: value
        for name, statement in found.items()
        for value, bound in statement.compile(dialect=DIALECTS[database]).binds.items()  # type: ignore[attr-defined]
        if isinstance(bound.type, NullType)
    }
    assert len(found) > 50
    assert not untyped
