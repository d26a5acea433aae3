"""Progress reaches the bus and, rarely, the check run; never after the outcome."""

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from notifications.event_bus import BusProgress, CheckRunProgress, Event, EventBus
from notifications.render.comment import render_check_run
from queue_engine.config.model import Policy
from queue_engine.core.observability.progress import ProgressEvent, ProgressStatus
from queue_engine.domain.departure import DequeueReason
from queue_engine.domain.facts import CheckReport, CheckState
from queue_engine.domain.model import Entry, EntryStatus
from queue_engine.domain.notice import Notice, NoticeKind
from queue_engine.domain.reasons import Reason
from queue_engine.effects import record
from queue_engine.effects.context import Change
from queue_engine.effects.notices import announce_progress
from queue_engine.store import Store
from queue_engine.store.outbox.items import OutboxKind
from tests.store.examples import NOW, REPOSITORY, SOON, changed, queue, stand
from tests.unit.notifications.notices import notice

POLICY = Policy()
MINUTE = timedelta(minutes=1)
FIRST, LAST = POLICY.progress_edits


class Clock:
    """Time that the test moves."""

    def __init__(self) -> None:
        self.time = NOW

    def now(self) -> datetime:
        return self.time

    async def sleep(self, duration: timedelta) -> None:
        raise AssertionError("nobody sleeps here")


def event(entry: Entry) -> ProgressEvent:
    """The checks of an entry have gone on."""
    return ProgressEvent(entry.id, ProgressStatus.IN_PROGRESS, "", 1, 3)


async def checked(store: Store, *, reported: tuple[str, ...] = ("a",), sent: bool = True) -> Entry:
    """An entry whose head was bound NOW and waits for three checks; its check run stands on GitHub, or is due."""
    async with store.transaction() as tx:
        standing = await stand(tx, await queue(tx), 1)
        checking = changed(standing, status=EntryStatus.CHECKING, status_since=NOW)
        entry = await tx.entries.save(changed(checking, pending_checks=("a", "b", "c"), completed_checks=reported))
        shown = CheckReport("b", 5, CheckState.PENDING, "in_progress", "https://ci.example/b", NOW, None)
        kind = NoticeKind.CHECKING
        await announce_progress(Change(tx, NOW), entry, kind, POLICY, depth=1, checks=(shown,))
        if sent:
            while item := await tx.outbox.claim(owner="w", now=NOW + MINUTE, lease=MINUTE):
                await tx.outbox.done(item, NOW)
    return entry


async def wanted(store: Store) -> tuple[datetime | None, Notice | None]:
    """When the next outbox item is due, and the notice for the check run."""
    async with store.reading() as tx:
        return await tx.outbox.next_due(), await tx.outbox.wanted(OutboxKind.CHECK_RUN, REPOSITORY.id, 1)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sink(store: Store, clock: Clock) -> CheckRunProgress:
    return CheckRunProgress(store, POLICY, clock)


@pytest.mark.parametrize(
    ("after", "due"),
    [
        (timedelta(0), FIRST),
        (FIRST - SOON, FIRST),
        (FIRST, LAST),
        (LAST - SOON, LAST),
        (LAST, None),
        (timedelta(hours=3), None),
    ],
)
async def test_check_run_progress_waits_for_the_next_of_a_few_instants(
    store: Store, clock: Clock, sink: CheckRunProgress, after: timedelta, due: timedelta | None
) -> None:
    """The check run changes at a few instants after the head was bound; the last change is the outcome's."""
    entry = await checked(store)
    clock.time = NOW + after
    await sink.on_progress(event(entry))
    assert (await wanted(store))[0] == (None if due is None else NOW + due)


async def test_check_run_progress_says_how_many_and_keeps_the_links(store: Store, sink: CheckRunProgress) -> None:
    """What is still to come is listed as it was last seen; what has reported is not."""
    await sink.on_progress(event(await checked(store)))
    _, notice = await wanted(store)
    assert notice is not None
    assert notice.progress == (1, 3)
    assert [(check.name, check.url) for check in notice.checks] == [("b", "https://ci.example/b"), ("c", None)]


