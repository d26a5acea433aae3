"""Where a pull request stands: queued, held, or not queued, and then how its last stay ended."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from sqlalchemy import Engine, event

from queue_engine.config.model import FreezeRules, Policy
from queue_engine.core.database.database import Database
from queue_engine.domain.model import Pause
from queue_engine.domain.policy import FreezeWindow
from queue_engine.domain.reasons import PullRequestActor, Reason, WaitReason
from queue_engine.queries.pull_request_status import QueueHistory, load_pull_request, load_reply_facts
from queue_engine.store import Store
from queue_engine.store.rejections import Rejection
from tests.store.examples import REPOSITORY, changed, queue, stand
from tests.unit.queue_engine.examples import CHECKING, HOUR, NOW, POLICY
from tests.unit.queue_engine.queries.examples import happened

WINDOW = Policy(freeze=FreezeRules(windows=(FreezeWindow(NOW - HOUR, NOW + HOUR, "the fair"),)))


async def test_status_of_an_entry_is_its_own_with_what_holds_it(sqlite_database: Database) -> None:
    """The status names the entry's queue and its blockers, by that branch's policy, if the caller has it."""
    async with Store(sqlite_database).transaction() as t:
        main, release = await queue(t), await queue(t, "release")
        await stand(t, main, 1)
        front = await stand(t, release, 2)
        await t.entries.save(changed(front, status=CHECKING, pending_checks=("ci",)))
        await stand(t, release, 3)
        found = await load_pull_request(t, REPOSITORY.id, 2, {"release": WINDOW, "main": POLICY}, NOW)
        without = await load_pull_request(t, REPOSITORY.id, 2, {"main": WINDOW}, NOW)
    assert (found.state, found.base_branch, found.depth) == ("checking", "release", 2)
    assert found.entry is not None
    assert (found.entry.entry.position, found.entry.pending_checks) == (0, ("ci",))
    assert [blocker.reason for blocker in found.entry.blockers] == [Reason.FROZEN]
    assert without.entry is not None
    assert without.entry.blockers == (), "another branch's policy says nothing of it"
    assert (found.held_behind, found.previous, found.rejected) == (None, None, None)
    assert (found.reason, found.whose_move, found.detail) == (Reason.FROZEN, PullRequestActor.NONE, "the fair")
    assert (without.reason, without.whose_move) == (WaitReason.CHECKS_PENDING, PullRequestActor.CI)


async def test_status_of_one_that_is_held_counts_those_before_it(sqlite_database: Database) -> None:
    """Its wait is its state, whatever became of it before."""
    async with Store(sqlite_database).transaction() as t:
        main = await queue(t)
        await stand(t, main, 1)
        await t.pauses.put(main.id, Pause(Reason.PAUSED_BY_HAND, "", NOW))
        for number in (2, 3):
            await stand(t, main, number, held_since=NOW)
        await happened(t, 3, "failed", reason=Reason.CHECKS_FAILED)
        policies = {"main": replace(POLICY, depth=1)}
        known, announced = [await load_pull_request(t, REPOSITORY.id, 3, each, NOW) for each in (policies, {})]
    assert known == announced, "without the limit, what was announced tells"
    assert (known.state, known.base_branch, known.depth, known.held_behind) == ("held", "main", 1, 1)
    assert (known.entry, known.previous, known.outcome) == (None, None, None)
    assert (known.reason, known.whose_move, known.retry_safe) == (Reason.QUEUE_FULL, PullRequestActor.NONE, False)


async def test_status_of_a_pull_request_that_left_shows_the_newest_end(sqlite_database: Database) -> None:
    """Events between the ends do not count; who had to act then has to act still."""
    async with Store(sqlite_database).transaction() as t:
        await happened(t, 1, "cancelled", reason=Reason.LABEL_REMOVED)
        await happened(t, 1, "failed", reason=Reason.APPROVAL_MISSING, data={"detail": "0 of 1"})
        await happened(t, 1, "queued", data={"position": 0})
        await t.rejections.put(REPOSITORY.id, 1, "head-1", Reason.APPROVAL_MISSING, NOW)
        found = await load_pull_request(t, REPOSITORY.id, 1, {}, NOW)
    assert (found.state, found.base_branch, found.depth) == ("not_queued", None, 0)
    assert found.previous == QueueHistory("failed", Reason.APPROVAL_MISSING, "0 of 1", NOW, "main")
    assert found.rejected == Rejection("head-1", Reason.APPROVAL_MISSING, NOW)
    assert (found.outcome, found.whose_move, found.retry_safe) == ("failed", PullRequestActor.AUTHOR, False)
    assert found.may_be_queued


@pytest.mark.parametrize("landed", [True, False])
async def test_status_of_a_pull_request_that_landed_or_never_was_queued_needs_no_action(
    sqlite_database: Database, landed: bool
) -> None:
    """Landing has no reason, and is an end all the same."""
    async with Store(sqlite_database).transaction() as t:
        if landed:
            await happened(t, 1, "landed")
        found = await load_pull_request(t, REPOSITORY.id, 1, {}, NOW)
    assert found.previous == (QueueHistory("landed", None, None, NOW, "main") if landed else None)
    assert (found.rejected, found.retry_safe, found.may_be_queued) == (None, not landed, not landed)
    assert found.reason is (WaitReason.LANDED if landed else WaitReason.NEVER_QUEUED)


@pytest.mark.parametrize("number", [1, 2, 3], ids=["queued", "held", "not_queued"])
async def test_status_takes_three_statements(sqlite_database: Database, number: int) -> None:
    """Its queue comes first; then what that queue shows of it, or its past where it has none."""
    async with Store(sqlite_database).transaction() as t:
        main = await queue(t)
        await stand(t, main, 1)
        await stand(t, main, 2, held_since=NOW)
        with counted() as statements:
            await load_pull_request(t, REPOSITORY.id, number, {"main": replace(POLICY, depth=1)}, NOW)
    assert len(statements) == (2 if number == 2 else 3)


@contextmanager
def counted() -> Iterator[list[str]]:
    """The statements that reach the database meanwhile."""
    statements: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        statements.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    yield statements
    event.remove(Engine, "before_cursor_execute", note)


async def test_reply_about_a_pull_request_with_another_base_has_the_queue_that_it_is_in(
    sqlite_database: Database,
) -> None:
    """Its base was edited, and the webhook is still to come: the other branch's faults are not its own."""
    faulty = replace(POLICY, fault="line 3")
    async with Store(sqlite_database).transaction() as t:
        main = await queue(t)
        await stand(t, main, 1)
        other = await load_reply_facts(t, REPOSITORY.id, 1, "next", faulty, NOW)
        own = await load_reply_facts(t, REPOSITORY.id, 1, "main", faulty, NOW)
    assert other.queue is None, "no pull request was queued for it"
    assert other.pull_request.entry is not None
    assert (other.pull_request.base_branch, other.pull_request.entry.blockers) == ("main", ())
    assert own.queue is not None
    assert [each.reason for each in own.queue.blockers] == [Reason.MISCONFIGURED]


async def test_entry_says_what_of_github_holds_it_up_only_while_it_does(sqlite_database: Database) -> None:
    """A missing permission sets it aside; failing requests delay it."""
    async with Store(sqlite_database).transaction() as t:
        entry = await stand(t, await queue(t), 1)
        plain = (await load_pull_request(t, REPOSITORY.id, 1, {}, NOW)).entry
        await t.entries.save(changed(entry, github_failing_since=NOW - HOUR, blocked_until=NOW + HOUR))
        held_up = (await load_pull_request(t, REPOSITORY.id, 1, {}, NOW)).entry
    assert plain is not None
    assert (plain.outage, plain.deferral) == (None, None)
    assert held_up is not None
    assert held_up.outage is not None
    assert held_up.deferral is not None
    assert (held_up.deferral.reason, held_up.outage.since) == (Reason.WORKFLOWS_PERMISSION, NOW - HOUR)
