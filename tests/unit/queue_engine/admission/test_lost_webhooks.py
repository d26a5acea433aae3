"""P4: which labels without a webhook wait for it, for how long, and who judges them then."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from queue_engine.admission.head_consent import (
    LOST_LABEL_JOB,
    await_webhook,
    consenting_person,
    precedes,
)
from queue_engine.core.database.database import Database
from queue_engine.core.jobs.job import Job
from queue_engine.domain.consent import ConsentKind
from queue_engine.domain.departure import DequeueReason
from queue_engine.domain.facts import Commit, HeadPush, LabelEvent, Snapshot
from queue_engine.domain.reasons import Reason
from queue_engine.effects import record
from queue_engine.effects.record import PULL_REQUEST_JOB
from queue_engine.handlers.reconciler import Reconciler
from queue_engine.store import Store
from tests.store.examples import LEASE, TICK
from tests.unit.queue_engine.engine_setup import Setup
from tests.unit.queue_engine.examples import HOUR, MINUTE, NOW, POLICY, REPOSITORY, SECOND, pull

LABEL = LabelEvent("mona", NOW)
AT_ONCE, LATER = NOW + SECOND, NOW + SECOND + TICK


def push(after: str = "head-1", at: datetime = NOW - HOUR, *, before: str = "head-0", by: str = "ada") -> HeadPush:
    return HeadPush(before, after, at, by)


@pytest.mark.parametrize(
    ("pushed", "changed", "proved"),
    [
        (NOW - MINUTE, LATER, True),
        (NOW - MINUTE, None, True),
        (NOW - MINUTE + TICK, LATER, False),
        (NOW - MINUTE + TICK, None, False),
        (NOW - SECOND, AT_ONCE, True),
        (NOW, AT_ONCE, False),
        (NOW + SECOND, AT_ONCE, False),
    ],
)
def test_label_counts_for_a_head_that_was_pushed_before_it(
    pushed: datetime, changed: datetime | None, proved: bool
) -> None:
    """P4: within a second nothing has an order, and a push may show on the pull request as late as a minute."""
    assert precedes(push(at=pushed), LABEL, pull(updated_at=changed)) is proved


@pytest.fixture
def scene(sqlite_database: Database) -> Setup:
    return Setup(Store(sqlite_database))


@pytest.mark.parametrize(
    ("pushes", "followed_by", "proved"),
    [
        ((push(),), (), True),
        ((push(),), ("renamed", "mentioned", "unlabeled"), True),
        ((push(), push("head-0", NOW - 2 * HOUR)), (), True),
        ((), (), False),
        ((push(at=NOW + MINUTE),), (), False),
        ((push("head-9"), push()), (), False),
        ((push(at=NOW + MINUTE), push()), (), False),
        *(
            ((push(),), (kind,), False)
            for kind in ("closed", "reopened", "convert_to_draft", "base_ref_changed", "head_ref_force_pushed", "news")
        ),
        ((push(),), ("automatic_base_change_succeeded",), False),
    ],
)
async def test_label_without_a_webhook_counts_only_if_the_history_of_the_head_proves_it(
    scene: Setup, pushes: tuple[HeadPush, ...], followed_by: tuple[str, ...], proved: bool
) -> None:
    """P4: the last move of the branch made the present head, before the label; nothing since withdrew consent."""
    scene.github.pushes = pushes
    label = replace(LABEL, followed_by=frozenset(followed_by))
    changed = pull(updated_at=NOW + HOUR)
    found = await consenting_person(scene.engine, REPOSITORY, Snapshot(changed), label, POLICY)
    assert (found and found.by) == (label.by if proved else None)


@pytest.mark.parametrize(
    ("by", "parents", "fork", "labeled", "proved"),
    [
        ("imq[bot]", ("head-0", "base-1"), False, push("head-0"), True),
        ("eve", ("head-0", "base-1"), False, push("head-0"), False),
        ("imq[bot]", ("head-0", "eve-1"), False, push("head-0"), False),
        ("imq[bot]", ("head-0", "base-1"), True, push("head-0"), False),
        ("imq[bot]", ("head-0", "base-1"), False, push("head-0", NOW + SECOND), False),
        ("imq[bot]", ("head-0", "base-1"), False, push("head-9"), False),
    ],
)
async def test_update_of_imq_after_the_label_keeps_its_consent(
    scene: Setup, by: str, parents: tuple[str, ...], fork: bool, labeled: HeadPush, proved: bool
) -> None:
    """P4: a lost database may have had its front entry updated; anybody else's push, or content, counts as a push."""
    scene.github.pushes = (push(at=NOW + MINUTE, by=by), labeled)
    scene.github.compared = replace(scene.github.compared, head=Commit("head-1", "tree", parents))
    changes: dict[str, Any] = {"head_repository": "eve/fork"} if fork else {}
    changed = pull(updated_at=NOW + HOUR, **changes)
    found = await consenting_person(scene.engine, REPOSITORY, Snapshot(changed), LABEL, POLICY)
    assert (found and found.by) == (LABEL.by if proved else None)


