"""Changes of the front are stored with their events and the limit of its checks, on both databases."""

from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import delete
from structlog.testing import capture_logs

from queue_engine.core.database.database import Database
from queue_engine.domain.errors import Forbidden, InvariantError, TransitionError, Unavailable
from queue_engine.domain.facts import CheckState
from queue_engine.domain.model import Entry, TimelineEvent
from queue_engine.domain.notice import Notice, NoticeKind
from queue_engine.domain.reasons import Reason
from queue_engine.domain.run import NOT_BEGUN
from queue_engine.executor.run_store import CheckResults, EntryChange, EntryUpdates
from queue_engine.known.own_writes import merged_by_imq
from queue_engine.planner.actions import Facts
from queue_engine.rules.transitions import blocked
from queue_engine.store import Store
from queue_engine.store.outbox.items import OutboxKind
from queue_engine.store.tables import consents
from tests.store.examples import changed
from tests.unit.queue_engine.engine_setup import Setup
from tests.unit.queue_engine.examples import (
    CHECKING,
    HOUR,
    MINUTE,
    NOW,
    POLICY,
    READY,
    REPOSITORY,
    SECOND,
    UPDATING,
    comparison,
    pull,
    report,
)

PASSED, FAILED, PENDING = CheckState.PASSED, CheckState.FAILED, CheckState.PENDING
BOUND = {"status": CHECKING, "head_sha": "head-2", "updated_from": "head-1", "base_tip": "base-1", "next_poll_at": NOW}


@pytest.fixture
def scene(store: Store) -> Setup:
    """The pull request is closed meanwhile: a pass goes as far as `ready`, and then no further."""
    scene = Setup(store)
    scene.github.pull = pull(head_sha="head-2", open=False)
    scene.github.compared = comparison("head-2", parents=("head-1", "base-1"))
    return scene


async def save(keeper: EntryUpdates, entry: Entry) -> None:
    await keeper.save(entry, changed(entry, status=READY), depth=1)


async def test_change_of_status_that_the_table_does_not_have_is_refused_and_nothing_is_stored(
    sqlite_database: Database,
) -> None:
    """P1: nothing becomes ready that was not checked, and what has landed does not leave for another reason."""
    scene = Setup(Store(sqlite_database))
    queue = await scene.front()
    async with scene.store.reading() as tx:
        before = await tx.entries.of_queue(queue.id)
    with pytest.raises(TransitionError):
        await save(EntryUpdates(scene.engine, POLICY), before[0])
    async with scene.store.reading() as tx:
        assert await tx.entries.of_queue(queue.id) == before


@pytest.mark.parametrize("agreed", [True, False])
async def test_merge_request_is_stored_before_it_is_sent_and_only_for_a_head_in_the_ledger(
    sqlite_database: Database, agreed: bool
) -> None:
    """P2: GitHub may carry out the request of a killed process. P4: nothing lands without its consent."""
    scene = Setup(Store(sqlite_database))
    await scene.front(status=READY)
    async with scene.store.transaction() as tx:
        before = await tx.entries.find(REPOSITORY.id, 1)
        assert before is not None
        if not agreed:
            await tx.connection.execute(delete(consents))
    keeper, requested = EntryUpdates(scene.engine, POLICY), changed(before, merge_requested_at=NOW)
    with nullcontext() if agreed else pytest.raises(InvariantError):
        await keeper.save(before, requested, depth=1, how=EntryChange(before_merge=True))
    async with scene.store.reading() as tx:
        assert await merged_by_imq(tx, before, NOW) is agreed


