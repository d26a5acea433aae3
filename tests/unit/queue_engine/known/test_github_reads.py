"""The one port through which everybody reads: what contradicts what is known is neither judged nor remembered."""

from dataclasses import replace
from typing import Any, cast
from unittest.mock import Mock

import pytest

from queue_engine.domain.errors import NotFound, ReadLagError, StaleRead
from queue_engine.domain.facts import MergeMethod
from queue_engine.domain.known_facts import KEPT, NAMED, RULES, KnownName, of_branch, of_commit
from queue_engine.domain.port import GitHubPorts, MergeState, PendingMerge
from queue_engine.known.github_reads import GitHubReads
from queue_engine.known.own_writes import Forwarding, OwnWrites
from tests.unit.queue_engine.examples import NOW, REPOSITORY, comparison, pull, rules
from tests.unit.queue_engine.known.answers import MOVED, SECOND, Setup


async def test_read_that_contradicts_what_is_known_is_raised_and_forgotten_by_caches(scene: Setup) -> None:
    """The conditional request of the next try must not bring the outdated answer back."""
    scene.inner.answers["comparison"] = comparison()
    assert await scene.github.comparison(REPOSITORY, "main", "head-1") == comparison()
    await scene.report((of_branch("main"), MOVED))
    with pytest.raises(StaleRead, match="main is known to have moved on from base-1"):
        await scene.github.comparison(REPOSITORY, "main", "head-1")
    assert scene.inner.forgotten == 1


async def test_fact_reported_while_the_answer_was_under_way_counts(scene: Setup) -> None:
    """IMQ reads the known facts when the answer has come."""

    async def slow(*_: object) -> object:
        await scene.report((of_branch("main"), MOVED))
        return comparison()

    cast(Any, scene.inner).comparison = slow
    with pytest.raises(StaleRead):
        await scene.github.comparison(REPOSITORY, "main", "head-1")


async def test_facts_contradict_nothing_of_other_subjects_and_nothing_for_ever(scene: Setup) -> None:
    """Another branch, another repository, a quarter of an hour later."""
    scene.inner.answers["comparison"] = comparison()
    await scene.report((of_branch("release"), MOVED))
    await scene.report((of_branch("main"), MOVED), repository_id=REPOSITORY.id + 1)
    await scene.report((of_branch("main"), MOVED))
    scene.clock.instant += KEPT
    assert await scene.github.comparison(REPOSITORY, "main", "head-1") == comparison()
    async with scene.store.transaction() as tx:
        await tx.known.purge(NOW)
    async with scene.store.reading() as tx:
        assert await tx.known.about(REPOSITORY.id, [of_branch("main")], since=NOW - KEPT) == {}


BELIEVED = {
    "login_of": "the name of an account, which nothing else reports",
    "reports_elsewhere": "checks of other heads: one that is there proves that the check exists",
    "branch_pushes": "a list that lags ends with another tip, and proves nothing then",
    "candidate_branches": "a branch is deleted only at the tip that is proved",
    "cached_rules": "sends no request: rules that `branch_rules` read, for which a pass would ask no more",
    "cancelled_for": "words for a departure, and decides nothing",
    "check_suites": "its ends are told by the runs in it",
    "commit_texts": "words of a commit",
    "deliveries": "asked for again at the next sweep",
    "failed_tests": "names of tests that failed in a job that has ended, for people",
    "find_check_run": "only looked for after an answer was lost",
    "find_comments": "looked for after an answer was lost; the sweep edits one that it missed",
    "has_label": "read after a label that queued is gone; an older state has it, and then nothing follows",
    "head_pushes": "a list that lags ends with another head, and proves nothing then",
    "history": "names who made a change that the pull request shows already; an older state names no one",
    "is_guarded": "cached for hours, as webhooks tell of changed rules",
    "installations": "asked for again at the next sweep",
    "prepare_writes": "makes a token, and reads nothing",
    "is_in_use": "GitHub refuses to delete what is protected; asked after the landing only",
    "job_labels": "what the runner of a job is called, for its price",
    "labeled_pull_requests": "each is read by itself before it is judged",
    "last_labeled_event": "read beside the pull request, which is compared",
    "not_started": "what GitHub wrote of a job that has ended",
    "organisation_configuration_is_reviewed": "what the file may do is limited whatever this says",
    "own_check_runs": "compared only with what IMQ wrote minutes before",
    "own_comments": "each is looked for again before it is edited",
    "own_login": "never changes",
    "paths": "read at a commit, whose files never change",
    "permission": "no webhook that IMQ gets tells of it",
    "ref_target": "GitHub refuses to move the notes backwards, and an expired ref that was moved stays",
    "refuses_outdated": "rules as `branch_rules` caches them, and whether IMQ may bypass a ruleset; GitHub refuses",
    "repository": "looked up when a call finds nothing under its name, and at sweeps",
    "repositories": "asked for again at the next sweep",
    "stack_members": "judged again when one of them closes, or the pull request gets another base branch",
    "texts": "read at a commit, whose files never change",
    "unsigned_commits": "GitHub itself refuses the merge",
    "workflow_files": "read at a commit, whose files never change",
    "workflow_runs": "read beside the reports, which are compared; cancelled twice they take no harm",
}
"""Reads that are compared with nothing, and why that is safe."""

