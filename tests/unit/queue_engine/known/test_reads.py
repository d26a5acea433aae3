"""The one port through which everybody reads: what contradicts what is known is neither judged nor remembered.

Covers `queue_engine/known/facts.py`, `queue_engine/known/reviews.py`, `queue_engine/domain/known_facts.py`,
`queue_engine/known/forwarding.py` and `queue_engine/store/operations/known.py`.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, cast

import pytest

from queue_engine.core.database.database import Database
from queue_engine.domain.errors import Invalid, NotFound, ReadLagError, StaleRead
from queue_engine.domain.facts import Branch, MergeMethod, Review, ReviewState, Snapshot
from queue_engine.domain.known_facts import (
    DEFAULT_BRANCH,
    KEPT,
    NAMED,
    NO_COMMIT,
    RULES,
    SETTLED,
    CheckResult,
    Fact,
    KnownName,
    Push,
    ReviewChange,
    Statement,
    of_branch,
    of_comment,
    of_commit,
    of_pull,
)
from queue_engine.domain.model import Repository
from queue_engine.domain.port import GitHubPorts
from queue_engine.known.cached import remembered
from queue_engine.known.forwarding import Forwarding
from queue_engine.known.reads import GitHubReads
from queue_engine.store import Store
from tests.unit.queue_engine.examples import NOW, REPOSITORY, comparison, pull, report, rules

SECOND = timedelta(seconds=1)
MOVED = Push(before="base-1", after="base-2", at=NOW)


class Clock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.instant = NOW

    def now(self) -> datetime:
        return self.instant

    async def sleep(self, duration: timedelta) -> None:
        raise AssertionError("a read does not sleep")


class GitHub:
    """Answers each call with what is set under its name, and raises what is an error; notes the arguments."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.asked: list[tuple[Any, ...]] = []
        self.forgotten = 0

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def call(*args: Any, **_: Any) -> Any:
            self.asked.append((name, *args[1:]))
            remembered(self._forget)
            answer = self.answers.get(name)
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call

    def forget_rules(self, repository_id: int) -> None:
        self.asked.append(("forget_rules", repository_id))

    @property
    def last(self) -> str:
        return str(self.asked[-1][0])

    def _forget(self) -> None:
        self.forgotten += 1


class Setup:
    """A GitHub, what is known of it, and the port between."""

    def __init__(self, database: Database) -> None:
        self.clock, self.inner = Clock(), GitHub()
        self.store = Store(database)
        self.github = GitHubReads(cast(GitHubPorts, self.inner), self.store, self.clock)

    async def tell(self, *facts: tuple[str, Statement], repository_id: int = REPOSITORY.id) -> None:
        """A webhook tells these facts now."""
        async with self.store.transaction() as tx:
            told = [Fact(subject=subject, told=each) for subject, each in facts]
            await tx.known.record(repository_id, told, self.clock.now())


@pytest.fixture
def scene(sqlite_database: Database) -> Setup:
    """Nothing is known yet."""
    return Setup(sqlite_database)


async def test_read_that_contradicts_what_is_known_is_raised_and_forgotten_by_caches(scene: Setup) -> None:
    """The conditional request of the next try must not bring the outdated answer back."""
    scene.inner.answers["comparison"] = comparison()
    assert await scene.github.comparison(REPOSITORY, "main", "head-1") == comparison()
    await scene.tell((of_branch("main"), MOVED))
    with pytest.raises(StaleRead, match="main is known to have moved on from base-1"):
        await scene.github.comparison(REPOSITORY, "main", "head-1")
    assert scene.inner.forgotten == 1


async def test_fact_told_while_the_answer_was_under_way_counts(scene: Setup) -> None:
    """What is known is looked up when the answer has come."""

    async def slow(*_: object) -> object:
        await scene.tell((of_branch("main"), MOVED))
        return comparison()

    cast(Any, scene.inner).comparison = slow
    with pytest.raises(StaleRead):
        await scene.github.comparison(REPOSITORY, "main", "head-1")


async def test_facts_contradict_nothing_of_other_subjects_and_nothing_for_ever(scene: Setup) -> None:
    """Another branch, another repository, a quarter of an hour later."""
    scene.inner.answers["comparison"] = comparison()
    await scene.tell((of_branch("release"), MOVED))
    await scene.tell((of_branch("main"), MOVED), repository_id=REPOSITORY.id + 1)
    await scene.tell((of_branch("main"), MOVED))
    scene.clock.instant += KEPT
    assert await scene.github.comparison(REPOSITORY, "main", "head-1") == comparison()
    async with scene.store.transaction() as tx:
        await tx.known.purge(NOW)
    async with scene.store.reading() as tx:
        assert await tx.known.about(REPOSITORY.id, [of_branch("main")], since=NOW - KEPT) == {}


