"""The ledger of consents: rows that IMQ only adds, in the transaction that binds a head (P4)."""

from datetime import datetime

from sqlalchemy import bindparam, delete, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.domain.consent import ConsentKind, HeadConsent
from queue_engine.domain.errors import InvariantError
from queue_engine.domain.model import Entry
from queue_engine.store.tables import consents, entries

_ADD = insert(consents)
_OF = select(consents).where(consents.c.entry_id == bindparam("its_entry")).order_by(consents.c.id)
_PURGE = delete(consents).where(consents.c.at < bindparam("before"), consents.c.entry_id.not_in(select(entries.c.id)))


class Consents:
    """The ledger, on one connection."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def add(self, entry: Entry, source: ConsentKind, by: str | None, at: datetime) -> None:
        """Store the consent to the entry's head, for its base branch."""
        own = {"entry_id": entry.id, "repository_id": entry.repository.id, "number": entry.number}
        bound = {"head": entry.head, "base_branch": entry.base_branch, "by": by, "at": at, "source": source.value}
        await self._connection.execute(_ADD, {**own, **bound})

    async def follow(self, before: Entry, after: Entry, at: datetime) -> None:
        """Store the consent to a head that a pass bound, once it is proved: IMQ's update, or the push of a named bot.

        Any other change of an entry binds no head.
        """
        if not after.head_proved or (after.head, True) == (before.head, before.head_proved):
            return
        if after.queued_head == after.head:
            await self.add(after, ConsentKind.BOT_PUSH, after.author, at)
        else:
            await self.add(after, ConsentKind.OWN_UPDATE, None, at)

    async def of(self, entry: Entry) -> tuple[HeadConsent, ...]:
        """Return the consents of an entry, oldest first."""
        rows = await self._connection.execute(_OF, {"its_entry": entry.id})
        return tuple(HeadConsent(row.head, row.base_branch, row.by, row.at, ConsentKind(row.source)) for row in rows)

    async def verify(self, entry: Entry) -> None:
        """Raise InvariantError if the ledger lacks a consent for the entry's base branch (P4).

        It needs one to the head, and, if that is IMQ's update, one to the head that was queued.
        """
        known = {(each.head, each.base_branch) for each in await self.of(entry)}
        for head in (entry.queued_head, entry.head):
            if (head, entry.base_branch) not in known:
                raise InvariantError(f"nobody consented to {head} of pull request {entry.number}")

    async def purge(self, before: datetime) -> None:
        """Delete the consents until then, but for those of entries."""
        await self._connection.execute(_PURGE, {"before": before})
