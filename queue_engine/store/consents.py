"""The ledger of consents: rows that IMQ only adds, in the transaction that binds a head (P4)."""

from collections.abc import MutableMapping, Sequence
from dataclasses import replace
from datetime import datetime

from sqlalchemy import bindparam, delete, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.domain.consent import ConsentKind, HeadConsent
from queue_engine.domain.errors import InvariantError
from queue_engine.domain.model import Entry
from queue_engine.store.tables import consents, entries

_ADD = insert(consents)
_OF = select(consents).where(consents.c.entry_id == bindparam("its_entry")).order_by(consents.c.id)
_LAST_ENTRY = (
    select(consents.c.entry_id)
    .where(consents.c.repository_id == bindparam("its_repository"), consents.c.number == bindparam("its_number"))
    .order_by(consents.c.id.desc())
    .limit(1)
)
_PURGE = delete(consents).where(consents.c.at < bindparam("before"), consents.c.entry_id.not_in(select(entries.c.id)))

Ledgers = MutableMapping[str, tuple[HeadConsent, ...]]
"""The consents of entries, by the entry's id."""


class Consents:
    def __init__(self, connection: AsyncConnection, verified: Ledgers | None = None) -> None:
        """`verified` has what this process read before merges, for their landings a moment later."""
        self._connection = connection
        self._verified = {} if verified is None else verified

    async def add(self, entry: Entry, source: ConsentKind, by: str | None, at: datetime) -> None:
        """Store the consent to the entry's head, for its base branch."""
        self._verified.pop(entry.id, None)
        own = {"entry_id": entry.id, "repository_id": entry.repository.id, "number": entry.number}
        bound = {
            "head_sha": entry.head_sha,
            "base_branch": entry.base_branch,
            "by": by,
            "at": at,
            "source": source.value,
        }
        await self._connection.execute(_ADD, {**own, **bound})

    async def follow(self, before: Entry, after: Entry, at: datetime) -> None:
        """Store the consent to a head that a pass bound, once it is proved: IMQ's update, or the push of a named bot.

        Any other change of an entry binds no head.
        """
        if not after.head_proved or (after.head_sha, True) == (before.head_sha, before.head_proved):
            return
        if after.queued_head == after.head_sha:
            await self.add(after, ConsentKind.BOT_PUSH, after.author, at)
        else:
            await self.add(after, ConsentKind.OWN_UPDATE, None, at)

    async def keep_alone(self, before: Entry, after: Entry) -> None:
        """Store for an entry that replaces another one that the other was queued by `/queue alone`, if it was.

        That was for the head of then: the entry's own head has a consent of its own.
        """
        for each in await self.of(before):
            if each.source is ConsentKind.COMMAND_ALONE and after.id != before.id:
                await self.add(replace(after, head_sha=each.head_sha), each.source, each.by, each.at)

    async def of(self, entry: Entry) -> tuple[HeadConsent, ...]:
        """Return the consents of an entry, oldest first."""
        return await self._of(entry.id)

    async def of_last_entry(self, repository_id: int, number: int) -> tuple[HeadConsent, ...]:
        """Return the consents of the last entry of a pull request, oldest first."""
        its = {"its_repository": repository_id, "its_number": number}
        entry_id = (await self._connection.execute(_LAST_ENTRY, its)).scalar_one_or_none()
        return () if entry_id is None else await self._of(entry_id)

    async def _of(self, entry_id: str) -> tuple[HeadConsent, ...]:
        rows = await self._connection.execute(_OF, {"its_entry": entry_id})
        return tuple(
            HeadConsent(row.head_sha, row.base_branch, row.by, row.at, ConsentKind(row.source)) for row in rows
        )

    async def verify(self, entry: Entry) -> None:
        """Raise InvariantError if the ledger lacks a consent for the entry's base branch (P4).

        It needs one to the head, and, if that is IMQ's update, one to the head that was queued.
        """
        ledger = await self.of(entry)
        if missing := _missing(entry, ledger):
            raise InvariantError(f"nobody consented to {missing[0]} of pull request {entry.number}")
        self._verified[entry.id] = ledger

    async def of_landing(self, entry: Entry) -> tuple[HeadConsent, ...]:
        """Return the consents of an entry that lands: those that were verified before, without another read."""
        ledger = self._verified.pop(entry.id, ())
        return await self.of(entry) if _missing(entry, ledger) else ledger

    async def purge(self, before: datetime) -> None:
        """Delete the consents until then, but for those of entries."""
        await self._connection.execute(_PURGE, {"before": before})


def _missing(entry: Entry, ledger: Sequence[HeadConsent]) -> list[str]:
    """Return the entry's heads without a consent for its base branch."""
    known = {(each.head_sha, each.base_branch) for each in ledger}
    return [head for head in (entry.queued_head, entry.head_sha) if (head, entry.base_branch) not in known]