@pytest.mark.parametrize("answer", [Branch("base-1", protected=True), None])
async def test_branch_that_is_known_to_be_elsewhere_is_outdated(scene: Setup, answer: Branch | None) -> None:
    """None, too: it was just pushed to."""
    scene.inner.answers["branch_tip"] = answer
    assert await scene.github.branch_tip(REPOSITORY, "main") == answer
    await scene.tell((of_branch("main"), MOVED))
    with pytest.raises(StaleRead):
        await scene.github.branch_tip(REPOSITORY, "main")


async def test_branch_that_was_deleted_is_not_missed(scene: Setup) -> None:
    """Its last push says so."""
    await scene.tell((of_branch("main"), Push(before="base-1", after=NO_COMMIT, at=NOW)))
    assert await scene.github.branch_tip(REPOSITORY, "main") is None
    scene.inner.answers["comparison"] = NotFound("Not Found", status=404)
    with pytest.raises(NotFound):
        await scene.github.comparison(REPOSITORY, "main", "head-1")


async def test_branch_that_is_still_missing_after_a_minute_is_believed_to_be(scene: Setup) -> None:
    """P5: the webhook of its deletion was lost."""
    await scene.tell((of_branch("main"), MOVED))
    scene.clock.instant += NAMED - SECOND
    with pytest.raises(StaleRead):
        await scene.github.branch_tip(REPOSITORY, "main")
    scene.clock.instant += SECOND
    assert await scene.github.branch_tip(REPOSITORY, "main") is None


async def test_check_that_ended_is_missed_in_reports(scene: Setup) -> None:
    """So it is asked again after seconds, not after fifteen minutes."""
    scene.inner.answers["check_reports"] = ()
    await scene.tell((of_commit("head-1"), CheckResult(id=5, name="ci", app_id=10, conclusion="success")))
    with pytest.raises(StaleRead):
        await scene.github.check_reports(REPOSITORY, "head-1", ())
    scene.inner.answers["check_reports"] = (report(run=5),)
    assert await scene.github.check_reports(REPOSITORY, "head-1", ()) == (report(run=5),)


READS: dict[str, tuple[str, Callable[[GitHubReads], Awaitable[object]]]] = {
    "pull_request": (of_pull(1), lambda github: github.pull_request(REPOSITORY, 1)),
    "commit": (of_commit("c"), lambda github: github.commit(REPOSITORY, "c")),
    "comparison": (of_commit("c"), lambda github: github.comparison(REPOSITORY, "main", "c")),
    "react": (of_comment(3), lambda github: github.react(REPOSITORY, 3, "eyes")),
    "branch_rules": (of_branch("main"), lambda github: github.branch_rules(REPOSITORY, "main")),
}
"""What a webhook names, and a read of it, by the port's name."""


@pytest.mark.parametrize(("words", "passes"), [("No commit found for SHA: head-1", True), ("Validation Failed", False)])
async def test_unprocessable_passes_with_time_for_a_commit_that_is_known_to_exist(
    scene: Setup, words: str, passes: bool
) -> None:
    """Of a commit that a replica does not know yet GitHub says 422, not 404 (homu #141, rultor #1344)."""
    scene.inner.answers["check_reports"] = Invalid(words, status=422)
    await scene.tell((of_commit("head-1"), KnownName()))
    with pytest.raises(StaleRead if passes else Invalid):
        await scene.github.check_reports(REPOSITORY, "head-1", ())


@pytest.mark.parametrize("name", READS)
async def test_not_found_passes_with_time_for_what_was_just_named_and_for_nothing_else(scene: Setup, name: str) -> None:
    """GitHub sends webhooks before its API knows (test-infra #2229, highfive #190)."""
    subject, read = READS[name]
    scene.inner.answers[name] = NotFound("Not Found", status=404)
    with pytest.raises(NotFound):
        await read(scene.github)
    await scene.tell((subject, MOVED if name == "branch_rules" else KnownName()))
    with pytest.raises(StaleRead, match="just named"):
        await read(scene.github)
    scene.clock.instant += NAMED
    with pytest.raises(NotFound):
        await read(scene.github)


