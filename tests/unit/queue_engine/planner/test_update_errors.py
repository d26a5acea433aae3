"""GitHub refuses an update: what IMQ concludes from facts and from GitHub's words."""

from datetime import timedelta

import pytest

from queue_engine.domain.facts import PullRequest
from queue_engine.domain.reasons import Reason
from queue_engine.planner.actions import Block, Dequeue, FactKind, ReadFact, Save, Wait
from queue_engine.planner.merge_errors import judge_refused_update
from queue_engine.rules.transitions import check_transition
from tests.unit.queue_engine.examples import (
    CHECKING,
    NOW,
    POLICY,
    REPOSITORY,
    UPDATING,
    comparison,
    entry,
    facts_with,
    pull,
)
from tests.unit.queue_engine.planner.merge_error_cases import WORKFLOWS


def test_refused_update_is_no_conflict_because_a_check_is_called_so() -> None:
    """GitHub allows the update soon: no person has to fix anything."""
    words = 'Repository rule violations found\n\nRequired status check "conflicts" is expected.\n\n'
    facts = facts_with(pull=pull(mergeable=None), comparison=comparison(behind=1))
    assert isinstance(judge_refused_update(entry(status=UPDATING), words, facts, POLICY, NOW), Wait)


FORK = {"head_repository": "eve/engine"}


@pytest.mark.parametrize(
    ("of", "words", "reason"),
    [
        (pull(), "Resource not accessible by integration", Reason.PERMISSION_MISSING),
        (pull(**FORK), "Resource not accessible by integration", Reason.UPDATE_REFUSED),
        (
            pull(**FORK, maintainer_can_modify=False),
            "Must have push access to the head repository",
            Reason.FORK_NOT_EDITABLE,
        ),
    ],
)
def test_forbidden_update_names_what_is_in_its_way(of: PullRequest, words: str, reason: Reason) -> None:
    """IMQ's own permission, or the fork's setting."""
    facts = facts_with(pull=of, comparison=comparison(behind=1), update_forbidden=True)
    assert judge_refused_update(entry(status=UPDATING), words, facts, POLICY, NOW) == Dequeue(reason, detail=words)


def test_update_of_a_fork_that_would_change_workflows_blocks_the_entry() -> None:
    """The base changed workflow files, and IMQ may not push such a change to a fork."""
    facts = facts_with(pull=pull(**FORK), comparison=comparison(behind=1), update_forbidden=True)
    judged = judge_refused_update(entry(status=UPDATING), WORKFLOWS[0], facts, POLICY, NOW)
    assert isinstance(judged, Block)
    check_transition(UPDATING, judged.entry.status)


def test_refused_update_is_judged_by_facts_before_words() -> None:
    """A new head, or nothing to update, is no refusal; the facts are read first."""
    words = "expected head sha didn\u2019t match current head ref."
    updating = entry(status=UPDATING, status_since=NOW - timedelta(seconds=1))
    assert judge_refused_update(updating, words, facts_with(), POLICY, NOW) == ReadFact(FactKind.PULL)
    assert judge_refused_update(updating, words, facts_with(pull=pull()), POLICY, NOW) == ReadFact(FactKind.COMPARISON)
    moved = judge_refused_update(updating, words, facts_with(pull=pull(head_sha="head-2")), POLICY, NOW)
    assert isinstance(moved, Save)
    assert moved.entry.run.new_head == "head-2"
    current = judge_refused_update(updating, words, facts_with(pull=pull(), comparison=comparison()), POLICY, NOW)
    assert isinstance(current, Save)
    assert current.entry.status is CHECKING


@pytest.mark.parametrize(
    ("mergeable", "words", "reason"),
    [
        (False, "no", Reason.CONFLICT),
        (None, "merge conflict between base and head", Reason.CONFLICT),
        (True, "Cannot update this protected ref.", Reason.UPDATE_REFUSED),
        (True, "Validation failed", Reason.UPDATE_REFUSED),
    ],
)
def test_refused_update_leaves_for_what_is_known(mergeable: bool | None, words: str, reason: Reason) -> None:
    """A conflict is known by GitHub's own computation or by its words; IMQ quotes any other refusal."""
    facts = facts_with(
        pull=pull(mergeable=mergeable, head_repository=REPOSITORY.full_name), comparison=comparison(behind=1)
    )
    asked = entry(status=UPDATING, polls=POLICY.update_refusals)
    judged = judge_refused_update(asked, words, facts, POLICY, NOW)
    assert isinstance(judged, Dequeue)
    assert judged.reason is reason


def test_refused_update_that_nothing_explains_is_asked_for_again() -> None:
    """P4: a replica may not show the push yet for which GitHub refuses."""
    words = "expected head sha didn\u2019t match current head ref."
    facts, asked = facts_with(pull=pull(), comparison=comparison(behind=1)), entry(status=UPDATING)
    judged = judge_refused_update(asked, words, facts, POLICY, NOW)
    assert isinstance(judged, Wait)
    assert (judged.run.polls, judged.until) == (1, NOW + POLICY.ask_again.base)


def test_update_refused_for_as_long_as_it_may_take_leaves_in_githubs_words() -> None:
    """P5, P6: GitHub can merge it, so that it is no conflict that GitHub still computes."""
    words = "Request cannot be processed at this time."
    facts = facts_with(pull=pull(mergeable=True), comparison=comparison(behind=1))
    asked = entry(status=UPDATING, github_failing_since=NOW - POLICY.timeouts.update)
    assert judge_refused_update(asked, words, facts, POLICY, NOW) == Dequeue(Reason.UPDATE_REFUSED, detail=words)
