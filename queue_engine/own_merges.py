"""Merges that IMQ asked for, and the commit that GitHub named in its answer: newer than any read of it."""

from datetime import datetime

from queue_engine.known.facts import KEPT, Fact, MergeAsked, of_pull
from queue_engine.known.pulls import asked_to_merge, merged_as
from queue_engine.model import Entry, EntryStatus
from queue_engine.store import Transaction


async def answered_merge(tx: Transaction, entry: Entry, now: datetime) -> str | None:
    """The commit that GitHub answered this entry's merge with; None while none is known."""
    if entry.merge_requested_at is None:
        return None
    subject = of_pull(entry.number)
    return merged_as((await tx.known.about(entry.repository.id, [subject], since=now - KEPT)).get(subject, ()))


async def note_asked(tx: Transaction, entry: Entry, head: str | None, now: datetime) -> None:
    """Remember that GitHub is asked to merge this head of the entry; None: it was not asked after all, or refused."""
    await tx.known.tell(entry.repository.id, [Fact(subject=of_pull(entry.number), told=MergeAsked(head=head))], now)


async def merged_by_imq(tx: Transaction, entry: Entry, now: datetime) -> bool:
    """Whether a merge of the entry that GitHub shows is one that IMQ asked for, however long ago.

    A request whose process died may be carried out after another process saw the pull request still open, and took
    the merge for one that did not happen.
    """
    if entry.status is not EntryStatus.READY:
        return False
    subject = of_pull(entry.number)
    known = await tx.known.about(entry.repository.id, [subject], since=now - KEPT)
    return asked_to_merge(known.get(subject, ())) == entry.head