async def test_check_run_progress_is_not_shown_once_all_checks_have_reported(
    store: Store, sink: CheckRunProgress
) -> None:
    """P6: the outcome follows, or no run tests the entry any more, because the run of its train failed."""
    await sink.on_progress(event(await checked(store, reported=("a", "b", "c"))))
    assert (await wanted(store))[0] is None


async def test_check_run_progress_delays_no_item_that_is_due_sooner(store: Store, sink: CheckRunProgress) -> None:
    """The run that is about to be created says at once what is known by then."""
    await sink.on_progress(event(await checked(store, sent=False)))
    due, notice = await wanted(store)
    assert due == NOW + POLICY.comment_debounce
    assert notice is not None
    assert notice.progress == (1, 3)


async def test_check_run_progress_is_replaced_by_the_outcome(store: Store, sink: CheckRunProgress) -> None:
    """One request, at once, and none later."""
    entry = await checked(store)
    await sink.on_progress(event(entry))
    async with store.transaction() as tx:
        await record.dequeue(Change(tx, NOW + MINUTE), entry, DequeueReason(Reason.LABEL_REMOVED), POLICY)
    due, notice = await wanted(store)
    assert due == NOW + MINUTE
    assert notice is not None
    assert (notice.kind, notice.progress) == (NoticeKind.CANCELLED, None)


async def test_check_run_progress_of_a_former_head_or_entry_is_not_sent(store: Store, sink: CheckRunProgress) -> None:
    """IMQ sends nothing for late progress, for progress of another head, or for progress of no entry."""
    entry = await checked(store)
    await sink.on_progress(ProgressEvent("process-1", ProgressStatus.IN_PROGRESS, "", 1, 3))
    async with store.transaction() as tx:
        entry = await tx.entries.save(replace(entry, head_sha="other"))
    await sink.on_progress(event(entry))
    async with store.transaction() as tx:
        entry = await tx.entries.save(changed(entry, head_sha="head-1", status=EntryStatus.UPDATING))
    await sink.on_progress(event(entry))
    async with store.transaction() as tx:
        await tx.entries.remove(entry)
    await sink.on_progress(event(entry))
    assert (await wanted(store))[0] is None


@pytest.mark.process
async def test_check_run_progress_of_an_entry_that_leaves_meanwhile_never_has_the_last_word(store: Store) -> None:
    """The race of two processes on PostgreSQL: the dequeue waits for the progress update, and writes last."""
    entry = await checked(store)

    async def leave() -> None:
        async with store.transaction() as tx:
            await record.dequeue(Change(tx, NOW + MINUTE), entry, DequeueReason(Reason.LABEL_REMOVED), POLICY)

    async with store.transaction() as tx:
        assert await tx.entries.lock(entry)
        leaving = asyncio.create_task(leave())
        ended, _ = await asyncio.wait({leaving}, timeout=0.3)
        assert not ended
        sent = notice(NoticeKind.CHECKING).model_copy(update={"number": 1})
        await tx.outbox.want(OutboxKind.CHECK_RUN, REPOSITORY, 1, due=NOW, notice=sent)
    await leaving
    _, last = await wanted(store)
    assert last is not None
    assert last.kind is NoticeKind.CANCELLED
    async with store.transaction() as tx:
        assert not await tx.entries.lock(entry)


async def test_bus_progress_is_an_event_like_others() -> None:
    """Each subscriber gets it in order."""
    bus, received = EventBus[Event](), list[Any]()
    bus.subscribe(received.append)
    sent = ProgressEvent("process-1", ProgressStatus.COMPLETED, "3 of 3", 3, 3)
    await BusProgress(bus).on_progress(sent)
    assert received == [sent]


def test_check_run_shows_progress_in_its_title_and_summary() -> None:
    """The title is what the list of checks shows."""
    run = render_check_run(notice(NoticeKind.CHECKING, progress=(2, 3)), external_id="x")
    assert run["status"] == "in_progress"
    assert run["output"]["title"] == "Waiting for checks, 2 of 3 have reported"
    assert "2 of 3 checks have reported." in run["output"]["summary"]
