"""Passes over a stored queue while webhooks change its front: what a pass read before is not believed after."""

from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pytest

from queue_engine.config.model import Policy
from queue_engine.core.database.database import Database
from queue_engine.domain.errors import Forbidden, GitHubError, MergeError, RateLimitError, Unavailable
from queue_engine.domain.facts import CheckState, Commit
from queue_engine.domain.policy import Mode
from queue_engine.domain.port import GitHub
from queue_engine.domain.run import CandidateTrigger
from queue_engine.executor import landing
from queue_engine.executor.queue_pass import LeaseLost
from queue_engine.executor.scheduler import advance
from queue_engine.known.own_writes import merged_by_imq
from queue_engine.planner.actions import Facts
from queue_engine.rules.policies import PolicyKey
from queue_engine.store import Store
from tests.store.examples import changed
from tests.unit.queue_engine.engine_setup import Setup
from tests.unit.queue_engine.examples import (
    CHECKING,
    NOW,
    POLICY,
    READY,
    REPOSITORY,
    SECOND,
    UPDATING,
    comparison,
    entry,
    pull,
    report,
)


@pytest.fixture
def scene(sqlite_database: Database) -> Setup:
    return Setup(Store(sqlite_database))


async def test_webhook_of_the_update_while_a_pass_reads_the_old_head_binds_the_update(scene: Setup) -> None:
    """The pull request was read just before the update, the webhook came just after: that is no push of a stranger."""
    queue = await scene.front(status=UPDATING, base_tip="base-1", next_poll_at=NOW)

    async def update_appears() -> None:
        scene.github.pull = pull(head_sha="head-2")
        await scene.change_entry(new_head="head-2", new_head_is_ours=True)

    scene.github.meanwhile["pull"] = update_appears
    entry = await scene.advance(queue)
    assert entry is not None
    assert (entry.status, entry.head_sha) == (CHECKING, "head-2")


@pytest.mark.parametrize("status", [CHECKING, READY])
async def test_webhook_of_a_push_to_the_base_while_a_pass_compares_makes_it_compare_again(
    scene: Setup, status: object
) -> None:
    """P1: no merge follows from a comparison that is older than a push that a webhook reported."""
    queue = await scene.front(status=status, base_tip="base-1", newer_tip="base-2" if status is CHECKING else None)

    async def base_moves() -> None:
        scene.github.compared = comparison(behind=1, base_tip="base-2")
        await scene.change_entry(newer_tip="base-2")

    scene.github.meanwhile["snapshot" if status is READY else "comparison"] = base_moves
    entry = await scene.advance(queue)
    assert entry is not None
    assert (entry.status, entry.run.base_tip) == (UPDATING, "base-2")


async def test_webhook_of_a_report_while_a_pass_reads_reports_makes_it_read_them_again(scene: Setup) -> None:
    """The last report came while the ones before it were on their way: no slow fallback for that."""
    scene.github.reports = (report("ci", CheckState.PENDING),)
    queue = await scene.front(status=CHECKING, base_tip="base-1", next_poll_at=NOW)

    async def check_fails() -> None:
        scene.github.reports = (report("ci", CheckState.FAILED),)
        await scene.change_entry(completed_checks=("ci",), next_poll_at=NOW)

    scene.github.meanwhile["checks"] = check_fails
    assert await scene.advance(queue) is None
    assert scene.github.asked == ["rules", "checks", "rules", "checks", "base_reports", "pull"]


async def test_advance_keeps_what_it_read_over_its_own_changes(scene: Setup) -> None:
    """A pass without webhooks reads no fact twice."""
    scene.github.compared = comparison(behind=1, base_tip="base-2", parents=("head-0", "base-0"))
    queue = await scene.front(
        status=READY, head_proved=False, updated_from="head-0", next_poll_at=NOW - SECOND, needs_refetch=True
    )
    entry = await scene.advance(queue)
    assert entry is not None
    assert entry.status is UPDATING
    assert scene.github.asked == ["snapshot", "comparison", "update"]


async def test_advance_that_lost_its_lease_takes_no_further_step(scene: Setup) -> None:
    """Somebody else advances this queue now: what one pass began is not acted on by two."""
    queue = await scene.front(status=UPDATING, base_tip="base-1", next_poll_at=NOW)
    with pytest.raises(LeaseLost):
        await advance(scene.engine, queue, lambda: not scene.github.asked)
    assert scene.github.asked == ["pull"]