async def test_configuration_is_read_at_the_known_tip(scene: Setup) -> None:
    """A commit never changes; of one that a replica lacks a missing file tells nothing."""
    github, inner = scene.github, scene.inner
    assert await github.configuration(REPOSITORY, "main") is None
    await scene.tell((of_branch("main"), MOVED), (DEFAULT_BRANCH, MOVED))
    await github.configuration(REPOSITORY, "main")
    await github.configuration(REPOSITORY, None)
    assert [ref for _, ref in inner.asked] == ["main", "base-2", "base-2"]
    inner.answers["configuration"] = NotFound("No commit found for the ref base-2", status=404)
    with pytest.raises(StaleRead):
        await github.configuration(REPOSITORY, "main")
    assert await github.configuration(REPOSITORY, "gone") is None


async def test_configuration_of_an_organisation_is_read_at_the_known_tip_of_its_repository(scene: Setup) -> None:
    """It is the owner's repository `.github`, whose pushes are told like any other's."""
    shared = Repository(77, REPOSITORY.owner, ".github", REPOSITORY.installation_id)
    await scene.tell((DEFAULT_BRANCH, MOVED), repository_id=shared.id)
    await scene.github.organisation_configuration(REPOSITORY)
    async with scene.store.transaction() as tx:
        await tx.queues.refresh_repository(shared)
    await scene.github.organisation_configuration(REPOSITORY)
    await scene.github.organisation_configuration(REPOSITORY, "reviewed")
    assert [commit for _, commit in scene.inner.asked] == [None, "base-2", "reviewed"]
    scene.inner.answers["organisation_configuration"] = NotFound("No commit found", status=404)
    with pytest.raises(StaleRead):
        await scene.github.organisation_configuration(REPOSITORY)


async def test_reviews_of_the_last_seconds_are_missed_in_a_list(scene: Setup) -> None:
    """An approval that was dismissed, or a change that was asked for: the newest verdict of its author counts."""
    approved = Review("ada", ReviewState.APPROVED, by_writer=True)
    dismissed = replace(approved, state=ReviewState.DISMISSED)
    scene.inner.answers["reviews"] = (approved,)
    await scene.tell((of_pull(1), ReviewChange(author="ada", state="dismissed")))
    with pytest.raises(StaleRead, match="the review of ada is known to be dismissed"):
        await scene.github.reviews(REPOSITORY, 1)
    scene.inner.answers["reviews"] = (approved, dismissed)
    assert await scene.github.reviews(REPOSITORY, 1) == (approved, dismissed)
    await scene.tell((of_pull(1), ReviewChange(author="ada", state="commented")))
    await scene.github.reviews(REPOSITORY, 1)
    scene.inner.answers["reviews"] = (approved, dismissed, replace(approved, state=ReviewState.COMMENTED))
    await scene.github.reviews(REPOSITORY, 1)
    scene.inner.answers["reviews"] = (approved,)
    scene.clock.instant += SETTLED
    assert await scene.github.reviews(REPOSITORY, 1) == (approved,)


async def test_snapshot_is_compared_in_each_of_its_parts(scene: Setup) -> None:
    """P1: base tip, head and reviews that are older than what is known decide nothing."""
    current = Snapshot(pull(), base_tip="base-2", behind=1, reviews=())
    scene.inner.answers["snapshot"] = current
    await scene.tell((of_branch("main"), MOVED))
    assert await scene.github.snapshot(REPOSITORY, 1, login="max") == current
    scene.inner.answers["snapshot"] = replace(current, base_tip="base-1")
    with pytest.raises(StaleRead, match="moved on from base-1"):
        await scene.github.snapshot(REPOSITORY, 1, login="max")
    scene.inner.answers["snapshot"] = replace(current, reviews=(Review("ada", ReviewState.APPROVED, by_writer=True),))
    await scene.tell((of_pull(1), ReviewChange(author="ada", state="dismissed")))
    with pytest.raises(StaleRead, match="the review of ada"):
        await scene.github.snapshot(REPOSITORY, 1, login="max")
    scene.inner.answers["snapshot"] = current
    assert await scene.github.snapshot(REPOSITORY, 1, login="max") == current


