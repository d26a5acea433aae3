"""Known facts, and how far the reconciler found everything.

Rows never change: deliveries come in any order and concurrently. `queue_engine.known` draws conclusions when it
compares a read with them.
"""

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta

from sqlalchemy import bindparam, delete, select

from queue_engine.core.database.database import TableStore, replacing
from queue_engine.core.read_model import adapter
from queue_engine.domain.known_facts import KEPT, Fact, Known, Statement
from queue_engine.store.tables import known_facts, sweeps

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


class KnownFacts(TableStore):
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

    async def lately(self, repository_id: int, subject: str, now: datetime) -> list[Known]:
        """Return the facts about one subject within the last quarter of an hour, in order."""
        return (await self.about(repository_id, [subject], since=now - KEPT)).get(subject, [])

    async def purge(self, before: datetime) -> None:
        """Delete the facts received until then."""
        await self._connection.execute(_PURGE, {"before": before})


_LAST = select(sweeps.c.at).where(sweeps.c.part == bindparam("its_part"))
_DONE = replacing(sweeps)


def changed_teams(installation_id: int) -> str:
    """Return the part whose instant is the last change of this installation's teams."""
    return f"teams:{installation_id}"


def stale_comments(repository_id: int) -> str:
    """Return the part that finds stale comments of a repository; its job's process has the same name."""
    return f"sweep_comments:{repository_id}"


def compared_runs(repository_id: int) -> str:
    """Return the part that compares IMQ's check runs in a repository with GitHub's."""
    return f"check_runs:{repository_id}"


class ReconcilerState(TableStore):
    """The reconciler's progress, on one connection."""

    async def last(self, part: str) -> datetime | None:
        """Return the instant up to which this part has found everything; None if it never completed."""
        return (await self._connection.execute(_LAST, {"its_part": part})).scalar_one_or_none()

    async def soonest(self, part: str, now: datetime, *, apart: timedelta) -> datetime:
        """Return when this part may begin next: `apart` after its last time, and no later than `apart` from now."""
        last = await self.last(part)
        return now if last is None else min(max(now, last + apart), now + apart)

    async def forget(self, prefix: str) -> None:
        """Forget the parts whose names begin so: they count as never completed."""
        await self._connection.execute(delete(sweeps).where(sweeps.c.part.startswith(prefix, autoescape=True)))

    async def done(self, part: str, at: datetime) -> None:
        """Store that this part has found everything up to this instant."""
        await self._connection.execute(_DONE.on(self._connection), {"part": part, "at": at})