@pytest.mark.parametrize(
    "trouble",
    [{"github_failures": 3}, {"github_failing_since": NOW}, {"github_failures": 3, "github_failing_since": NOW}],
)
async def test_advance_that_finds_github_answering_forgets_its_trouble(scene: Setup, trouble: dict[str, Any]) -> None:
    """P5: the limit of one outage is not spent by the one before it."""
    scene.github.reports = (report("ci", CheckState.PENDING),)
    entry = await scene.advance(await scene.front(status=CHECKING, base_tip="base-1", next_poll_at=NOW, **trouble))
    assert entry is not None
    assert (entry.status, entry.run.github_failures, entry.run.github_failing_since) == (CHECKING, 0, None)


async def limited() -> None:
    raise RateLimitError("slow down", retry_after=timedelta(minutes=30))


async def test_advance_held_back_from_asking_for_an_update_gives_it_its_whole_time_afterwards(
    scene: Setup,
) -> None:
    """P5: the half hour that GitHub's limits took is no update that timed out."""
    scene.github.compared = comparison(behind=1, base_tip="base-2")
    queue = await scene.front()
    scene.github.meanwhile["update"] = limited
    entry = await scene.advance(queue)
    later = NOW + timedelta(minutes=30)
    assert entry is not None
    assert (entry.status, entry.status_since, entry.run.next_poll_at) == (UPDATING, later, later)


