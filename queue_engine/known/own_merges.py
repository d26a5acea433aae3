"""Merges that IMQ asked for, and the commits in GitHub's answers, which are newer than any read.

Which head IMQ last asked to merge is a fact of its own: GitHub may carry a request out after its process died and the
next one saw the pull request open. That merge is IMQ's all the same.
"""

from datetime import datetime

from queue_engine.domain.known_facts import KEPT, Fact, MergeRequest, of_pull
from queue_engine.domain.model import Entry, EntryStatus
from queue_engine.known.pulls import merged_as, requested_merge
from queue_engine.store import Transaction


async def answered_merge(tx: Transaction, entry: Entry, now: datetime) -> str | None:
    """The commit that GitHub answered this entry's merge with; None while none is known."""
    if entry.run.merge_requested_at is None:
        return None
    subject = of_pull(entry.number)
    return merged_as((await tx.known.about(entry.repository.id, [subject], since=now - KEPT)).get(subject, ()))


async def record_merge_request(tx: Transaction, entry: Entry, head: str | None, now: datetime) -> None:
    """Remember that GitHub is asked to merge this head of the entry; None: it was not asked after all, or refused."""
    await tx.known.record(
        entry.repository.id, [Fact(subject=of_pull(entry.number), statement=MergeRequest(head=head))], now
    )


async def merged_by_imq(tx: Transaction, entry: Entry, now: datetime) -> bool:
    """Whether a merge of the entry that GitHub shows is one that IMQ asked for, however long ago.

    A request whose process died may be carried out after another process saw the pull request still open, and took
    the merge for one that did not happen.
    """
    if entry.status is not EntryStatus.READY:
        return False
    subject = of_pull(entry.number)
    known = await tx.known.about(entry.repository.id, [subject], since=now - KEPT)
    return requested_merge(known.get(subject, ())) == entry.head