async def test_entry_that_is_blocked_keeps_its_place_and_people_read_why(sqlite_database: Database) -> None:
    """P5: its queue proceeds. The event names no head, since it is no refusal of one."""
    scene, published = Setup(Store(sqlite_database)), list[Any]()
    queue = await scene.front(status=READY, merge_requested_at=NOW)
    async with scene.store.reading() as tx:
        (before,) = await tx.entries.of_queue(queue.id)
    engine = replace(scene.engine, publish=published.append)
    changed = blocked(before, NOW, NOW + HOUR, NOW)
    await EntryUpdates(engine, POLICY).block(before, changed, Reason.WORKFLOWS_PERMISSION, "not allowed to")
    async with scene.store.reading() as tx:
        (after,) = await tx.entries.of_queue(queue.id)
        notice = await tx.outbox.wanted(OutboxKind.COMMENT, REPOSITORY.id, 1)
        (event,) = await tx.timeline.of_pull_request(REPOSITORY.id, 1)
    assert after == replace(changed, version=after.version, run=NOT_BEGUN)
    assert after.blocked_until == NOW + HOUR
    assert notice is not None
    assert (notice.kind, notice.reason, notice.detail) == (
        NoticeKind.BLOCKED,
        Reason.WORKFLOWS_PERMISSION,
        "not allowed to",
    )
    assert (event.event, event.reason, event.entry_id) == ("blocked", Reason.WORKFLOWS_PERMISSION, before.id)
    assert event.data == {"detail": "not allowed to"}
    assert [(one.event, one.reason, one.number, one.base_branch) for one in published] == [
        ("blocked", Reason.WORKFLOWS_PERMISSION, 1, "main")
    ]


async def front(scene: Setup, **changes: Any) -> Entry:
    queue = await scene.front(**changes)
    async with scene.store.reading() as tx:
        (entry,) = await tx.entries.of_queue(queue.id)
    return entry


async def shown(scene: Setup, kind: OutboxKind = OutboxKind.COMMENT) -> Notice | None:
    async with scene.store.reading() as tx:
        return await tx.outbox.wanted(kind, REPOSITORY.id, 1)


@pytest.mark.parametrize(("lasted", "announced"), [(MINUTE - SECOND, False), (MINUTE, True)])
async def test_github_outage_is_stored_and_announced_once_it_has_lasted_a_minute(
    sqlite_database: Database, lasted: timedelta, announced: bool
) -> None:
    """People read since when GitHub does not answer, and when IMQ asks again."""
    scene = Setup(Store(sqlite_database))
    before = await front(scene, status=CHECKING)
    waiting = changed(before, github_failures=4, github_failing_since=NOW - lasted)
    after = await EntryUpdates(scene.engine, POLICY).save_retrying(waiting, NOW + HOUR, Unavailable("down"), depth=3)
    assert (after.run.github_failures, after.run.github_failing_since, after.version > before.version) == (
        4,
        NOW - lasted,
        True,
    )
    notice = await shown(scene)
    assert (notice is not None) is announced
    if notice is not None:
        assert (notice.kind, notice.depth) == (NoticeKind.CHECKING, 3)
        assert (notice.retrying_since, notice.next_try) == (NOW - MINUTE, NOW + HOUR)


async def test_change_of_status_is_announced_with_its_checks_and_recorded_in_the_timeline(
    sqlite_database: Database,
) -> None:
    """IMQ stores what people read of it, and what pages are rendered from."""
    scene = Setup(Store(sqlite_database))
    before = replace(await front(scene, status=UPDATING), delivery="guid")
    running = (report("ci", PENDING),)
    bound = changed(before, status=CHECKING, head_sha="head-2", base_tip="base-1")
    await EntryUpdates(scene.engine, POLICY).save(before, bound, depth=2, how=EntryChange(checks=CheckResults(running)))
    for kind in (OutboxKind.COMMENT, OutboxKind.CHECK_RUN):
        notice = await shown(scene, kind)
        assert notice is not None
        assert (notice.kind, notice.head_sha, notice.depth, notice.checks) == (
            NoticeKind.CHECKING,
            "head-2",
            2,
            running,
        )
    event = (await events_of(scene))["checking"]
    assert (event.data, event.delivery) == ({"head": "head-2", "base_tip": "base-1"}, "guid")


