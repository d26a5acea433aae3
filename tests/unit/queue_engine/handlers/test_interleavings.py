"""No handler loses what another one commits between two of its reads (P2, P4), on PostgreSQL."""

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import permutations
from typing import Any

import pytest
from sqlalchemy.exc import DBAPIError

from queue_engine.admission.case import Case
from queue_engine.admission.enqueue import DequeuePermission, NotQueued, dequeue_by_user
from queue_engine.admission.request_order import RequestOrder
from queue_engine.config.model import Policy
from queue_engine.core.database.database import Database
from queue_engine.core.database.outage import OutageKind, fault_of
from queue_engine.domain.departure import DequeueReason
from queue_engine.domain.errors import StaleRecord
from queue_engine.domain.model import Entry
from queue_engine.domain.policy import PushPolicy
from queue_engine.domain.reasons import Reason
from queue_engine.effects.record import dequeue
from queue_engine.executor.scheduler import Scheduler
from queue_engine.handlers.branch_events import Branches
from queue_engine.handlers.check_events import CheckReports
from queue_engine.handlers.pull_request_events import PullRequestChanges
from queue_engine.handlers.shadow_mode import ShadowHandler
from queue_engine.store import Store
from tests.store.examples import changed, stand
from tests.support.databases import MakeUrl
from tests.support.webhooks import a_webhook
from tests.unit.queue_engine.examples import CHECKING, HOUR, NOW, POLICY, REPOSITORY, UPDATING
from tests.unit.queue_engine.handlers.github_double import OWN, Hub
from tests.unit.queue_engine.handlers.interleaving import Act, Handler, Interleaver, Side

pytestmark = pytest.mark.postgres

LABEL = POLICY.trigger_label
UPDATED = "head-1+base-1"


async def queued(side: Side, *others: int, **changes: Any) -> Entry:
    """Pull request 1 at the front of `main`, and others behind it."""
    async with side.engine.store.transaction() as tx:
        queue = await tx.queues.find_or_create(REPOSITORY, "main", NOW)
        entry = await stand(tx, queue, 1, trusted_labels=[LABEL])
        saved = await tx.entries.save(changed(entry, **changes))
        for number in others:
            await stand(tx, queue, number, trusted_labels=[LABEL])
    return saved


async def updating(side: Side) -> None:
    """IMQ asked for an update, which GitHub has made; no webhook has reported it yet."""
    await queued(side, status=UPDATING, base_tip="base-1", next_poll_at=NOW + HOUR)
    side.hub.update()


async def announced(side: Side) -> None:
    """The same, and its webhook has come: the next pass binds the new head."""
    await queued(
        side,
        status=UPDATING,
        base_tip="base-1",
        new_head=UPDATED,
        new_head_is_ours=True,
        next_poll_at=NOW + HOUR,
    )
    side.hub.update()
    await wake(side)


async def checking(side: Side) -> None:
    """The update is bound, and its one check is awaited."""
    side.hub.update()
    await queued(
        side,
        status=CHECKING,
        head_sha=UPDATED,
        updated_from="head-1",
        base_tip="base-1",
        tested_tree=f"tree-of-{UPDATED}",
        pending_checks=("ci",),
        next_poll_at=NOW + HOUR,
    )


async def waiting(side: Side) -> None:
    """The queue is full; pull request 1 waits for room."""
    async with side.engine.store.transaction() as tx:
        queue = await tx.queues.find_or_create(REPOSITORY, "main", NOW)
        for number in (2, 3):
            await stand(tx, queue, number, trusted_labels=[LABEL])
        await stand(tx, queue, 1, trusted_labels=[LABEL], held_since=NOW)


async def wake(side: Side) -> None:
    async with side.engine.change() as change:
        for queue in await change.tx.queues.all():
            await change.tx.queues.wake(queue.id, NOW)


def changes(side: Side) -> PullRequestChanges:
    return PullRequestChanges(side.engine, ShadowHandler(side.engine), RequestOrder(side.engine))


def check_ended(head: str = UPDATED) -> Handler:
    async def follow(side: Side) -> None:
        reports = CheckReports(side.engine)
        await reports.reported(a_webhook("check", head_sha=head, check_name="ci", passed=True))

    return Handler("a check ended", follow, "head", lambda hub: hub.passed.add(head))


async def _pass(side: Side) -> None:
    await Scheduler(side.engine).run_due()


async def _own_update(side: Side) -> None:
    push = {"action": "synchronize", "number": 1, "before": "head-1", "head_sha": UPDATED, "sender": OWN}
    await changes(side).changed(a_webhook("consent", **push))


async def _unlabeled(side: Side) -> None:
    removal = {"action": "unlabeled", "number": 1, "label": LABEL, "sender": "max"}
    await changes(side).changed(a_webhook("consent", **removal))


async def _pushed(side: Side) -> None:
    push = {"action": "synchronize", "number": 1, "before": "head-1", "head_sha": "stranger", "sender": "max"}
    await changes(side).changed(a_webhook("consent", **push))


