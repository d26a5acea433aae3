"""Known facts: rows that IMQ only adds, and deletes when they are old.

Rows never change: deliveries come in any order and concurrently. `queue_engine.known` draws conclusions when it
compares a read with them.
"""

from collections.abc import Collection, Iterable
from datetime import datetime

from sqlalchemy import bindparam, delete, select
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.core.read_model import adapter
from queue_engine.domain.known_facts import Fact, Known, Statement
from queue_engine.store.operation_tables import known_facts

_RECORD = known_facts.insert()
_ABOUT = (
    select(known_facts.c.subject, known_facts.c.statement, known_facts.c.at)
    .where(
        known_facts.c.repository_id == bindparam("its_repository"),
        known_facts.c.subject.in_(bindparam("subjects", expanding=True)),
        known_facts.c.at > bindparam("since", type_=known_facts.c.at.type),
    )
    .order_by(known_facts.c.id)
)
_PURGE = delete(known_facts).where(known_facts.c.at <= bindparam("before", type_=known_facts.c.at.type))


class KnownFacts:
    """The known facts, on one connection."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def record(self, repository_id: int, facts: Iterable[Fact], now: datetime) -> None:
        """Store facts of one repository, received now."""
        await self.record_all([(repository_id, fact) for fact in facts], now)

    async def record_all(self, facts: Collection[tuple[int, Fact]], now: datetime) -> None:
        """Store facts, each with its repository's id, received now and in this order."""
        if facts:
            rows = [
                {
                    "repository_id": repository_id,
                    "subject": fact.subject,
                    "statement": fact.statement.model_dump(mode="json", exclude_none=True),
                    "at": now,
                }
                for repository_id, fact in facts
            ]
            await self._connection.execute(_RECORD, rows)

    async def about(self, repository_id: int, subjects: Collection[str], *, since: datetime) -> dict[str, list[Known]]:
        """Return the facts since then by subject, in order; a subject without facts is no key."""
        values = {"its_repository": repository_id, "subjects": list(subjects), "since": since}
        found: dict[str, list[Known]] = {}
        for row in await self._connection.execute(_ABOUT, values):
            found.setdefault(row.subject, []).append(Known(adapter(Statement).validate_python(row.statement), row.at))
        return found

    async def purge(self, before: datetime) -> None:
        """Delete the facts received until then."""
        await self._connection.execute(_PURGE, {"before": before})