@pytest.mark.parametrize(
    ("queued", "label", "proved"),
    [
        ([("max", "head-1")], LabelEvent("max", NOW), "max"),
        ([("max", "head-1")], LabelEvent("imq[bot]", NOW), "max"),
        ([("max", "head-1")], LabelEvent("max", NOW + SECOND), None),
        ([("max", "head-1")], LabelEvent("eve", NOW), None),
        ([("max", "head-1")], LabelEvent(None, NOW), None),
        ([("max", "head-9")], LabelEvent("max", NOW), None),
        ([("max", "head-1"), ("mona", "head-9")], LabelEvent("imq[bot]", NOW), None),
        ([("max", "head-9"), ("mona", "head-1")], LabelEvent("imq[bot]", NOW), "mona"),
    ],
)
async def test_ledger_proves_what_shadow_mode_dequeued_and_whom_it_was_queued_by(
    scene: Setup, queued: list[tuple[str, str]], label: LabelEvent, proved: str | None
) -> None:
    """P4: an earlier entry has ended, and who set the label again in the second of the first one asked for nothing."""
    for by, head in queued:
        await leave(scene, by, head, Reason.SHADOW_MODE if (by, head) == queued[-1] else Reason.HEAD_CHANGED)
    found = await consenting_person(scene.engine, REPOSITORY, Snapshot(pull()), label, POLICY)
    assert (found and found.by) == proved


async def test_ledger_names_who_queued_and_not_whose_bot_pushed(scene: Setup) -> None:
    """P4: the right of that person counts, as it did in the queue."""
    await leave(scene, "max", "head-0", Reason.SHADOW_MODE, pushed="head-1")
    found = await consenting_person(scene.engine, REPOSITORY, Snapshot(pull()), LabelEvent("max", NOW), POLICY)
    assert found is not None
    assert found.by == "max"


async def test_ledger_proves_nothing_for_another_base_branch(scene: Setup) -> None:
    await leave(scene, "max", "head-1", Reason.SHADOW_MODE)
    changed = pull(base_branch="release")
    assert await consenting_person(scene.engine, REPOSITORY, Snapshot(changed), LabelEvent("max", NOW), POLICY) is None


async def leave(scene: Setup, by: str, head: str, reason: Reason, *, pushed: str | None = None) -> None:
    """Queue the pull request by a person, have a bot push to it, and dequeue it; GitHub proves nothing of all that."""
    scene.github.pushes = ()
    async with scene.engine.change() as change:
        queue = await change.tx.queues.find_or_create(REPOSITORY, "main", NOW)
        entry = await change.tx.entries.add(
            queue_id=queue.id, number=1, title="A", author="ada", queued_by=by, queued_head=head, enqueued_at=NOW
        )
        if pushed is not None:
            entry = await change.tx.entries.save(replace(entry, head_sha=pushed))
            await change.tx.consents.add(entry, ConsentKind.BOT_PUSH, "renovate[bot]", NOW)
        await record.dequeue(change, entry, DequeueReason(reason), None)


async def claimed(scene: Setup, after: timedelta) -> tuple[Job, ...]:
    async with scene.store.transaction() as tx:
        return await tx.jobs.claim_some(9, owner="t", now=NOW + after, lease=LEASE)


async def test_label_without_a_webhook_is_judged_once_after_five_minutes_among_its_pull_requests_events(
    scene: Setup,
) -> None:
    """A lost delivery has that time to come; two sweeps within it ask for one judgement of each pull request."""
    for number in (1, 1, 2):
        await await_webhook(scene.engine, REPOSITORY, number)
    await await_webhook(scene.engine, replace(REPOSITORY, id=8), 1)
    assert await claimed(scene, 5 * MINUTE - TICK) == ()
    late = await claimed(scene, 5 * MINUTE)
    assert {job.kind for job in late} == {LOST_LABEL_JOB}
    assert [(job.request["repository"]["id"], job.request["number"]) for job in late] == [(7, 1), (7, 2), (8, 1)]
    await Reconciler(scene.engine, interval=HOUR).sweep_lost_label(late[1])
    (judged,) = await claimed(scene, timedelta(0))
    assert (judged.kind, judged.process_id) == (PULL_REQUEST_JOB, "7:2"), "that of the hints about it"
    assert (judged.request["number"], judged.request["new"], judged.request["webhook_is_late"]) == (2, True, True)