async def _base_moved(side: Side) -> None:
    await Branches(side.engine).moved(a_webhook("base_moved", branch="main", head_sha="base-2"))


def _take_label_off(hub: Hub) -> None:
    hub.pull = replace(hub.pull, labels=frozenset())


def _move_base(hub: Hub) -> None:
    hub.tip = "base-2"


async def _labeled(side: Side, number: int) -> None:
    setting = {"number": number, "label": LABEL, "sender": "max", "head_sha": f"head-{number}", "branch": "main"}
    await changes(side).labeled(a_webhook("labeled", **setting))


async def _unqueued(side: Side) -> None:
    with suppress(NotQueued):
        async with side.engine.change() as change:
            case = Case(REPOSITORY, 1, governed=("main", POLICY))
            await dequeue_by_user(change, DequeuePermission(case, by="max"))


async def _entry_leaves(side: Side) -> None:
    async with side.engine.change() as change:
        entry = await change.tx.entries.find(REPOSITORY.id, 2)
        if entry is not None:
            await dequeue(change, entry, DequeueReason(Reason.UNQUEUED), POLICY)
    await _pass(side)


CHECKED = check_ended()
PASS = Handler("a pass", _pass, "pass")
OWN_UPDATE = Handler("own update announced", _own_update, "#1")
UNLABELED = Handler("label removed", _unlabeled, "#1", _take_label_off)
PUSHED = Handler("a stranger pushed", _pushed, "#1", lambda hub: hub.push("stranger"))
BASE_MOVED = Handler("the base moved", _base_moved, "main", _move_base)
LABELED = Handler("label set", partial(_labeled, number=1), "#1")
ANOTHER_LABELED = Handler("another's label set", partial(_labeled, number=4), "#4")
UNQUEUED = Handler("taken out by the API", _unqueued, "API")
ROOM = Handler("an entry leaves", _entry_leaves, "room")

SCENARIOS: dict[str, tuple[Act, Policy, tuple[tuple[Handler, Handler], ...]]] = {
    "updating": (updating, POLICY, ((CHECKED, OWN_UPDATE),)),
    "announced": (announced, POLICY, ((CHECKED, PASS),)),
    "checking": (checking, POLICY, ((CHECKED, UNLABELED), (BASE_MOVED, CHECKED))),
    "held": (waiting, replace(POLICY, depth=2), ((ROOM, UNLABELED),)),
}
"""What is so at first, the rules, and which handler is stopped for which: those that have lost something once."""

if "IMQ_INTERLEAVINGS" in os.environ:
    SCENARIOS["requeued"] = (checking, replace(POLICY, on_push=replace(POLICY.on_push, queued=PushPolicy.REQUEUE)), ())

SLOW = {"held"}
"""Scenarios with many reads before a write: only interleavings between statements of one transaction matter."""

EVERYTHING = (CHECKED, OWN_UPDATE, PASS, UNLABELED, PUSHED, BASE_MOVED, LABELED, ANOTHER_LABELED, UNQUEUED, ROOM)


def pairs(scenario: str) -> Iterable[tuple[Handler, Handler]]:
    """The pairs of a scenario; all that can meet if `IMQ_INTERLEAVINGS` is set, which takes minutes."""
    if "IMQ_INTERLEAVINGS" not in os.environ:
        return SCENARIOS[scenario][2]
    return ((one, other) for one, other in permutations(EVERYTHING, 2) if one.process != other.process)


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.process
async def test_handlers_that_meet_do_as_one_after_the_other(make_postgres_url: MakeUrl, scenario: str) -> None:
    """Stopped at any await while another one runs whole, a handler does what it does before or after the other."""
    begin, policy, _ = SCENARIOS[scenario]
    everything = "IMQ_INTERLEAVINGS" in os.environ
    interleaver = Interleaver(make_postgres_url(), policy, writing_only=scenario in SLOW and not everything)
    await interleaver.open()
    try:
        for first, second in pairs(scenario):
            assert await interleaver.check(begin, first, second) > 0
    finally:
        await interleaver.close()


@pytest.mark.parametrize("code", ["40001", "40P01"])
async def test_transaction_that_postgresql_ended_for_another_one_is_a_lost_race(
    postgres_database: Database, code: str
) -> None:
    """The handler that lost reads and decides again; no deadlock counts as an error of ours."""
    raised = f"DO $$ BEGIN RAISE EXCEPTION 'as another one wanted it' USING ERRCODE = '{code}'; END $$"
    with pytest.raises(StaleRecord) as lost:
        async with Store(postgres_database).transaction() as tx:
            await tx.connection.exec_driver_sql(raised)
    assert fault_of(lost.value) is OutageKind.LOST_RACE
    with pytest.raises(DBAPIError) as refused:
        async with Store(postgres_database).reading() as tx:
            await tx.connection.exec_driver_sql(raised)
    # A pass, a job and a page that only read are tried again, and count no error.
    assert fault_of(refused.value) is OutageKind.LOST_RACE
    assert OutageKind.LOST_RACE.passes
