"""What a pull request waits for outside its queue, and what ends that wait."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from queue_engine.config.model import Policy
from queue_engine.domain.facts import FailingCheck, Permission, Snapshot, StackPosition
from queue_engine.domain.model import Entry, UnmetRequirement
from queue_engine.domain.policy import NotReadyPolicy
from queue_engine.domain.reasons import Reason
from queue_engine.rules.eligibility import Admit, Answer, Consent, NotReady, Reject, RequiredFacts, check_eligibility
from queue_engine.rules.readiness import (
    is_read_due,
    judge_readiness,
    seems_changed,
    seems_freed,
    wait_ended,
    waits_for_check,
)
from tests.support.webhooks import a_webhook
from tests.unit.queue_engine.examples import NOW, POLICY, REPOSITORY, entry, pull, rules

REFUSING = replace(POLICY, when_not_ready=NotReadyPolicy.REFUSE)
DRAFT, UNAPPROVED = UnmetRequirement(Reason.DRAFT), UnmetRequirement(Reason.APPROVAL_MISSING, "0 of 1")
CI = FailingCheck("ci", "https://ci.example/1", ("ci", "lint"))
FAILED = UnmetRequirement(Reason.CHECKS_FAILED, failing=(CI,))
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)


def outside(**changes: Any) -> Entry:
    """An entry that waits outside its queue because its pull request is a draft."""
    return entry(unmet=(DRAFT,), read_at=NOW, enqueued_at=NOW, **changes)


def asked(changes: dict[str, Any], *, policy: Policy = POLICY, **demands: Any) -> Answer:
    """Check the eligibility of pull request 1 with these changes, without any review."""
    consent = Consent("max", Permission.WRITE, "head-1", "main")
    facts = RequiredFacts(rules("ci", **demands), ())
    return check_eligibility(pull(**changes), consent, facts, repository=REPOSITORY, policy=policy)


def test_pull_request_waits_for_all_that_may_still_come() -> None:
    """The draft is first, since few people review drafts."""
    assert asked({"draft": True}, approvals=1) == NotReady((DRAFT, UNAPPROVED))
    assert asked({}, approvals=1) == NotReady((UNAPPROVED,))
    assert asked({}) == Admit()


def test_pull_request_above_another_one_waits_for_that_one_first_and_for_the_end_of_the_draft_too() -> None:
    """The comment names both."""
    facts = RequiredFacts(rules("ci"), (), stack=StackPosition(12, "topic", "main"))
    answer = check_eligibility(
        pull(draft=True),
        Consent("max", Permission.WRITE, "head-1", "main"),
        facts,
        repository=REPOSITORY,
        policy=POLICY,
    )
    assert answer == NotReady((UnmetRequirement(Reason.STACKED_ABOVE, "#12, of the branch topic"), DRAFT))


def test_failed_check_is_waited_for_after_all_that_people_review() -> None:
    """With `when_not_ready: refuse` it joins the queue as before, and is tested there."""
    facts = RequiredFacts(rules("ci", approvals=1), (), failing=(CI,))
    consent = Consent("max", Permission.WRITE, "head-1", "main")
    answer = check_eligibility(pull(), consent, facts, repository=REPOSITORY, policy=POLICY)
    assert answer == NotReady((UNAPPROVED, FAILED))
    refused = check_eligibility(pull(), consent, replace(facts, reviews=None), repository=REPOSITORY, policy=REFUSING)
    assert refused == Admit()


@pytest.mark.parametrize(
    ("required", "opened", "lacks"), [(True, ("T1",), True), (True, (), False), (False, ("T1",), False)]
)
def test_open_conversation_is_waited_for_where_a_rule_requires_that_none_is_open(
    required: bool, opened: tuple[str, ...], lacks: bool
) -> None:
    """With `when_not_ready: refuse` it is refused."""
    facts = RequiredFacts(rules("ci", conversations=required), (), open_conversations=opened)
    consent = Consent("max", Permission.WRITE, "head-1", "main")
    answers = [
        check_eligibility(pull(), consent, facts, repository=REPOSITORY, policy=policy) for policy in (POLICY, REFUSING)
    ]
    lacked = Reason.CONVERSATIONS_UNRESOLVED
    assert answers == ([NotReady((UnmetRequirement(lacked),)), Reject(lacked)] if lacks else [Admit(), Admit()])


def test_pull_request_is_refused_for_the_first_of_it_where_the_configuration_says_so() -> None:
    """`when_not_ready: refuse` restores what IMQ did before."""
    assert asked({"draft": True}, policy=REFUSING, approvals=1) == Reject(Reason.DRAFT)
    assert asked({}, policy=REFUSING, approvals=1) == Reject(Reason.APPROVAL_MISSING, "0 of 1")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"mergeable": False}, Reason.CONFLICT),
        ({"head_repository": None}, Reason.FORK_DELETED),
        ({"head_sha": "evil"}, Reason.HEAD_CHANGED),
        ({"base_branch": "release"}, Reason.BASE_CHANGED),
    ],
)
def test_draft_is_refused_for_what_does_not_come_by_itself(changes: dict[str, Any], reason: Reason) -> None:
    """To wait would not help there."""
    answer = asked({"draft": True} | changes, policy=POLICY)
    assert isinstance(answer, Reject)
    assert answer.reason is reason


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"draft": True}, None),
        ({"labels": frozenset[str]()}, Reason.LABEL_REMOVED),
        ({"open": False}, Reason.CLOSED),
        ({"open": False, "merged": True}, Reason.MERGED_ELSEWHERE),
        ({"base_branch": "release"}, Reason.BASE_CHANGED),
        ({"head_sha": "evil"}, Reason.HEAD_CHANGED),
    ],
)
def test_wait_ends_when_consent_is_withdrawn(changes: dict[str, Any], reason: Reason | None) -> None:
    """P4: but for the draft, consent is as strict as in the queue."""
    found = wait_ended(outside(), pull(**changes), POLICY, NOW)
    assert (found and found.reason) is reason


def test_wait_has_a_limit_and_says_what_the_pull_request_lacked() -> None:
    """P5: while the configuration cannot be read, its limit is unknown."""
    end = NOW + POLICY.timeouts.ready
    assert wait_ended(outside(), pull(draft=True), POLICY, end - MINUTE) is None
    assert wait_ended(outside(), pull(draft=True), POLICY, end) == Reject(Reason.NOT_READY_TIMED_OUT, "draft")
    assert wait_ended(outside(), pull(draft=True), replace(POLICY, fault="line 1"), end) is None


def test_ready_pull_request_joins_only_if_its_person_may_still_queue() -> None:
    """P4: the permission is that of this moment."""
    facts = RequiredFacts(rules("ci"))
    assert judge_readiness(outside(), Snapshot(pull(), Permission.WRITE), facts, POLICY) == Admit()
    lost = judge_readiness(outside(), Snapshot(pull(), Permission.TRIAGE), facts, POLICY)
    assert lost == Reject(Reason.LABEL_WITHOUT_RIGHT)
    assert judge_readiness(outside(), Snapshot(pull(), None), facts, POLICY) == lost


@pytest.mark.parametrize(
    ("changes", "reason"),
    [({"head_sha": "evil"}, Reason.HEAD_CHANGED), ({"base_branch": "release"}, Reason.BASE_CHANGED)],
)
def test_ready_pull_request_joins_only_as_it_was_asked_for(changes: dict[str, Any], reason: Reason) -> None:
    """P4: the head and the base branch are those of the entry, and not those of the read."""
    taken = Snapshot(pull(**changes), Permission.WRITE)
    assert judge_readiness(outside(), taken, RequiredFacts(rules("ci")), POLICY) == Reject(reason)


def test_sweep_reads_what_changed_since_the_last_read_alone() -> None:
    """P7: clocks may differ by a minute; a closed one, or one whose time is over, is read in any case."""
    still, changed = pull(draft=True, updated_at=NOW - 2 * MINUTE), pull(draft=True, updated_at=NOW)
    assert not seems_changed(outside(), still, POLICY, NOW)
    assert seems_changed(outside(), changed, POLICY, NOW)
    assert seems_changed(outside(), replace(still, open=False), POLICY, NOW)
    assert seems_changed(outside(), still, POLICY, NOW + POLICY.timeouts.ready)


ABOVE = UnmetRequirement(Reason.STACKED_ABOVE, "#7, of the branch bottom")


@pytest.mark.parametrize(
    ("unmet", "listed", "changed"),
    [
        (ABOVE, {"base_branch": "bottom"}, False),
        (ABOVE, {"base_branch": "bottom", "stack_base": "main"}, False),
        (ABOVE, {"base_branch": "bottom", "stack_base": "release"}, True),
        (ABOVE, {"base_branch": "main"}, True),
        (ABOVE, {"base_branch": "other"}, True),
        (UnmetRequirement(Reason.STACKED_ABOVE), {"base_branch": "bottom", "stack_base": "main"}, False),
        (UnmetRequirement(Reason.STACKED_ABOVE), {"base_branch": "bottom"}, True),
        (UnmetRequirement(Reason.STACK_LANDED, ABOVE.detail), {"base_branch": "bottom"}, False),
        (UnmetRequirement(Reason.STACK_LANDED, ABOVE.detail), {"base_branch": "main"}, True),
    ],
)
def test_sweep_reads_the_upper_pull_request_of_a_stack_once_its_base_branch_changed(
    unmet: UnmetRequirement, listed: dict[str, Any], changed: bool
) -> None:
    """P7: until then its own base branch is another one than that of its entry."""
    waiting = replace(outside(), unmet=(unmet,))
    assert seems_changed(waiting, pull(updated_at=NOW - 2 * MINUTE, **listed), POLICY, NOW) is changed


@pytest.mark.parametrize(
    ("unmet", "listed", "whole", "later", "freed"),
    [
        (ABOVE, {7}, True, DAY, False),
        (ABOVE, set(), True, MINUTE, True),
        (ABOVE, set(), False, MINUTE, False),
        (ABOVE, set(), False, DAY, True),
        (UnmetRequirement(Reason.STACK_LANDED, ABOVE.detail), set(), True, DAY, False),
        (DRAFT, set(), True, DAY, False),
    ],
)
def test_sweep_reads_the_upper_pull_request_of_a_stack_when_the_lower_one_is_not_open(
    unmet: UnmetRequirement, listed: set[int], whole: bool, later: timedelta, freed: bool
) -> None:
    """P2: no webhook may have said so; of a long list, which may lack it, the sweep believes nothing for a day."""
    assert seems_freed(replace(outside(), unmet=(unmet,)), listed, NOW + later, whole=whole) is freed


def test_unlisted_pull_request_is_read_once_a_day() -> None:
    """P7: the list has those that changed last."""
    assert not is_read_due(outside(), NOW + DAY - MINUTE)
    assert is_read_due(outside(), NOW + DAY)


@pytest.mark.parametrize(
    ("changes", "waits"),
    [
        ({}, True),
        ({"head_sha": "head-2"}, False),
        ({"check_name": "lint"}, True),
        ({"check_name": "c"}, False),
    ],
)
def test_report_wakes_the_entry_that_waits_for_this_check_of_this_head(changes: dict[str, Any], waits: bool) -> None:
    """P7: other reports on the head cost no request."""
    webhook = a_webhook("check", **{"check_name": "ci", "passed": True, **changes})
    assert waits_for_check(entry(unmet=(DRAFT, FAILED)), webhook) is waits
    assert not waits_for_check(outside(), webhook)


@pytest.mark.parametrize("lacked", [FAILED, UnmetRequirement(Reason.CONVERSATIONS_UNRESOLVED)])
def test_entry_with_failed_checks_or_open_conversations_is_read_once_an_hour(lacked: UnmetRequirement) -> None:
    """P2: no list shows that a check passed or a conversation was resolved, and the webhook may be lost."""
    waiting = replace(outside(), unmet=(lacked,))
    still = pull(updated_at=NOW - 2 * MINUTE)
    assert not seems_changed(waiting, still, POLICY, NOW + 59 * MINUTE)
    assert seems_changed(waiting, still, POLICY, NOW + 60 * MINUTE)


def test_what_is_lacked_survives_the_database() -> None:
    """Each as a reason and a detail, with the checks that fail, and with who caused it."""
    lacked = (DRAFT, UNAPPROVED, FAILED, UNAPPROVED.caused("by ada"), FAILED.caused("by ada"))
    assert UnmetRequirement.all_of(json.loads(json.dumps([each.as_data() for each in lacked]))) == lacked