async def test_advance_whose_lost_merge_is_carried_out_late_lands_it(
    scene: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P2: the request of a process that died landed after the next one had seen the pull request open."""

    async def merge(*_: object, **__: object) -> str:
        raise Unavailable("no answer")

    async def commit(_repository: object, sha: str) -> Commit:
        return Commit(sha, "tree-of-head-1", ("base-1", "head-1"))

    monkeypatch.setattr(scene.github, "merge", merge)
    monkeypatch.setattr(scene.github, "commit", commit, raising=False)
    queue = await scene.front(status=READY, base_tip="base-1", head_proved=True, tested_tree="tree-of-head-1")
    in_doubt = await scene.advance(queue)
    assert in_doubt is not None
    assert in_doubt.run.merge_requested_at is not None
    await scene.change_entry(merge_requested_at=None)
    scene.github.pull = pull(open=False, merged=True, merge_sha="landed-1")
    await scene.change_entry(needs_refetch=True)
    assert await scene.advance(queue) is None
    async with scene.store.reading() as tx:
        assert [event.event for event in await tx.timeline.latest(1)] == ["landed"]


@pytest.mark.parametrize(
    ("error", "ours"),
    [
        (MergeError("Required status check is expected."), False),
        (RateLimitError("slow down", retry_after=SECOND), False),
        (Unavailable("no answer"), True),
    ],
)
async def test_advance_remembers_a_merge_only_where_github_may_carry_it_out(
    scene: Setup, monkeypatch: pytest.MonkeyPatch, error: GitHubError, ours: bool
) -> None:
    """After a refusal or a limit, a merge is not IMQ's."""

    async def merge(*_: object, **__: object) -> str:
        raise error

    monkeypatch.setattr(scene.github, "merge", merge)
    monkeypatch.setattr(scene.github, "forget_rules", lambda *_: None, raising=False)
    queue = await scene.front(status=READY, base_tip="base-1", head_proved=True)
    entry = await scene.advance(queue)
    assert entry is not None
    async with scene.store.reading() as tx:
        assert await merged_by_imq(tx, changed(entry, status=READY), NOW) is ours


async def test_advance_held_back_from_merging_has_no_merge_in_doubt(
    scene: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was done: the next pass reads what every merge needs, and not what a lost answer would."""

    async def merge(*_: object, **__: object) -> str:
        await limited()
        raise AssertionError

    monkeypatch.setattr(scene.github, "merge", merge)
    queue = await scene.front(status=READY, base_tip="base-1", head_proved=True)
    entry = await scene.advance(queue)
    assert entry is not None
    assert (entry.status, entry.run.merge_requested_at) == (READY, None)


@pytest.mark.parametrize("status", [CHECKING, READY])
async def test_advance_of_a_front_that_a_train_tested_has_its_own_head_tested(scene: Setup, status: object) -> None:
    """P1: a train's candidate was not the entry's own head, so that no result of that run lands it."""
    scene.github.reports = (report("ci", CheckState.PENDING),)
    entry = await scene.advance(
        await scene.front(status=status, base_tip="base-1", queue_id=1, trigger=CandidateTrigger.PUSH)
    )
    assert entry is not None
    assert (entry.status, entry.run.has_branch) == (CHECKING, False)


class Unreadable:
    """Policies that GitHub does not let anybody read."""

    def __init__(self, error: GitHubError) -> None:
        self.error = error

    async def of(self, *_: object) -> Policy:
        raise self.error

    def cached(self, *_: object) -> Policy | None:
        raise AssertionError

    async def recall(self, *_: object) -> tuple[PolicyKey, ...]:
        raise AssertionError

    async def read_ahead(self, *_: object) -> None:
        raise AssertionError

    async def labels(self, *_: object) -> tuple[str, ...]:
        raise self.error

    async def mode(self, *_: object) -> Mode | None:
        raise self.error

    async def testing_labels(self, *_: object) -> tuple[str, ...]:
        """No branch has queue-only checks."""
        return ()

    async def admit_readers(self, *_: object) -> bool:
        raise self.error

    def remembers(self, repository_id: int, base_branch: str) -> bool:
        raise AssertionError

    def forget(self, repository_id: int) -> None:
        raise AssertionError


@pytest.mark.parametrize("error", [Unavailable("500"), RateLimitError("slow down", retry_after=timedelta(minutes=30))])
async def test_advance_whose_policy_cannot_be_read_waits_as_for_any_trouble(scene: Setup, error: GitHubError) -> None:
    """P5: without the policy IMQ decides nothing and sends no other request, and the wait has a limit."""
    scene.engine = replace(scene.engine, policies=Unreadable(error))
    entry = await scene.advance(await scene.front(status=READY, base_tip="base-1"))
    assert entry is not None
    assert (entry.status, entry.run.github_failures) == (READY, 1 if isinstance(error, Unavailable) else 0)
    assert scene.github.asked == []


async def test_advance_whose_policy_can_never_be_read_leaves_in_the_end(scene: Setup) -> None:
    """P5: the limit of GitHub's faults holds for this one, too; a missing right is said at once."""
    scene.engine = replace(scene.engine, policies=Unreadable(Unavailable("500")))
    assert (
        await scene.advance(await scene.front(github_failures=9, github_failing_since=NOW - POLICY.outage_timeout))
        is None
    )
    scene.engine = replace(scene.engine, policies=Unreadable(Forbidden("no")))
    assert await scene.advance(await scene.front()) is None


async def test_advance_whose_policy_cannot_be_read_finds_an_empty_queue_at_rest(scene: Setup) -> None:
    """The queue is empty, so that no entry has to wait for GitHub."""
    scene.engine = replace(scene.engine, policies=Unreadable(Unavailable("500")))
    queue = await scene.front()
    async with scene.store.transaction() as tx:
        entry = await tx.entries.find(REPOSITORY.id, 1)
        assert entry is not None
        await tx.entries.remove(entry)
    assert await scene.advance(queue) is None


@pytest.mark.parametrize(
    ("tree", "parents", "base", "reads"),
    [
        ("tree-of-head-1", ("base-1", "head-1"), "main", False),
        ("tree-of-head-1", ("base-0", "head-1"), "release", True),
        ("tree-of-something", ("base-1", "head-1"), "main", True),
        ("tree-of-something", ("base-1",), "release", True),
    ],
)
async def test_landing_is_verified_where_the_commit_does_not_show_its_branch(
    scene: Setup, tree: str, parents: tuple[str, ...], base: str, reads: bool
) -> None:
    """P7: the tested tree on the tested base costs no request; any other commit may be on another branch."""
    scene.github.pull = pull(merged=True, open=False, base_branch=base)
    front = entry(status=READY, tested_tree="tree-of-head-1", base_tip="base-1", merge_requested_at=NOW)
    landed = Commit("landed-1", tree, parents)
    assert await landing.landed_on(cast(GitHub, scene.github), front, landed, Facts()) == base
    assert scene.github.asked == (["pull"] if reads else [])
    assert await landing.landed_on(cast(GitHub, scene.github), front, landed, Facts(pull=scene.github.pull)) == base
    assert len(scene.github.asked) == reads, "a read of the merged pull request is not repeated"
