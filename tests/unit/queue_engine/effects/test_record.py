"""An entry that is dequeued: its event, and what people and other requests find afterwards."""

from dataclasses import replace
from typing import Any

import pytest

from queue_engine.config.model import Policy
from queue_engine.core.database.database import Database
from queue_engine.domain.departure import DequeueReason
from queue_engine.domain.errors import StaleRecord
from queue_engine.domain.facts import CheckReport, CheckState, HeadPush, HistoryEvent
from queue_engine.domain.known_facts import Fact, OwnLabel, PullRequestState, of_pull
from queue_engine.domain.model import EntryStatus, UnmetRequirement
from queue_engine.domain.reasons import Reason
from queue_engine.domain.run import Run
from queue_engine.effects.context import Change
from queue_engine.effects.record import dequeue, status_of, with_author
from queue_engine.store import Store
from queue_engine.store.outbox.items import OutboxKind
from tests.store.examples import NOW, REPOSITORY, queue, stand
from tests.unit.queue_engine.engine_setup import Setup

RED = CheckReport("ci", None, CheckState.FAILED, "failure", None, None, None)
FACTS: dict[str, Any] = {"head": "head-1", "from": "pending", "checks": [], "detail": None}


@pytest.mark.parametrize(
    ("why", "facts", "people", "refused"),
    [
        (DequeueReason(Reason.UNQUEUED, by="mia"), {"dequeued_by": "mia"}, (), True),
        (DequeueReason(Reason.LABEL_REMOVED, people=("ada",), delivery="guid"), {}, (), False),
        (DequeueReason(Reason.PERMISSION_LOST), {"dequeued_by": "max"}, (), False),
        (
            DequeueReason(Reason.CHECKS_FAILED, "words", (RED,), ("ada", "kim")),
            {"checks": ["ci"], "detail": "words"},
            ("ada", "kim"),
            True,
        ),
    ],
)
async def test_dequeue_stores_one_event_and_announces_its_reason(
    sqlite_database: Database, why: DequeueReason, facts: dict[str, Any], people: tuple[str, ...], refused: bool
) -> None:
    """Only an author who has to act is mentioned; automation cannot queue again what failed or a person dequeued."""
    async with Store(sqlite_database).transaction() as tx:
        standing = await queue(tx)
        entry = await stand(tx, standing, 1)
        change = Change(tx, NOW)
        await dequeue(change, entry, why, Policy())
        (event,) = change.events
        assert (event.event, event.number, event.entry_id) == (status_of(why.reason).value, 1, entry.id)
        assert (event.reason, event.delivery, event.data) == (why.reason, why.delivery, FACTS | facts)
        assert await tx.timeline.of_pull_request(REPOSITORY.id, 1) == (event,)
        assert await tx.entries.of_queue(standing.id) == ()
        notice = await tx.outbox.wanted(OutboxKind.COMMENT, REPOSITORY.id, 1)
        assert notice is not None
        assert (notice.reason, notice.detail, notice.checks, notice.people) == (
            why.reason,
            why.detail,
            why.checks,
            people,
        )
        assert (await tx.rejections.find(REPOSITORY.id, 1) is not None) is refused


@pytest.mark.parametrize(
    ("head", "by", "is_own"), [("theirs", "mona", False), ("ours", None, True), ("newest", None, False)]
)
async def test_push_without_a_webhook_names_only_who_pushed_that_head(
    sqlite_database: Database, head: str, by: str | None, is_own: bool
) -> None:
    """A list that lags has earlier pushes first, by others: unknown blames no one."""
    setup = Setup(Store(sqlite_database))
    await setup.front()
    setup.github.pushes = (HeadPush("theirs", "ours", NOW, "imq[bot]"), HeadPush("head-1", "theirs", NOW, "mona"))
    async with setup.store.reading() as tx:
        entry = await tx.entries.find(REPOSITORY.id, 1)
    assert entry is not None
    pull = replace(setup.github.pull, head_sha=head)
    found = await with_author(setup.engine, entry, DequeueReason(Reason.HEAD_CHANGED), pull, Policy())
    assert (found.pushed, found.by, found.pushed_by_imq) == (head, by, is_own)


@pytest.mark.parametrize(
    ("trusted", "gone", "labels", "found"),
    [
        (("merge-queue",), (), {"docs"}, Reason.LABEL_REMOVED),
        (("merge-queue",), ("merge-queue",), {"docs"}, None),
        (("merge-queue",), ("merge-queue",), {"docs", "text"}, Reason.LABEL_DELETED),
        (("merge-queue",), ("merge-queue",), set[str](), Reason.LABEL_DELETED),
        ((), ("merge-queue",), {"docs"}, Reason.LABEL_DELETED),
    ],
)
async def test_label_was_renamed_only_where_one_that_no_one_set_is_in_the_place_of_one_that_is_gone(
    sqlite_database: Database, trusted: tuple[str, ...], gone: tuple[str, ...], labels: set[str], found: Reason | None
) -> None:
    """P4: GitHub may show an older history, without the removal, and without the label that came in its place."""
    setup = Setup(Store(sqlite_database))
    await setup.front(trusted_labels=trusted)
    setup.github.events, setup.github.gone = (HistoryEvent("labeled", NOW, "mona", "merge-queue"),), gone
    async with setup.store.reading() as tx:
        entry = await tx.entries.find(REPOSITORY.id, 1)
    assert entry is not None
    pull = replace(setup.github.pull, labels=frozenset(labels))
    left = with_author(setup.engine, entry, DequeueReason(Reason.LABEL_REMOVED), pull, Policy())
    if found is None:
        with pytest.raises(StaleRecord):
            await left
    else:
        assert (await left).reason is found
    async with setup.store.reading() as tx:
        kept = await tx.entries.find(REPOSITORY.id, 1)
    assert kept is not None
    assert kept.trusted_labels == (trusted if found is not None else ("docs",))