async def test_entry_that_leaves_mentions_its_author_and_assignees(sqlite_database: Database) -> None:
    """The comment mentions people who have to act; timeline and log keep the reason."""
    scene = Setup(Store(sqlite_database))
    before = replace(await front(scene, status=CHECKING), delivery="guid")
    red, assigned = (report("ci", FAILED),), Facts(pull=pull(assignees=("kim", "ada")))
    with capture_logs() as logs:
        await EntryUpdates(scene.engine, POLICY).dequeue(
            before, Reason.CHECKS_FAILED, assigned, detail=None, checks=red
        )
    assert [(line["event"], line["reason"]) for line in logs] == [("dequeued", "checks_failed")]
    notice = await shown(scene)
    assert notice is not None
    assert (notice.reason, notice.people, notice.checks) == (Reason.CHECKS_FAILED, ("ada", "kim"), red)
    event = (await events_of(scene))["failed"]
    assert (event.data["checks"], event.delivery) == (["ci"], "guid")


async def events_of(scene: Setup) -> dict[str, TimelineEvent]:
    """The events of pull request 1 by name; none may come twice."""
    async with scene.store.reading() as tx:
        events = await tx.timeline.of_pull_request(REPOSITORY.id, 1)
    assert len({event.event for event in events}) == len(events)
    return {event.event: event for event in events}


async def past(scene: Setup, event: str, number: int, **data: Any) -> None:
    async with scene.store.transaction() as tx:
        await tx.timeline.append(TimelineEvent(NOW, event, REPOSITORY.id, "main", number, data=data))


@pytest.mark.parametrize(("stays", "limits"), [(0, None), (2, {"ci": 30 * 60})])
async def test_binding_gives_each_check_a_limit_by_history(
    scene: Setup, stays: int, limits: dict[str, int] | None
) -> None:
    """Ten minutes each make a limit of thirty."""
    for number in range(stays):
        await past(scene, "ready", 100 + number, check_seconds={"ci": 600.0})
    await past(scene, "ready", 200, head_sha="without a figure")
    scene.github.reports = ()
    queue = await scene.front(status=UPDATING, base_tip="base-1", new_head="head-2", new_head_is_ours=True)
    entry = await scene.advance(queue)
    assert entry is not None
    assert (entry.status, entry.run.check_limits) == (CHECKING, limits)


@pytest.mark.parametrize("late", [0 * MINUTE, MINUTE, 71 * HOUR, 73 * HOUR])
async def test_ready_records_how_long_the_checks_of_a_new_head_took(scene: Setup, late: timedelta) -> None:
    """Limits are made of these durations: checks end when GitHub says, not when IMQ polls."""
    scene.github.reports = (report("ci", PASSED, completed_at=NOW - late),)
    await scene.advance(await scene.front(**BOUND, status_since=NOW - 72 * HOUR))
    ready = (await events_of(scene))["ready"]
    assert ready.data is not None
    assert ready.data["checks"] == max((72 * HOUR - late).total_seconds(), 0)
    assert ready.data["ended"] == (NOW - min(late, 72 * HOUR)).isoformat()


@pytest.mark.parametrize(
    "without_duration",
    [
        {"head_sha": "head-1", "updated_from": None},
        {"merge_refusals": 1},
        {"rerun_checks": ("1:ci",)},
    ],
)
async def test_ready_records_no_duration_where_it_is_not_that_of_all_checks(
    scene: Setup, without_duration: dict[str, Any]
) -> None:
    """A head with passed checks, a second read before the merge, a rerun of failed checks: all take less time."""
    scene.github.reports = (report("ci", PASSED, completed_at=NOW - HOUR),)
    await scene.advance(await scene.front(**BOUND | without_duration, status_since=NOW - 7 * MINUTE))
    ready = (await events_of(scene))["ready"]
    assert ready.data is not None
    assert "checks" not in ready.data


