"""What holds a queue, and what each of its entries waits for."""

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from queue_engine.config.model import FreezeRules, Policy
from queue_engine.core.database.database import Database
from queue_engine.domain.blocker import Blocker, BlockerNotices
from queue_engine.domain.model import Pause, RedBase
from queue_engine.domain.policy import FreezeWindow
from queue_engine.domain.reasons import Reason
from queue_engine.queries.queue_status import (
    EntryBlock,
    GitHubOutage,
    QueueView,
    load_queue,
    load_summaries,
    queue_blockers,
)
from queue_engine.store import Store
from tests.store.examples import OTHER, REPOSITORY, stand
from tests.store.examples import queue as stored_queue
from tests.unit.queue_engine.examples import HOUR, MINUTE, NOW, POLICY
from tests.unit.queue_engine.queries.examples import entries, queue, viewed

PAUSE = Pause(Reason.PAUSED_BY_HAND, "the disk is full", NOW)
RED = RedBase("ci", "base-1", NOW, 1, NOW + HOUR)
PAUSED, BASE_RED = Blocker(Reason.PAUSED_BY_HAND, "the disk is full"), Blocker(Reason.BASE_RED, "ci")
WINDOW = Policy(freeze=FreezeRules(windows=(FreezeWindow(NOW - HOUR, NOW + HOUR, "the fair"),)))


def announced(reason: Reason, until: datetime | None = None, **more: Any) -> str:
    """What was announced last."""
    return BlockerNotices.of([Blocker(reason, "the fair", until, **more)], ()).to_json()


def test_blockers_of_the_policy_are_known_without_it_as_far_as_announced() -> None:
    """Stored blockers are shown as they are; an announcement counts for a window or a fault, and while it can apply."""
    for stored, policy, reasons in [
        (queue(), POLICY, []),
        (queue(), WINDOW, ["frozen"]),
        (queue(pauses=(PAUSE,), red=RED), WINDOW, ["paused_by_hand", "frozen", "base_red"]),
        (queue(pauses=(PAUSE,), red=RED), None, ["paused_by_hand", "base_red"]),
        (queue(pauses=(replace(PAUSE, until=NOW),)), None, []),
        (
            queue(pauses=(PAUSE,), red=RED, announced=announced(Reason.FROZEN)),
            None,
            ["paused_by_hand", "frozen", "base_red"],
        ),
        (queue(announced=announced(Reason.MISCONFIGURED)), None, ["misconfigured"]),
        (queue(announced=announced(Reason.MISCONFIGURED)), POLICY, []),
        (queue(announced=announced(Reason.FROZEN, NOW + HOUR)), None, ["frozen"]),
        (queue(announced=announced(Reason.FROZEN, NOW)), None, []),
        (queue(announced=announced(Reason.FROZEN, recorded=True)), None, []),
        (queue(announced=announced(Reason.BASE_RED)), None, []),
    ]:
        assert [blocker.reason.value for blocker in queue_blockers(stored, policy, NOW)] == reasons, (
            stored,
            policy,
            reasons,
        )


def test_entry_behind_the_front_waits_for_it() -> None:
    """No person has to act; the range is that of the two runs to come."""
    view = viewed(2, of=entries(2))
    assert (view.position.ahead, view.entry.status_since, view.pending_checks, view.blockers) == ((1,), NOW, (), ())
    assert view.eta == view.position.eta == (NOW + 20 * MINUTE, NOW + 20 * MINUTE + 5 * MINUTE)


def test_entry_that_is_checked_waits_for_the_checks_that_have_not_completed() -> None:
    """Checks that webhooks reported since the last poll are left out."""
    view = viewed(1, of=entries(1, pending_checks=("build", "lint", "docs"), completed_checks=("lint", "size")))
    assert view.pending_checks == ("build", "docs")
    assert view.eta is not None


def test_entry_is_held_by_the_blockers_that_do_not_exempt_it() -> None:
    """The fix of a red base waits for the pause alone; without a pause nothing holds it."""
    line = entries(2, fixes_base=True)
    fix, other = (viewed(number, of=line, blockers=(PAUSED, BASE_RED)) for number in (1, 2))
    assert (fix.blockers, other.blockers) == ((PAUSED,), (PAUSED, BASE_RED))
    assert (fix.eta, other.eta) == (None, None)
    fix, other = (viewed(number, of=line, blockers=(BASE_RED,)) for number in (1, 2))
    assert fix.eta is not None


@pytest.mark.parametrize(
    ("due_at", "next_try"), [(NOW + MINUTE, NOW + MINUTE), (NOW, None), (None, None)], ids=["later", "now", "unknown"]
)
def test_entry_waits_for_github_until_the_next_try(due_at: datetime | None, next_try: datetime | None) -> None:
    """The queue is due then; while it is due already, the try is under way. No estimate is given."""
    line = entries(1, github_failures=3, github_failing_since=NOW - HOUR)
    view = viewed(1, of=line, stored=queue(due_at=due_at))
    assert view.outage == GitHubOutage(NOW - HOUR, next_try)
    assert view.eta is None


def test_entry_that_is_deferred_waits_for_the_permission_until_it_is_tried_again() -> None:
    """A maintainer has to grant it; when it is tried again, it is deferred no longer."""
    line = entries(1, blocked_since=NOW, blocked_until=NOW + HOUR)
    view = viewed(1, of=line)
    assert view.deferral == EntryBlock(Reason.WORKFLOWS_PERMISSION, NOW, NOW + HOUR)
    assert view.eta is None
    assert viewed(1, of=line, after=HOUR).deferral is None


async def test_queue_is_loaded_with_its_entries_in_order_and_those_held(sqlite_database: Database) -> None:
    """The summary shows the same of it, whatever other queues have."""
    async with Store(sqlite_database).transaction() as t:
        main, other = await stored_queue(t), await stored_queue(t, "main", OTHER)
        for number in (1, 2):
            await stand(t, main, number)
        await stand(t, other, 1)
        await stand(t, main, 3, held_since=NOW)
        status = await load_queue(t, main, replace(WINDOW, depth=2), NOW)
        of_repository = await load_summaries(t, NOW, repository_id=REPOSITORY.id, policies={"main": WINDOW})
        everything = await load_summaries(t, NOW)
    assert [view.entry.number for view in status.entries] == [1, 2]
    assert (status.depth, status.held, [each.reason for each in status.blockers]) == (2, 1, [Reason.FROZEN])
    assert all(view.blockers == status.blockers for view in status.entries)
    assert of_repository == (QueueView(main, 2, 1, status.blockers),)
    assert everything == (QueueView(main, 2, 1, ()), QueueView(other, 1, 0, ()))


@pytest.mark.parametrize(
    ("depth", "held", "most", "accepts"),
    [(0, 0, 1, True), (19, 0, 20, True), (20, 0, 20, False), (19, 1, 20, False), (10_000, 9, 0, True)],
)
def test_summary_accepts_while_a_free_place_has_no_entry_waiting_for_it(
    depth: int, held: int, most: int, accepts: bool
) -> None:
    """A place that other entries wait for is taken; 0 means no limit."""
    assert QueueView(queue(), depth, held, ()).accepts(most) is accepts


@pytest.mark.parametrize(("depth", "held", "blockers"), [(1, 0, ()), (0, 1, ()), (0, 0, (PAUSED,))])
def test_summary_is_busy_with_an_entry_a_wait_or_a_blocker(depth: int, held: int, blockers: Any) -> None:
    """One that has none of them is idle."""
    assert QueueView(queue(), depth, held, blockers).busy
    assert not QueueView(queue(), 0, 0, ()).busy
