"""When IMQ reads a red base again, and when it is red no more."""

from dataclasses import replace
from datetime import timedelta

from queue_engine.domain.facts import CheckState
from queue_engine.rules.blockers import base_checked
from tests.unit.queue_engine.examples import MINUTE, NOW, POLICY, SECOND, report
from tests.unit.queue_engine.rules.blocker_examples import RED

FAILED, PASSED, RUNNING = (report("ci", state) for state in (CheckState.FAILED, CheckState.PASSED, CheckState.PENDING))
OTHER = report("lint", CheckState.FAILED)
NAMESAKE_FAILED = report("ci", CheckState.FAILED, app_id=11)
NAMESAKE_PASSED = report("ci", app_id=11)
ANYBODYS = report("ci", CheckState.FAILED, app_id=None)


def test_base_that_was_polled_is_red_until_the_check_passes() -> None:
    """Other failing checks there have held up no entry, nor has another App's of its name.

    A run and a status of one App and name have both to pass.
    """
    for reports, red in [
        ([FAILED], True),
        ([RUNNING], True),
        ([PASSED, FAILED], True),
        ([PASSED], False),
        ([PASSED, OTHER], False),
        ([PASSED, NAMESAKE_FAILED], False),
        ([PASSED, ANYBODYS], False),
        ([FAILED, NAMESAKE_PASSED], True),
    ]:
        for tip in ["tip-1", "tip-2"]:
            known = base_checked(RED, tip, reports, POLICY, NOW)
            assert (known is not None) == red, (tip, reports, red)
            if known is not None:
                assert (known.check, known.tip, known.since, known.polls) == ("ci", tip, NOW, 1), (tip, reports, red)
                assert known.next_poll_at == NOW + POLICY.check_poll.base, (tip, reports, red)


def test_base_that_moved_and_on_which_nothing_reports_is_not_held_to_be_red_for_long() -> None:
    """Where checks run on pull requests only, nothing ever says that it is green."""
    waits = base_checked(RED, "tip-2", [OTHER], POLICY, NOW)
    assert waits == replace(RED, tip="tip-2", polls=1, next_poll_at=NOW + POLICY.checks.first_report)
    assert waits is not None
    assert base_checked(waits, "tip-2", [], POLICY, waits.next_poll_at) is None
    assert base_checked(waits, "tip-3", [], POLICY, waits.next_poll_at) is not None


def test_base_is_polled_ever_less_often() -> None:
    """A day of a red base costs few requests (P7)."""
    red, now, polls = RED, NOW, 0
    while now < NOW + timedelta(days=1):
        after = base_checked(red, "tip-1", [FAILED], POLICY, now)
        assert after is not None
        assert after.next_poll_at >= now + 10 * MINUTE - SECOND
        red, now, polls = after, after.next_poll_at, polls + 1
    assert polls <= 9
