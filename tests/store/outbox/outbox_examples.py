"""Outbox items with only what a test cares about named."""

from datetime import datetime

from queue_engine.domain.notice import Notice, NoticeKind
from queue_engine.store import Transaction
from queue_engine.store.outbox.items import OutboxItem, OutboxKind
from tests.store.examples import LEASE, NOW, REPOSITORY

COMMENT, CHECK_RUN, LABEL = OutboxKind.COMMENT, OutboxKind.CHECK_RUN, OutboxKind.LABEL


def notice(kind: NoticeKind = NoticeKind.QUEUED) -> Notice:
    return Notice(kind=kind, number=1, base_branch="main", head_sha="abc", at=NOW)


async def want(t: Transaction, kind: OutboxKind = COMMENT, *, number: int = 1, now: datetime = NOW) -> None:
    if kind is LABEL:
        await t.outbox.want_label(REPOSITORY, number, "merge-queue", on=False, due=now)
    else:
        await t.outbox.want(kind, REPOSITORY, number, due=now, notice=notice())


async def take(t: Transaction, *, owner: str = "w", now: datetime = NOW) -> OutboxItem:
    item = await t.outbox.claim(owner=owner, now=now, lease=LEASE)
    assert item is not None
    return item