WRITES = {
    "cancel_run",
    "close_pull_request",
    "create_branch",
    "create_check_run",
    "create_comment",
    "create_commit",
    "create_label",
    "create_ref",
    "delete_branch",
    "delete_comment",
    "delete_ref",
    "disable_auto_merge",
    "dispatch_workflow",
    "expire_rules",
    "forget_rules",
    "forget_token",
    "merge_into",
    "open_draft",
    "redeliver",
    "rerun",
    "revert_pull_request",
    "update_branch",
    "update_check_run",
    "update_comment",
    "update_refs",
    "write_notes",
}
"""Calls that change something, after which nothing certain is known."""


CALLS = sorted({name for port in GitHubPorts.__mro__ for name in vars(port) if not name.startswith("_")})


@pytest.mark.parametrize("call", CALLS)
def test_every_call_of_the_ports_is_handed_on_with_its_arguments(call: str) -> None:
    """What a layer does not answer itself, the next one is asked, in the same words."""
    inner = Mock()
    answer = getattr(Forwarding(inner), call)(REPOSITORY, 1, some=2)  # type: ignore[abstract]
    getattr(inner, call).assert_called_once_with(REPOSITORY, 1, some=2)
    assert answer is getattr(inner, call).return_value


def test_every_call_of_the_port_is_compared_or_believed_for_a_reason() -> None:
    """Each read is compared with what is known, or the table says why nothing can contradict it."""
    calls = set(CALLS)
    compared = {*vars(GitHubReads), *vars(OwnWrites)}
    assert calls - compared - WRITES <= set(BELIEVED)
    assert not set(BELIEVED) & compared


@pytest.mark.parametrize(("kept", "asked"), [(True, 0), (False, 1)])
async def test_rules_read_just_after_they_changed_are_kept_for_seconds(scene: Setup, kept: bool, asked: int) -> None:
    """P1: those of before would hold for two hours; what decides a landing reads them afresh."""
    scene.inner.answers["branch_rules"] = rules("ci")
    await scene.report((RULES, KnownName()))
    assert await scene.github.branch_rules(REPOSITORY, "main", kept=kept) == rules("ci")
    assert scene.inner.last == "expire_rules"
    assert [each[0] for each in scene.inner.asked].count("forget_rules") == asked
    scene.clock.instant += NAMED
    await scene.github.branch_rules(REPOSITORY, "main")
    assert scene.inner.last == "branch_rules"


async def test_own_writes_are_known_once_they_are_answered(scene: Setup) -> None:
    """A merge, and labels set and removed; a write that failed proves nothing."""
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


@pytest.mark.parametrize("call", ["merge_in_background", "pending_merge"])
async def test_merge_in_the_background_is_known_once_github_answers_that_it_landed(scene: Setup, call: str) -> None:
    """No answer counts before, and none without the commit."""
    github, inner = scene.github, scene.inner
    how = ("uuid",) if call == "pending_merge" else ("head-1", MergeMethod.MERGE)
    inner.answers["pull_request"] = pull(updated_at=NOW)
    for pending in (PendingMerge(MergeState.PENDING, sha="landed"), PendingMerge(MergeState.MERGED)):
        inner.answers[call] = pending
        assert await getattr(github, call)(REPOSITORY, 1, *how) == pending
        await github.pull_request(REPOSITORY, 1)
    inner.answers[call] = PendingMerge(MergeState.MERGED, sha="landed")
    await getattr(github, call)(REPOSITORY, 1, *how)
    with pytest.raises(StaleRead, match="merged"):
        await github.pull_request(REPOSITORY, 1)


async def test_listed_pull_requests_are_corrected(scene: Setup) -> None:
    """One that landed is listed as open still."""
    scene.inner.answers |= {"latest_pull_requests": (pull(), pull(number=2)), "merge": "landed"}
    await scene.github.merge(REPOSITORY, 1, "head-1", MergeMethod.MERGE)
    assert await scene.github.latest_pull_requests(REPOSITORY) == (replace(pull(), number=2),)


async def test_read_that_would_be_outdated_is_not_sent_while_github_lags(scene: Setup) -> None:
    """P7: after one 404 for what was just named, the next commit is asked for once, as late as the last one showed."""
    scene.inner.answers["commit"] = NotFound("Not Found")
    await scene.report((of_commit("a"), KnownName()))
    with pytest.raises(StaleRead):
        await scene.github.commit(REPOSITORY, "a")
    scene.clock.instant += 3 * SECOND
    scene.inner.answers["commit"] = None
    await scene.github.commit(REPOSITORY, "a")
    await scene.report((of_commit("b"), KnownName()))
    with pytest.raises(ReadLagError) as early:
        await scene.github.commit(REPOSITORY, "b")
    assert early.value.retry_after == 3 * SECOND
    assert len(scene.inner.asked) == 2
    scene.clock.instant += early.value.retry_after
    await scene.github.commit(REPOSITORY, "b")
    assert len(scene.inner.asked) == 3
