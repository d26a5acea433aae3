"""Which checks the candidate of a run has to pass, and which any other head."""

from dataclasses import replace

import pytest

from queue_engine.config.model import CheckRules, Policy
from queue_engine.domain.facts import BranchRules, CheckReport, CheckState, RequiredCheck
from queue_engine.domain.model import Entry, EntryStatus
from queue_engine.domain.run import NOT_BEGUN
from queue_engine.rules.checks import expected_checks, head_checks, judge, needs_testing_label, of_now, run_checks
from tests.store.examples import changed
from tests.unit.queue_engine.examples import NOW
from tests.unit.queue_engine.examples import entry as made

TEST, E2E, BOUND = RequiredCheck("test", 7), RequiredCheck("e2e", None), RequiredCheck("e2e", 7)
POLICY = Policy(checks=CheckRules(queue_only=frozenset({E2E})))


def rules(*required: RequiredCheck) -> BranchRules:
    return BranchRules(frozenset(required), native_queue=False, linear_history=False)


@pytest.mark.parametrize(
    ("required", "of_head", "of_run"),
    [
        ([TEST], {TEST}, {TEST, E2E}),
        ([TEST, BOUND], {TEST}, {TEST, BOUND}),
        ([], set(), set()),
    ],
)
def test_queue_only_check_is_required_of_the_candidate_alone(
    required: list[RequiredCheck], of_head: set[RequiredCheck], of_run: set[RequiredCheck]
) -> None:
    """A rule of GitHub that requires the same check says by which App."""
    assert head_checks(rules(*required), POLICY) == of_head
    assert run_checks(rules(*required), POLICY) == of_run


def test_queue_only_check_of_an_app_is_required_beside_the_same_name_of_any() -> None:
    """P1: anyone with push access may set a status of this name."""
    bound = Policy(checks=CheckRules(queue_only=frozenset({BOUND})))
    assert run_checks(rules(E2E), bound) == {E2E, BOUND}


@pytest.mark.parametrize(
    ("reported", "state"),
    [
        ({"lint": "success"}, CheckState.PENDING),
        ({"lint": "success", "e2e": "skipped"}, CheckState.PENDING),
        ({"lint": "skipped", "e2e": "success"}, CheckState.PASSED),
        ({"lint": "failure", "e2e": "success"}, CheckState.FAILED),
    ],
)
def test_queue_only_check_that_was_skipped_did_not_run_where_nothing_is_required(
    reported: dict[str, str], state: CheckState
) -> None:
    """P1: all other reports count as well."""
    states = {"success": CheckState.PASSED, "skipped": CheckState.PASSED, "failure": CheckState.FAILED}
    reports = [
        CheckReport(name, 7, states[conclusion], conclusion, None, NOW, NOW, run_id=number)
        for number, (name, conclusion) in enumerate(reported.items())
    ]
    required = run_checks(rules(), POLICY)
    expected = expected_checks(NOT_BEGUN, required, POLICY)
    assert judge(required, of_now(NOT_BEGUN, reports, POLICY), (), expected).state is state


CHECKED = made(status=EntryStatus.CHECKING)
ABSENT = replace(CHECKED, run=replace(CHECKED.run, polls=CHECKED.run.polls + 1, pending_checks=("e2e",)))


@pytest.mark.parametrize(
    ("after", "needed"),
    [
        (replace(CHECKED, head_sha="updated"), True),
        (ABSENT, True),
        (replace(ABSENT, run=replace(ABSENT.run, pending_checks=("test",))), False),
        (replace(ABSENT, run=replace(ABSENT.run, polls=CHECKED.run.polls)), False),
        (changed(ABSENT, status=EntryStatus.READY), False),
    ],
)
def test_testing_label_is_needed_for_a_new_candidate_and_for_an_absent_check(after: Entry, needed: bool) -> None:
    """P7: a head on which all have passed gets no label, and a repository without such checks never."""
    assert needs_testing_label(CHECKED, after, POLICY) is needed
    assert not needs_testing_label(CHECKED, after, Policy())