async def test_rerun_and_flaky_are_in_the_timeline_with_their_checks(scene: Setup) -> None:
    """One event when GitHub runs it again, one when it passes then."""
    failed = replace(report("ci", FAILED, run=1, workflow=7), started_at=NOW - 30 * SECOND)
    scene.github.reports = (failed,)
    queue = await scene.front(**BOUND)
    entry = await scene.advance(queue)
    assert entry is not None
    assert (scene.github.reruns, entry.run.pending_checks, entry.status) == ([7], ("ci",), CHECKING)
    assert "flaky" not in await events_of(scene)
    passed = replace(report("ci", PASSED, run=2, workflow=7), started_at=NOW - 2 * MINUTE, completed_at=NOW - MINUTE)
    scene.github.reports = (passed,)
    await scene.change_entry(next_poll_at=NOW)
    await scene.advance(queue)
    recorded = await events_of(scene)
    failing = [{"check": "ci", "url": failed.url, "jobs": ["ci"]}]
    rerun = {"head": "head-2", "checks": ["ci"], "check_seconds": {"ci": 30}, "failing": failing}
    rerun |= {"check_jobs": {"ci": {"minutes": 1.0, "cost": None}}}
    assert recorded["rerun"].data == rerun
    assert recorded["flaky"].data == {"head": "head-2", "checks": ["ci"]}
    assert recorded["ready"].data["check_seconds"] == {"ci": 60}, "the first run is in the other event"


async def test_rerun_that_github_refuses_is_no_event(scene: Setup) -> None:
    """Nothing ran again; the entry leaves as it would have without asking."""

    async def refused() -> None:
        raise Forbidden("Resource not accessible by integration")

    scene.github.meanwhile["rerun"] = refused
    scene.github.pull = pull(head_sha="head-2")
    scene.github.reports = (report("ci", FAILED, run=1, workflow=7),)
    assert await scene.advance(await scene.front(**BOUND)) is None
    recorded = await events_of(scene)
    assert recorded["failed"].reason is Reason.CHECKS_FAILED
    assert "rerun" not in recorded


async def test_rerun_asks_once_for_each_workflow_run(scene: Setup) -> None:
    """Two jobs of one run begin again together."""
    scene.github.reports = (report("ci", FAILED, run=1, workflow=7), report("ci", FAILED, app_id=9, run=2, workflow=7))
    await scene.advance(await scene.front(**BOUND))
    assert scene.github.reruns == [7]


async def test_conflict_names_what_landed_since_the_entry_was_queued(scene: Setup) -> None:
    """The conflict is with one of them: IMQ finds them without a request."""
    await past(scene, "landed", 5)
    await past(scene, "landed", 6)
    scene.github.pull = pull(mergeable=False)
    assert await scene.advance(await scene.front(status=UPDATING, base_tip="base-1", next_poll_at=NOW)) is None
    left = (await events_of(scene))["failed"]
    assert left.reason is Reason.CONFLICT
    assert left.data is not None
    assert left.data["detail"] == "since it was queued, #5, #6 landed on main"
    assert scene.github.asked == ["pull"]


async def test_conflict_without_a_landing_meanwhile_names_nothing(scene: Setup) -> None:
    """An earlier landing is not named, nor is another branch's."""
    async with scene.store.transaction() as tx:
        for branch, at in (("main", NOW - HOUR), ("release", NOW + timedelta(seconds=1))):
            await tx.timeline.append(TimelineEvent(at, "landed", REPOSITORY.id, branch, 5))
    scene.github.pull = pull(mergeable=False)
    assert await scene.advance(await scene.front(status=UPDATING, base_tip="base-1", next_poll_at=NOW)) is None
    left = (await events_of(scene))["failed"]
    assert left.data is not None
    assert left.data["detail"] is None
