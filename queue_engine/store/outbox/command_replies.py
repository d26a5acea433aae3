"""Replies to the commands of each comment, so that no command is carried out twice."""

from datetime import datetime, timedelta

from sqlalchemy import bindparam, delete, select
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.core.database.database import Upsert
from queue_engine.domain.notice import CommandReply
from queue_engine.store.tables import answers

KEPT = timedelta(days=30)
"""How long a reply is stored: IMQ carries out no older command."""

_NEWEST = (
    select(answers)
    .where(answers.c.repository_id == bindparam("its_repository"), answers.c.number == bindparam("its_number"))
    .order_by(answers.c.at.desc(), answers.c.comment_id.desc())
    .limit(1)
)
_OF_COMMENT = _NEWEST.where(answers.c.comment_id == bindparam("its_comment"))
_PURGE = delete(answers).where(answers.c.at < bindparam("before"))
_PUT = Upsert(
    answers,
    lambda insert: insert.on_conflict_do_update(
        index_elements=["repository_id", "number", "comment_id"],
        set_={name: insert.excluded[name] for name in ("by", "replies", "at")},
    ),
)


class CommandReplies:
    """The replies, on one connection."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def put(self, repository_id: int, number: int, comment_id: int, answer: CommandReply) -> None:
        """Store the reply to a comment in place of an earlier one."""
        values = answer.model_dump(exclude={"replies"})
        values["replies"] = [reply.model_dump(mode="json") for reply in answer.replies]
        key = {"repository_id": repository_id, "number": number, "comment_id": comment_id}
        await self._connection.execute(_PUT.on(self._connection), {**key, **values})

    async def find(self, repository_id: int, number: int, *, comment_id: int | None = None) -> CommandReply | None:
        """Return the newest reply on this pull request; with `comment_id` the reply to that comment."""
        its_own = {"its_repository": repository_id, "its_number": number}
        if comment_id is None:
            found = await self._connection.execute(_NEWEST, its_own)
        else:
            found = await self._connection.execute(_OF_COMMENT, {**its_own, "its_comment": comment_id})
        row = found.one_or_none()
        return None if row is None else CommandReply.model_validate(dict(row._mapping))

    async def purge(self, before: datetime) -> int:
        """Delete the replies from before then. Returns how many."""
        return (await self._connection.execute(_PURGE, {"before": before})).rowcount
