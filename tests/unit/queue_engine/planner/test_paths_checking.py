"""The ways of an entry whose checks decide, and of one whose consent goes."""

from dataclasses import replace

import pytest

from queue_engine.domain.facts import CheckState
from queue_engine.domain.model import EntryStatus, UnmetRequirement
from queue_engine.domain.reasons import Reason
from queue_engine.planner.actions import Unmet, Wait
from tests.unit.queue_engine.examples import (
    CHECKING,
    MINUTE,
    NOW,
    POLICY,
    entry,
    pull,
    rules,
)
from tests.unit.queue_engine.planner.paths import WITHDRAWALS, Walk, checking, landed
from tests.unit.queue_engine.planner.scripted_github import GitHub

PASSED, FAILED, PENDING = CheckState.PASSED, CheckState.FAILED, CheckState.PENDING


def test_walk_whose_check_never_reports_waits_outside_and_says_which() -> None:
    """A workflow skipped by a path filter stays pending for ever."""
    walk = checking()
    while isinstance(action := walk.wait(), Wait):
        pass
    assert isinstance(action, Unmet)
    assert action.unmet == (UnmetRequirement(Reason.CHECK_ABSENT, "ci"),)
    assert walk.now - NOW == POLICY.check_poll.base


def test_walk_without_any_check_leaves_with_an_explanation() -> None:
    """Nothing required and nothing reported: not green, and not for two hours."""
    walk = Walk(GitHub(rules=rules()))
    while isinstance(walk.wait(), Wait):
        pass
    assert walk.left() is Reason.NO_CHECKS
    assert walk.now - NOW == POLICY.checks.first_report


def test_walk_without_required_checks_waits_for_late_workflows() -> None:
    """All known runs finished is not green before later ones had a moment to start."""
    walk = Walk(GitHub(rules=rules()))
    walk.github.say(PASSED)
    walk.go()
    assert walk.due == NOW + POLICY.checks.settle
    walk.github.reports["head-1"] += (replace(walk.github.reports["head-1"][0], name="late", state=PENDING),)
    walk.wait()
    assert walk.entry.status is CHECKING
    walk.github.say(PASSED)
    assert landed(walk.wait())


def test_walk_of_a_suspect_entry_reads_before_anything_else() -> None:
    """In every waiting status, one request."""
    for changes, reason in WITHDRAWALS:
        for status in ["pending", "updating", "checking", "ready"]:
            walk = Walk(GitHub(pull=pull(**changes)), entry(status=EntryStatus(status), needs_refetch=True))
            assert walk.left() is reason, (status, changes, reason)
            assert walk.asked == ["snapshot" if status == "ready" else "pull"], (status, changes, reason)


@pytest.mark.parametrize("status", ["pending", "updating", "checking", "ready"])
def test_walk_of_an_entry_suspected_wrongly_continues(status: str) -> None:
    """One read refutes the suspicion."""
    walk = Walk(GitHub(), entry(status=EntryStatus(status), needs_refetch=True, next_poll_at=NOW + MINUTE))
    walk.go()
    assert walk.asked.count("snapshot" if status == "ready" else "pull") == 1
    assert not walk.entry.needs_refetch