BELIEVED = {
    "check_suites": "its ends are told by the runs in it",
    "co_authors": "words of a commit",
    "deliveries": "asked for again at the next sweep",
    "find_check_run": "only looked for after an answer was lost",
    "find_comments": "only looked for after an answer was lost",
    "head_pushes": "a list that lags ends with another head, and proves nothing then",
    "is_guarded": "cached for hours, as webhooks tell of changed rules",
    "installations": "asked for again at the next sweep",
    "prepare_writes": "makes a token, and reads nothing",
    "is_in_use": "GitHub refuses to delete what is protected; asked after the landing only",
    "labeled_pull_requests": "each is read by itself before it is judged",
    "last_labeled_event": "read beside the pull request, which is compared",
    "organisation_configuration_is_reviewed": "what the file may do is limited whatever this says",
    "own_comments": "each is looked for again before it is edited",
    "own_login": "never changes",
    "permission": "no webhook that IMQ gets tells of it",
    "repository": "looked up when a call finds nothing under its name, and at sweeps",
    "repositories": "asked for again at the next sweep",
    "unsigned_commits": "GitHub itself refuses the merge",
    "workflow_runs": "read beside the reports, which are compared; cancelled twice they take no harm",
}
"""Reads that are compared with nothing, and why that is safe."""

WRITES = {
    "cancel_run",
    "create_check_run",
    "create_comment",
    "delete_branch",
    "delete_comment",
    "forget_rules",
    "forget_token",
    "redeliver",
    "rerun",
    "update_branch",
    "update_check_run",
    "update_comment",
}
"""Calls that change something, after which nothing certain is known."""


def test_every_call_of_the_port_is_compared_or_believed_for_a_reason() -> None:
    """Each read is compared with what is known, or the table says why nothing can contradict it."""
    calls = {name for name in vars(Forwarding) if not name.startswith("_")}
    assert calls - set(vars(GitHubReads)) - WRITES <= set(BELIEVED)
    assert not set(BELIEVED) & set(vars(GitHubReads))


async def test_rules_read_just_after_they_changed_are_not_remembered(scene: Setup) -> None:
    """Those of before would hold for two hours."""
    scene.inner.answers["branch_rules"] = rules("ci")
    await scene.tell((RULES, KnownName()))
    assert await scene.github.branch_rules(REPOSITORY, "main") == rules("ci")
    assert scene.inner.last == "forget_rules"
    scene.clock.instant += NAMED
    await scene.github.branch_rules(REPOSITORY, "main")
    assert scene.inner.last == "branch_rules"


async def test_own_writes_are_known_once_they_are_answered(scene: Setup) -> None:
    """A merge, and labels set and taken off; a write that failed tells nothing."""
    github, inner = scene.github, scene.inner
    inner.answers |= {"pull_request": pull(updated_at=NOW), "merge": "landed"}
    await github.remove_label(REPOSITORY, 1, "merge-queue")
    with pytest.raises(StaleRead, match="merge-queue"):
        await github.pull_request(REPOSITORY, 1)
    await github.add_label(REPOSITORY, 1, "merge-queue")
    assert await github.pull_request(REPOSITORY, 1) == pull(updated_at=NOW)
    assert await github.merge(REPOSITORY, 1, "head-1", MergeMethod.MERGE) == "landed"
    with pytest.raises(StaleRead, match="merged"):
        await github.pull_request(REPOSITORY, 1)
    inner.answers["commit"] = NotFound("Not Found", status=404)
    with pytest.raises(StaleRead):
        await github.commit(REPOSITORY, "landed")


async def test_listed_pull_requests_are_corrected(scene: Setup) -> None:
    """One that landed is listed as open still."""
    scene.inner.answers |= {"latest_pull_requests": (pull(), pull(number=2)), "merge": "landed"}
    await scene.github.merge(REPOSITORY, 1, "head-1", MergeMethod.MERGE)
    assert await scene.github.latest_pull_requests(REPOSITORY) == (replace(pull(), number=2),)


async def test_read_that_would_be_outdated_is_not_sent_while_github_lags(scene: Setup) -> None:
    """P7: after one 404 for what was just named, the next commit is asked for once, as late as the last one showed."""
    scene.inner.answers["commit"] = NotFound("Not Found")
    await scene.tell((of_commit("a"), KnownName()))
    with pytest.raises(StaleRead):
        await scene.github.commit(REPOSITORY, "a")
    scene.clock.instant += 3 * SECOND
    scene.inner.answers["commit"] = None
    await scene.github.commit(REPOSITORY, "a")
    await scene.tell((of_commit("b"), KnownName()))
    with pytest.raises(ReadLagError) as early:
        await scene.github.commit(REPOSITORY, "b")
    assert early.value.retry_after == 3 * SECOND
    assert len(scene.inner.asked) == 2
    scene.clock.instant += early.value.retry_after
    await scene.github.commit(REPOSITORY, "b")
    assert len(scene.inner.asked) == 3
