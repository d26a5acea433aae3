"""Answers: the last command that a person gave on each pull request, and what became of it, for its one comment."""

from sqlalchemy import and_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.core.database import insert_into
from queue_engine.notice import CommandAnswer
from queue_engine.store.tables import answers


class Answers:
    """The answers, on one connection."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def put(self, repository_id: int, number: int, comment_id: int, answer: CommandAnswer) -> None:
        """Remember this answer in place of an older one."""
        values = {"comment_id": comment_id, **answer.model_dump()}
        await self._connection.execute(
            insert_into(self._connection, answers)
            .values(repository_id=repository_id, number=number, **values)
            .on_conflict_do_update(index_elements=["repository_id", "number"], set_=values)
        )

    async def find(self, repository_id: int, number: int) -> CommandAnswer | None:
        """The last answer on this pull request."""
        its_own = and_(answers.c.repository_id == repository_id, answers.c.number == number)
        row = (await self._connection.execute(select(answers).where(its_own))).one_or_none()
        return None if row is None else CommandAnswer.model_validate(dict(row._mapping))
