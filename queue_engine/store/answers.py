"""Answers: what became of the commands in the last comment on each pull request that had any."""

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
        values = {"comment_id": comment_id, **answer.model_dump(exclude={"replies"})}
        values["replies"] = [reply.model_dump(mode="json") for reply in answer.replies]
        await self._connection.execute(
            insert_into(self._connection, answers)
            .values(repository_id=repository_id, number=number, **values)
            .on_conflict_do_update(index_elements=["repository_id", "number"], set_=values)
        )

    async def find(self, repository_id: int, number: int, *, comment_id: int | None = None) -> CommandAnswer | None:
        """The last answer on this pull request; with `comment_id` only if it is to that comment."""
        its_own = and_(answers.c.repository_id == repository_id, answers.c.number == number)
        if comment_id is not None:
            its_own &= answers.c.comment_id == comment_id
        row = (await self._connection.execute(select(answers).where(its_own))).one_or_none()
        return None if row is None else CommandAnswer.model_validate(dict(row._mapping))
