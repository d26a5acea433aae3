from dataclasses import replace
from typing import Any

import pytest

from queue_engine.config.model import BlockRules, Policy, QueuePermissions
from queue_engine.domain.facts import Permission, PullRequest
from queue_engine.domain.model import Entry, EntryStatus
from queue_engine.domain.reasons import Reason
from queue_engine.rules.consent import consent_lost, is_own_update
from queue_engine.rules.eligibility import Reject
from tests.unit.queue_engine.examples import (
    CHECKING,
    POLICY,
    UPDATING,
    WAITING,
    comparison,
    entry,
    pull,
)

WITHDRAWALS: list[tuple[dict[str, Any], Reason]] = [
    ({"merged": True, "open": False}, Reason.MERGED_ELSEWHERE),
    ({"open": False}, Reason.CLOSED),
    ({"base_branch": "release"}, Reason.BASE_CHANGED),
    ({"labels": frozenset({"docs"})}, Reason.LABEL_REMOVED),
    ({"labels": frozenset()}, Reason.LABEL_REMOVED),
    ({"draft": True}, Reason.DRAFT),
    ({"head_repository": None}, Reason.FORK_DELETED),
]


def _lost(queued: Entry, read: PullRequest, policy: Policy) -> Reason | None:
    lost = consent_lost(queued, read, policy)
    return None if lost is None else lost.reason


def test_consent_withdrawn_in_any_waiting_status_is_noticed() -> None:
    """Close, draft, base edit, label removal, a deleted fork: the same everywhere in the queue."""
    for changes, reason in WITHDRAWALS:
        for status in WAITING:
            assert _lost(entry(status=status), pull(**changes), POLICY) is reason, (status, changes, reason)


def test_consent_ends_in_any_waiting_status_when_the_configuration_keeps_it_out() -> None:
    """A blocking label or title set while it waits counts as at admission."""
    for policy, changes, reason in [
        (Policy(enabled=False), {}, Reason.BRANCH_NOT_SERVED),
        (Policy(blocking=BlockRules(labels=frozenset({"docs"}))), {}, Reason.BLOCKED_BY_LABEL),
        (Policy(blocking=BlockRules(titles=("(?i)do not",))), {"title": "DO NOT MERGE"}, Reason.BLOCKED_BY_TITLE),
    ]:
        for status in WAITING:
            assert _lost(entry(status=status), pull(**changes), policy) is reason, (status, policy, changes, reason)


def test_consent_is_not_judged_by_labels_of_a_configuration_that_cannot_be_read() -> None:
    """What its labels mean is not known; all that the configuration has no say in still counts."""
    broken = Policy(trigger_labels=("go",), enabled=False, fault="line 2: what?")
    assert _lost(entry(), pull(), broken) is None
    assert _lost(entry(), pull(draft=True), broken) is Reason.DRAFT
    assert _lost(entry(), pull(head_sha="evil"), broken) is Reason.HEAD_CHANGED


@pytest.mark.parametrize("status", WAITING)
def test_consent_to_an_unchanged_pull_request_stands(status: EntryStatus) -> None:
    """Title, assignees, other labels and mergeability are no matter of consent."""
    same = pull(title="Better words", assignees=("eve",), labels=frozenset({"merge-queue"}), mergeable=None)
    assert _lost(entry(status=status), same, POLICY) is None


def test_push_while_updating_is_left_to_the_proof() -> None:
    """The new head may be the update that was asked for."""
    assert _lost(entry(status=UPDATING), pull(head_sha="head-2"), POLICY) is None


def test_consent_is_for_the_bound_head_not_the_queued_one() -> None:
    """After an update, a push back to the queued head is a push like any other."""
    updated = entry(status=CHECKING, head_sha="head-2", updated_from="head-1")
    assert _lost(updated, pull(head_sha="head-2"), POLICY) is None
    assert _lost(updated, pull(head_sha="head-1"), POLICY) is Reason.HEAD_CHANGED


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"open": False, "merged": True, "draft": True}, Reason.MERGED_ELSEWHERE),
        ({"open": False, "labels": frozenset(), "head_repository": None}, Reason.CLOSED),
        ({"base_branch": "release", "labels": frozenset(), "head_sha": "evil"}, Reason.BASE_CHANGED),
        ({"labels": frozenset(), "draft": True, "head_sha": "evil"}, Reason.LABEL_REMOVED),
    ],
)
def test_consent_withdrawn_in_several_ways_gives_the_plainest_reason(changes: dict[str, Any], reason: Reason) -> None:
    """What ended matters more than how it looked when it ended."""
    assert _lost(entry(), pull(**changes), POLICY) is reason


def test_consent_lost_by_the_configuration_names_the_label_or_the_pattern() -> None:
    """People read which of their labels it was."""
    policy = Policy(blocking=BlockRules(labels=frozenset({"docs"})))
    blocked = pull(labels=frozenset({"docs", "merge-queue"}))
    assert consent_lost(entry(), blocked, policy) == Reject(Reason.BLOCKED_BY_LABEL, "docs")


@pytest.mark.parametrize(
    ("parents", "merge_base", "own"),
    [
        (("head-1", "base-2"), "base-2", True),
        # A push of the author's: one parent.
        (("head-1",), "base-2", False),
        ((), "base-2", False),
        # Evil second parent: a commit that the base does not have, so it is not the merge base.
        (("head-1", "evil"), "base-1", False),
        # Evil first parent: somebody else's work merged with the base.
        (("evil", "base-2"), "base-2", False),
        # The right parents in the wrong order: a merge of the head into the base is not an update of the head.
        (("base-2", "head-1"), "base-2", False),
        (("head-1", "base-2", "evil"), "base-2", False),
    ],
)
def test_own_update_is_proved_by_its_parents_in_order(parents: tuple[str, ...], merge_base: str, own: bool) -> None:
    """The old head first, a commit of the base second, nothing else."""
    update = comparison("head-2", base_tip="base-2", merge_base=merge_base, parents=parents)
    assert is_own_update("head-1", update, POLICY) is own


def test_own_update_is_still_proved_when_the_base_moved_on() -> None:
    """The second parent has to be of the base, not its present tip."""
    update = comparison("head-2", behind=3, base_tip="base-5", merge_base="base-2", parents=("head-1", "base-2"))
    assert is_own_update("head-1", update, POLICY)


def test_own_update_of_nothing_is_none() -> None:
    """An entry that was never updated has no update to prove."""
    assert not is_own_update(None, comparison(parents=("head-1", "base-1")), POLICY)


@pytest.mark.parametrize(
    ("permission", "made_by_imq", "own"),
    [
        (Permission.TRIAGE, False, True),
        (Permission.WRITE, False, True),
        (Permission.MAINTAIN, False, False),
        (Permission.MAINTAIN, True, True),
        (Permission.ADMIN, False, False),
        (Permission.ADMIN, True, True),
    ],
)
def test_own_update_needs_githubs_signature_where_write_is_not_enough_to_queue(
    permission: Permission, made_by_imq: bool, own: bool
) -> None:
    """P4: a writer can craft a merge with the right parents and any content; who may not queue it gains nothing."""
    update = comparison("head-2", base_tip="base-2", merge_base="base-2", parents=("head-1", "base-2"))
    update = replace(update, head=replace(update.head, made_by_imq=made_by_imq))
    assert is_own_update("head-1", update, Policy(who_may_queue=QueuePermissions(permission=permission))) is own
