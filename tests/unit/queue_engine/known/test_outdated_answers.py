"""Each kind of read, and the answers to it that contradict what is known."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from queue_engine.domain.errors import Invalid, NotFound, StaleRead
from queue_engine.domain.facts import Branch, Review, ReviewState, Snapshot
from queue_engine.domain.known_facts import (
    DEFAULT_BRANCH,
    NAMED,
    NO_COMMIT,
    SETTLED,
    CheckResult,
    Consent,
    ConversationChange,
    KnownName,
    MergeResult,
    Push,
    ReviewChange,
    of_branch,
    of_comment,
    of_commit,
    of_pull,
)
from queue_engine.domain.model import Repository
from queue_engine.domain.port import SnapshotRequest
from queue_engine.known.github_reads import GitHubReads
from tests.unit.queue_engine.examples import NOW, REPOSITORY, pull, report
from tests.unit.queue_engine.known.answers import MOVED, SECOND, Setup


@pytest.mark.parametrize("answer", [Branch("base-1", protected=True), None])
async def test_branch_that_is_known_to_be_elsewhere_is_outdated(scene: Setup, answer: Branch | None) -> None:
    """None, too: it was just pushed to."""
    scene.inner.answers["branch_tip"] = answer
    assert await scene.github.branch_tip(REPOSITORY, "main") == answer
    await scene.report((of_branch("main"), MOVED))
    with pytest.raises(StaleRead):
        await scene.github.branch_tip(REPOSITORY, "main")


async def test_branch_that_was_deleted_is_not_missed(scene: Setup) -> None:
    """Its last push says so."""
    await scene.report((of_branch("main"), Push(before="base-1", after=NO_COMMIT, at=NOW)))
    assert await scene.github.branch_tip(REPOSITORY, "main") is None
    scene.inner.answers["comparison"] = NotFound("Not Found", status=404)
    with pytest.raises(NotFound):
        await scene.github.comparison(REPOSITORY, "main", "head-1")


async def test_branch_that_is_still_missing_after_a_minute_is_believed_to_be(scene: Setup) -> None:
    """P5: the webhook of its deletion was lost."""
    await scene.report((of_branch("main"), MOVED))
    scene.clock.instant += NAMED - SECOND
    with pytest.raises(StaleRead):
        await scene.github.branch_tip(REPOSITORY, "main")
    scene.clock.instant += SECOND
    assert await scene.github.branch_tip(REPOSITORY, "main") is None


async def test_check_that_ended_is_missed_in_reports(scene: Setup) -> None:
    """So it is asked again after seconds, not after fifteen minutes."""
    scene.inner.answers["check_reports"] = ()
    await scene.report((of_commit("head-1"), CheckResult(id=5, name="ci", app_id=10, conclusion="success")))
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
    await scene.report((of_commit("head-1"), KnownName()))
    with pytest.raises(StaleRead if passes else Invalid):
        await scene.github.check_reports(REPOSITORY, "head-1", ())


@pytest.mark.parametrize("name", READS)
async def test_not_found_passes_with_time_for_what_was_just_named_and_for_nothing_else(scene: Setup, name: str) -> None:
    """GitHub sends webhooks before its API knows (test-infra #2229, highfive #190)."""
    subject, read = READS[name]
    scene.inner.answers[name] = NotFound("Not Found", status=404)
    with pytest.raises(NotFound):
        await read(scene.github)
    await scene.report((subject, MOVED if name == "branch_rules" else KnownName()))
    with pytest.raises(StaleRead, match="just named"):
        await read(scene.github)
    scene.clock.instant += NAMED
    with pytest.raises(NotFound):
        await read(scene.github)


async def test_configuration_is_read_at_the_known_tip(scene: Setup) -> None:
    """A commit never changes; a missing file of a commit that a replica lacks proves nothing."""
    github, inner = scene.github, scene.inner
    assert await github.configuration(REPOSITORY, "main") is None
    await scene.report((of_branch("main"), MOVED), (DEFAULT_BRANCH, MOVED))
    await github.configuration(REPOSITORY, "main")
    await github.configuration(REPOSITORY, None)
    assert [ref for _, ref in inner.asked] == ["main", "base-2", "base-2"]
    inner.answers["configuration"] = NotFound("No commit found for the ref base-2", status=404)
    with pytest.raises(StaleRead):
        await github.configuration(REPOSITORY, "main")
    assert await github.configuration(REPOSITORY, "gone") is None


async def test_configuration_of_an_organisation_is_read_at_the_known_tip_of_its_repository(scene: Setup) -> None:
    """It is the owner's repository `.github`, whose pushes webhooks report like any other's."""
    shared = Repository(77, REPOSITORY.owner, ".github", REPOSITORY.installation_id)
    await scene.report((DEFAULT_BRANCH, MOVED), repository_id=shared.id)
    await scene.github.organisation_configuration(REPOSITORY)
    async with scene.store.transaction() as tx:
        await tx.repositories.refresh(shared)
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
    await scene.report((of_pull(1), ReviewChange(author="ada", state="dismissed")))
    with pytest.raises(StaleRead, match="the review of ada is known to be dismissed"):
        await scene.github.reviews(REPOSITORY, 1)
    scene.inner.answers["reviews"] = (approved, dismissed)
    assert await scene.github.reviews(REPOSITORY, 1) == (approved, dismissed)
    await scene.report((of_pull(1), ReviewChange(author="ada", state="commented")))
    await scene.github.reviews(REPOSITORY, 1)
    scene.inner.answers["reviews"] = (approved, dismissed, replace(approved, state=ReviewState.COMMENTED))
    await scene.github.reviews(REPOSITORY, 1)
    scene.inner.answers["reviews"] = (approved,)
    scene.clock.instant += SETTLED
    assert await scene.github.reviews(REPOSITORY, 1) == (approved,)


async def test_snapshots_of_several_leave_out_those_that_are_outdated(scene: Setup) -> None:
    """P1: an old state, and an old tip of the base, decide nothing; the others need no second read."""
    first, second = Snapshot(pull(), base_tip="base-2"), Snapshot(replace(pull(), number=2), base_tip="base-1")
    third = Snapshot(replace(pull(), number=3), base_tip="base-2")
    scene.inner.answers["snapshots"] = {1: first, 2: second, 3: third}
    requests = [SnapshotRequest(number, "max", "head-1") for number in (1, 2, 3)]
    await scene.report((of_branch("main"), MOVED), (of_pull(3), MergeResult(sha="landed")))
    shown = await scene.github.snapshots(REPOSITORY, requests)
    assert set(shown) == {1}
    assert shown[1].pull == replace(first.pull, reported=())


async def test_snapshot_is_compared_in_each_of_its_parts(scene: Setup) -> None:
    """P1: base tip, head and reviews that are older than what is known decide nothing."""
    current = Snapshot(pull(), base_tip="base-2", behind=1, reviews=())
    scene.inner.answers["snapshot"] = current
    await scene.report((of_branch("main"), MOVED))
    assert await scene.github.snapshot(REPOSITORY, 1, login="max") == current
    scene.inner.answers["snapshot"] = replace(current, base_tip="base-1")
    with pytest.raises(StaleRead, match="moved on from base-1"):
        await scene.github.snapshot(REPOSITORY, 1, login="max")
    scene.inner.answers["snapshot"] = replace(current, reviews=(Review("ada", ReviewState.APPROVED, by_writer=True),))
    await scene.report((of_pull(1), ReviewChange(author="ada", state="dismissed")))
    with pytest.raises(StaleRead, match="the review of ada"):
        await scene.github.snapshot(REPOSITORY, 1, login="max")
    scene.inner.answers["snapshot"] = replace(current, open_conversations=("T1",))
    await scene.report((of_pull(1), ConversationChange(id="T1", resolved=True)))
    with pytest.raises(StaleRead, match="the conversation T1 is known to be resolved"):
        await scene.github.snapshot(REPOSITORY, 1, login="max")
    await scene.report((of_pull(1), ConversationChange(id="T1", resolved=False)))
    assert (await scene.github.snapshot(REPOSITORY, 1, login="max")).open_conversations == ("T1",)
    scene.inner.answers["snapshot"] = replace(current, open_conversations=())
    with pytest.raises(StaleRead, match="the conversation T1 is known to be open"):
        await scene.github.snapshot(REPOSITORY, 1, login="max")
    scene.inner.answers["snapshot"] = current
    assert await scene.github.snapshot(REPOSITORY, 1, login="max") == current


async def test_each_read_of_a_pull_request_has_what_webhooks_reported_of_it(scene: Setup) -> None:
    """P4: consent is judged by pushes and labels of the last minutes, too, however IMQ reads."""
    asked = Consent(at=NOW, by="max")
    await scene.report((of_pull(1), asked), (of_pull(2), Consent(at=NOW, by="mia")))
    scene.inner.answers["pull_request"] = pull()
    scene.inner.answers["snapshot"] = Snapshot(pull())
    scene.inner.answers["snapshots"] = {1: Snapshot(pull())}
    taken = await scene.github.snapshots(REPOSITORY, [SnapshotRequest(1, "max", "head-1")])
    assert taken[1].pull.reported == (asked,)
    assert (await scene.github.snapshot(REPOSITORY, 1, login="max")).pull.reported == (asked,)
    assert (await scene.github.pull_request(REPOSITORY, 1)).reported == (asked,)
