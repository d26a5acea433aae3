"""A check's report is counted, stored for a head to be bound, or ignored; some make the entry due at once."""

from datetime import datetime
from typing import Any

import pytest

from queue_engine.core.database.database import Database
from queue_engine.domain.facts import CheckState
from queue_engine.domain.model import Queue
from queue_engine.domain.run import CheckTiming
from queue_engine.handlers.check_events import CheckReports
from queue_engine.store import Store
from tests.support.webhooks import a_webhook
from tests.unit.queue_engine.engine_setup import Setup
from tests.unit.queue_engine.examples import (
    CHECKING,
    HOUR,
    MINUTE,
    NOW,
    PENDING,
    READY,
    REPOSITORY,
    UPDATING,
    comparison,
    pull,
    report,
)

LATER = NOW + HOUR


@pytest.fixture
def scene(sqlite_database: Database) -> Setup:
    return Setup(Store(sqlite_database))


async def checked(scene: Setup) -> Queue:
    """A front whose checks `ci` and `lint` are pending; its next poll is in an hour."""
    return await scene.front(status=CHECKING, pending_checks=("ci", "lint"), next_poll_at=LATER)


async def reported(scene: Setup, head: str, name: str, *, passed: bool = True, **more: Any) -> None:
    webhook = a_webhook(
        "check",
        delivery="guid",
        installation_id=REPOSITORY.installation_id,
        repository_id=REPOSITORY.id,
        head_sha=head,
        check_name=name,
        passed=passed,
        **more,
    )
    await CheckReports(scene.engine).reported(webhook)


async def test_run_that_waits_for_approval_makes_imq_poll_as_for_the_first_time(scene: Setup) -> None:
    """Only the first poll reads such runs. A run on another head does not count."""
    await scene.front(status=CHECKING, pending_checks=("ci",), polls=7, next_poll_at=LATER)
    parked = a_webhook(
        "checks",
        delivery="guid",
        installation_id=REPOSITORY.installation_id,
        repository_id=REPOSITORY.id,
        without_jobs=True,
    )
    for head, recheck, due in (("head-0", 7, None), ("head-1", 0, NOW)):
        await CheckReports(scene.engine).reported(parked.model_copy(update={"head_sha": head}))
        async with scene.store.reading() as tx:
            entry = await tx.entries.find(REPOSITORY.id, 1)
            assert entry is not None
            assert (entry.run.polls, entry.run.next_poll_at, await tx.queues.next_due()) == (recheck, due or LATER, due)


async def found(scene: Setup) -> tuple[tuple[str, ...], datetime | None, datetime | None]:
    """The front's completed checks, its next poll, and when its queue is due."""
    async with scene.store.reading() as tx:
        entry = await tx.entries.find(REPOSITORY.id, 1)
        assert entry is not None
        return entry.run.completed_checks, entry.run.next_poll_at, await tx.queues.next_due()


async def test_report_has_when_its_check_ran(scene: Setup) -> None:
    """Without a request: the page shows it while the other checks still run. A status keeps its known start."""
    begun, ended = NOW - HOUR, NOW - MINUTE
    await scene.front(
        status=CHECKING,
        pending_checks=("ci", "lint", "unit"),
        next_poll_at=LATER,
        timings=(CheckTiming("lint", None, begun),),
    )
    page = "https://ci.example/1"
    await reported(scene, "head-1", "ci", check_url=page, check_started=begun, check_ended=ended)
    await reported(scene, "head-1", "lint", passed=False, check_ended=ended)
    async with scene.store.reading() as tx:
        entry = await tx.entries.find(REPOSITORY.id, 1)
    assert entry is not None
    assert entry.run.timings == (
        CheckTiming("ci", page, begun, ended, passed=True),
        CheckTiming("lint", None, begun, ended, passed=False),
    )


async def test_report_of_a_failure_makes_imq_poll_at_once(scene: Setup) -> None:
    """An author reads of a failure at once, not when the last of the other checks has completed."""
    await checked(scene)
    await reported(scene, "head-1", "ci", passed=False)
    assert await found(scene) == (("ci",), NOW, NOW)


async def test_reports_that_pass_are_counted_until_the_last_one_makes_imq_poll(scene: Setup) -> None:
    """P7: all checks cost one poll; other checks, and repeated reports, cost none."""
    await checked(scene)
    for name in ("ci", "ci", "docs"):
        await reported(scene, "head-1", name)
        assert await found(scene) == (("ci",), LATER, None)
    await reported(scene, "head-1", "lint")
    assert await found(scene) == (("ci", "lint"), NOW, NOW)


async def test_first_report_makes_imq_poll_while_no_check_is_known_to_be_pending(scene: Setup) -> None:
    """Only that poll finds out which checks there are."""
    await scene.front(status=CHECKING, next_poll_at=LATER)
    await reported(scene, "head-1", "ci")
    assert await found(scene) == (("ci",), NOW, NOW)


async def test_report_on_another_commit_than_the_one_that_is_checked_is_ignored(scene: Setup) -> None:
    """A check of an older head, or of a commit that is not queued, does not count."""
    await checked(scene)
    await reported(scene, "head-0", "ci", passed=False)
    assert await found(scene) == ((), LATER, None)


@pytest.mark.parametrize("status", [PENDING, READY])
async def test_report_on_an_entry_that_is_not_checked_is_ignored(scene: Setup, status: object) -> None:
    """Its checks are read when their time comes."""
    await scene.front(status=status, next_poll_at=LATER)
    await reported(scene, "head-1", "ci", passed=False)
    assert await found(scene) == ((), LATER, None)


@pytest.mark.parametrize(("head", "polls"), [("head-2", True), ("head-0", False), ("head-1", False)])
async def test_report_that_comes_before_its_new_head_is_bound_makes_imq_poll_the_checks_at_once(
    scene: Setup, head: str, polls: bool
) -> None:
    """A fast check can end before IMQ knows the head that its update made; a report on another head is none of it."""
    scene.github.pull = pull(head_sha="head-2")
    scene.github.compared = comparison("head-2", parents=("head-1", "base-1"))
    scene.github.reports = (report("ci", CheckState.PENDING),)
    queue = await scene.front(status=UPDATING, base_tip="base-1", next_poll_at=LATER)
    await reported(scene, head, "ci")
    assert await found(scene) == (() if head == "head-1" else (f"{head}:ci",), LATER, None)
    await scene.change_entry(new_head="head-2", new_head_is_ours=True, next_poll_at=NOW)
    entry = await scene.advance(queue)
    assert entry is not None
    assert (entry.status, entry.head_sha, "checks" in scene.github.asked) == (CHECKING, "head-2", polls)


async def test_failure_before_any_check_is_pending_is_polled_without_a_wait_for_others(scene: Setup) -> None:
    """It is not counted among those that have reported, which may start a wait for the rest."""
    await scene.front(status=CHECKING, pending_checks=(), next_poll_at=LATER)
    for passed, counted in ((False, ()), (True, ("lint",))):
        await reported(scene, "head-1", "lint", passed=passed)
        async with scene.store.reading() as tx:
            entry = await tx.entries.find(REPOSITORY.id, 1)
            assert entry is not None
            assert (entry.run.next_poll_at, entry.run.completed_checks) == (NOW, counted)
