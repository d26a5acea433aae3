"""Merges that IMQ requested, and the commits in GitHub's answers, which are newer than any read.

The head of the last merge request is a fact of its own: GitHub may carry out a request after its process was killed and
another process read the pull request as open. That merge is IMQ's nevertheless.
"""

from datetime import datetime

from queue_engine.domain.known_facts import KEPT, Fact, MergeRequest, of_pull
from queue_engine.domain.model import Entry, EntryStatus
from queue_engine.known.pulls import merged_as, requested_merge
from queue_engine.store import Transaction


async def answered_merge(tx: Transaction, entry: Entry, now: datetime) -> str | None:
    """Return the commit in GitHub's answer to this entry's merge; None while none is known."""
    if entry.run.merge_requested_at is None:
        return None
    subject = of_pull(entry.number)
    return merged_as((await tx.known.about(entry.repository.id, [subject], since=now - KEPT)).get(subject, ()))


async def record_merge_request(tx: Transaction, entry: Entry, head: str | None, now: datetime) -> None:
    """Store that IMQ requests the merge of this head; None: IMQ sent no request after all, or GitHub refused.

    Raises InvariantError if the ledger has no consent to it.
    """
    if head is not None:
        await tx.consents.verify(entry)
    await tx.known.record(
        entry.repository.id, [Fact(subject=of_pull(entry.number), statement=MergeRequest(head=head))], now
    )


async def merged_by_imq(tx: Transaction, entry: Entry, now: datetime) -> bool:
    """Return whether IMQ requested the merge that GitHub shows, at any time within the last quarter of an hour.

    GitHub may carry out the request of a killed process after another process has read the pull request as open.
    """
    if entry.status is not EntryStatus.READY:
        return False
    subject = of_pull(entry.number)
    known = await tx.known.about(entry.repository.id, [subject], since=now - KEPT)
    return requested_merge(known.get(subject, ())) == entry.head
