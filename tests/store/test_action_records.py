"""Who did what: records and the timeline's events, read together page by page."""

from datetime import datetime, timedelta

import pytest

from queue_engine.domain.model import WHOLE_QUEUE, TimelineEvent
from queue_engine.domain.reasons import Reason
from queue_engine.store import Store, Transaction
from queue_engine.store.action_records import FIRST, ActionKind, ActionRecord
from tests.store.examples import NOW, REPOSITORY, queue

LATER = NOW + timedelta(minutes=1)


async def note(tx: Transaction, subject: str, at: datetime) -> None:
    await tx.actions.add(ActionKind.TOKEN_CREATED, subject, by="root", via="command_line", at=at)


async def happened(tx: Transaction, event: str, number: int, at: datetime, **more: object) -> None:
    reason = Reason.UNQUEUED if event == "cancelled" else None
    await tx.timeline.append(
        TimelineEvent(at, event, REPOSITORY.id, "main", number, None, reason, None, {"by": "mona", **more})
    )


async def store_some(tx: Transaction) -> None:
    """Two records and three events, of which two share an instant with records; `checking` is no action."""
    await queue(tx)
    await happened(tx, "paused", WHOLE_QUEUE, LATER)
    await happened(tx, "queued", 1, NOW)
    await happened(tx, "checking", 1, NOW)
    await happened(tx, "cancelled", 1, LATER, dequeued_by="rhea")
    await note(tx, "one", NOW)
    await note(tx, "two", LATER)
    await note(tx, "three", LATER)


async def pages(tx: Transaction, since: datetime, limit: int) -> list[ActionRecord]:
    found: list[ActionRecord] = []
    while page := await tx.actions.page(since, limit=limit, after=(found[-1].at, found[-1].id) if found else None):
        found += page
        assert len(page) <= limit
    return found


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
async def test_pages_have_every_action_once_in_its_order(store: Store, limit: int) -> None:
    """Also where records and events share an instant with the end of a page."""
    async with store.transaction() as tx:
        await store_some(tx)
    async with store.reading() as tx:
        found = await pages(tx, FIRST, limit)
        late = await pages(tx, LATER, limit)
    assert [each.subject or each.action for each in found] == ["one", "queued", "two", "three", "paused", "cancelled"]
    assert late == found[2:]
    assert len({each.id for each in found}) == len(found)


async def test_action_says_who_where_and_by_what(store: Store) -> None:
    """A dequeue names who dequeued, and not who had queued; a record of no repository names none."""
    async with store.transaction() as tx:
        await store_some(tx)
        token, queued, *_, cancelled = await tx.actions.page(FIRST, limit=9)
    assert (token.by, token.via, token.repository, token.number) == ("root", "command_line", None, None)
    assert (queued.by, queued.via, queued.repository, queued.number) == ("mona", None, REPOSITORY.full_name, 1)
    assert (cancelled.by, cancelled.reason, cancelled.base_branch) == ("rhea", "unqueued", "main")


@pytest.mark.parametrize("made_up", ["", "action", "action-", "action-x", "event-²", "job-1", f"event-{2**63}"])
async def test_id_that_names_no_action_is_refused(store: Store, made_up: str) -> None:
    """A caller sends it back as it got it."""
    async with store.reading() as tx:
        with pytest.raises(ValueError, match="no action's id"):
            await tx.actions.page(FIRST, limit=1, after=(NOW, made_up))
