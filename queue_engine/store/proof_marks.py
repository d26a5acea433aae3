"""The refs that say of a tree that it was tested, and how far the notes of landings are written."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import BigInteger, bindparam, delete, select, tuple_

from queue_engine.core.database.database import TableStore, record_in, replacing, values_of
from queue_engine.store.tables import landing_notes, proof_marks

_OWN = (
    proof_marks.c.repository_id == bindparam("its_repository", type_=BigInteger),
    proof_marks.c.tree == bindparam("its_tree"),
    proof_marks.c.mark == bindparam("its_mark"),
)
_OF_TREE = select(proof_marks).where(*_OWN)
_EXPIRED = (
    select(proof_marks)
    .where(
        proof_marks.c.repository_id == bindparam("its_repository", type_=BigInteger),
        proof_marks.c.expires_at <= bindparam("its_time"),
    )
    .order_by(proof_marks.c.expires_at)
    .limit(bindparam("at_most", type_=BigInteger))
)
_WITH_EXPIRED = select(proof_marks.c.repository_id).where(proof_marks.c.expires_at <= bindparam("its_time")).distinct()
_BRANCH = (
    select(proof_marks.c.object)
    .where(
        proof_marks.c.repository_id == bindparam("its_repository", type_=BigInteger),
        proof_marks.c.ref.startswith("refs/heads/"),
    )
    .limit(1)
)
_SAVE = replacing(proof_marks)
_NOTES = select(landing_notes).where(landing_notes.c.repository_id == bindparam("its_repository", type_=BigInteger))
_SAVE_NOTES = replacing(landing_notes)


@dataclass(frozen=True, slots=True)
class ProofMark:
    """A ref that says of a tree that it was tested."""

    repository_id: int
    tree: str
    mark: str
    """For which branch it was tested, and by which checks (`mark_of`)."""
    ref: str
    object: str
    """The commit that it points at."""
    expires_at: datetime
    answered: bool = False
    """Whether GitHub has said that the ref is there."""


@dataclass(frozen=True, slots=True)
class LandingProgress:
    """The notes of a repository, as IMQ left them."""

    landing_id: int = 0
    """The last landing with a note."""
    tip: str | None = None
    """The commit of the notes; None: IMQ has written none."""
    tree: str | None = None


class ProofMarks(TableStore):
    async def of_tree(self, repository_id: int, tree: str, mark: str) -> ProofMark | None:
        """Return the mark of a tree; expired ones too, as long as their refs may be there."""
        given = {"its_repository": repository_id, "its_tree": tree, "its_mark": mark}
        row = (await self._connection.execute(_OF_TREE, given)).one_or_none()
        return None if row is None else record_in(ProofMark, row)

    async def branch_commit(self, repository_id: int) -> str | None:
        """Return the commit of the branches that are marks; None while GitHub takes refs that are no branches."""
        found: str | None = (await self._connection.execute(_BRANCH, {"its_repository": repository_id})).scalar()
        return found

    async def save(self, mark: ProofMark) -> None:
        """Store a mark, in place of its former row."""
        await self._connection.execute(_SAVE.on(self._connection), values_of(mark))

    async def with_expired(self, now: datetime) -> Sequence[int]:
        """Return the repositories with marks that have expired."""
        return list((await self._connection.execute(_WITH_EXPIRED, {"its_time": now})).scalars())

    async def expired(self, repository_id: int, now: datetime, *, at_most: int) -> tuple[ProofMark, ...]:
        """Return marks of a repository that have expired, the oldest first."""
        given = {"its_repository": repository_id, "its_time": now, "at_most": at_most}
        return tuple(record_in(ProofMark, row) for row in await self._connection.execute(_EXPIRED, given))

    async def remove(self, marks: Sequence[ProofMark]) -> None:
        """Forget marks, unless their trees landed again meanwhile."""
        places = [(each.repository_id, each.tree, each.mark, each.expires_at) for each in marks]
        columns = proof_marks.c
        own = tuple_(columns.repository_id, columns.tree, columns.mark, columns.expires_at)
        await self._connection.execute(delete(proof_marks).where(own.in_(places)))

    async def notes(self, repository_id: int) -> LandingProgress:
        """Return how far the notes of a repository are written."""
        row = (await self._connection.execute(_NOTES, {"its_repository": repository_id})).one_or_none()
        return LandingProgress() if row is None else record_in(LandingProgress, row)

    async def save_notes(self, repository_id: int, notes: LandingProgress) -> None:
        """Store how far the notes of a repository are written."""
        row = {"repository_id": repository_id, **values_of(notes)}
        await self._connection.execute(_SAVE_NOTES.on(self._connection), row)
