"""Commits whose checks may count: updated heads, candidates of several members, and heads that wait for checks."""

from collections.abc import Collection

from sqlalchemy import BindParameter, String, bindparam, cast, or_, select, union_all
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.domain.model import EntryStatus
from queue_engine.domain.reasons import Reason
from queue_engine.store.tables import candidate_runs, entries, queues, runs

_REPOSITORIES: BindParameter[int] = bindparam("repositories", expanding=True)
_WAIT_FOR_CHECKS = (Reason.CHECKS_FAILED, Reason.CHECK_ABSENT)
_UNDER_WAY = union_all(
    select(entries.c.repository_id, entries.c.head, runs.c.candidate)
    .join(runs, runs.c.id == entries.c.run_id)
    .where(
        entries.c.repository_id.in_(_REPOSITORIES),
        entries.c.status.in_([EntryStatus.UPDATING, EntryStatus.CHECKING]),
        runs.c.candidate_run.is_(None),
    ),
    select(queues.c.repository_id, candidate_runs.c.base_tip, candidate_runs.c.candidate)
    .join(queues, queues.c.id == candidate_runs.c.queue_id)
    .where(queues.c.repository_id.in_(_REPOSITORIES), candidate_runs.c.candidate.is_not(None)),
    select(entries.c.repository_id, entries.c.head, entries.c.head).where(
        entries.c.repository_id.in_(_REPOSITORIES),
        or_(*(cast(entries.c.unmet, String).contains(each.value, autoescape=True) for each in _WAIT_FOR_CHECKS)),
    ),
)


class CandidateCommits:
    """The commits under test, on one connection."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def under_way(self, repository_ids: Collection[int]) -> tuple[tuple[int, str, str | None], ...]:
        """Return the tests under way in these repositories: repository, head (or base) and candidate.

        The head of an entry that waits for its own failed checks is a candidate, too.
        """
        rows = await self._connection.execute(_UNDER_WAY, {"repositories": list(repository_ids)})
        return tuple((row.repository_id, row.head, row.candidate) for row in rows)