@pytest.mark.parametrize(
    "act", ["other renamed", "other made again", "other removed", "set by IMQ", "set by a person", "wanted"]
)
async def test_deleted_label_is_not_taken_for_one_that_another_label_has_replaced(
    sqlite_database: Database, act: str
) -> None:
    """P4: `docs` was `text` before, or was set so lately that GitHub's history lacks it. A new label may be `text` now;
    but a person may have removed `text` so lately that the history lacks that."""
    setup = Setup(Store(sqlite_database))
    await setup.front(trusted_labels=("merge-queue",))
    setup.github.events, setup.github.gone = (HistoryEvent("labeled", NOW, "mona", "merge-queue"),), ("merge-queue",)
    subject = of_pull(1)
    its_own = {"head_sha": "head-1", "base": "main", "open": True, "merged": False, "draft": False}
    its_own |= {"updated_at": NOW, "title": "A"}
    if act.startswith("other"):
        setup.github.events += (HistoryEvent("labeled", NOW, "mona", "Text"),)
    async with setup.engine.change() as change:
        match act:
            case "other renamed":
                setup.github.gone += ("text",)
            case "other made again":
                pass
            case "other removed":
                removal = PullRequestState.model_validate({**its_own, "labels": ("docs",), "label": "text"})
                await change.tx.known.record(REPOSITORY.id, [Fact(subject=subject, statement=removal)], NOW)
            case "set by IMQ":
                own = Fact(subject=subject, statement=OwnLabel(label="docs", label_set=True))
                await change.tx.known.record(REPOSITORY.id, [own], NOW)
            case "set by a person":
                label = {"labels": ("docs",), "label": "docs", "label_set": True}
                state = PullRequestState.model_validate({**its_own, **label})
                await change.tx.known.record(REPOSITORY.id, [Fact(subject=subject, statement=state)], NOW)
            case _:
                await change.tx.outbox.want_label(REPOSITORY, 1, "docs", on=True, due=NOW)
    async with setup.store.reading() as tx:
        entry = await tx.entries.find(REPOSITORY.id, 1)
    assert entry is not None
    pull = replace(setup.github.pull, labels=frozenset({"docs"}))
    left = with_author(setup.engine, entry, DequeueReason(Reason.LABEL_REMOVED), pull, Policy())
    if act == "other removed":
        with pytest.raises(StaleRecord):
            await left
    else:
        assert (await left).reason is Reason.LABEL_DELETED


@pytest.mark.parametrize(
    ("reason", "status"),
    [(Reason.CHECKS_FAILED, EntryStatus.FAILED), (Reason.LABEL_REMOVED, EntryStatus.CANCELLED)],
)
def test_status_of_a_dequeued_entry_follows_from_its_reason(reason: Reason, status: EntryStatus) -> None:
    """IMQ distinguishes a failure from a withdrawal."""
    assert status_of(reason) is status


@pytest.mark.parametrize(
    ("values", "outside"),
    [({}, True), ({"head_proved": False}, False), ({"run": Run(merge_requested_at=NOW)}, False)],
)
async def test_entry_whose_predecessor_left_waits_outside_or_has_a_pass_judge_it(
    sqlite_database: Database, values: dict[str, Any], outside: bool
) -> None:
    """P3, P4: before its head is proved, or after its merge request, a pass finds the name in the description."""
    async with Store(sqlite_database).transaction() as tx:
        standing = await queue(tx)
        first, later, free = [await stand(tx, standing, number) for number in (1, 2, 3)]
        await tx.entries.save(replace(later, depends_on=("#1", "#8"), **values))
        await tx.entries.save(replace(free, depends_on=("#8",)))
        await dequeue(Change(tx, NOW), first, DequeueReason(Reason.UNQUEUED), Policy())
        found, other = [await tx.entries.find(REPOSITORY.id, number) for number in (2, 3)]
        assert found is not None
        assert other is not None
        lacks = (UnmetRequirement(Reason.DEPENDENCY_OPEN, "#1"),)
        assert (found.is_ready, found.unmet) == ((False, lacks) if outside else (True, ()))
        assert (found.needs_refetch, found.head_proved) == (not outside, values.get("head_proved", True))
        assert found.depends_on == (("#1", "#8") if outside else ("#8",))
        assert (other.is_ready, other.needs_refetch) == (True, False)
