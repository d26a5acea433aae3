"""Verdicts, by table: what the checks of a pull request say, which are waited for, and what each wait ends in."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from queue_engine.config.model import CheckRules
from queue_engine.domain.errors import InvariantError
from queue_engine.domain.facts import CheckReport, CheckState, CommitFacts, RequiredCheck
from queue_engine.domain.reasons import Reason
from queue_engine.domain.run import Run
from queue_engine.planner.actions import Dequeue, FactKind, Facts, ReadFact, Update, Wait
from queue_engine.planner.check_outcome import failure_of
from queue_engine.planner.decide import decide
from queue_engine.rules.checks import BREAKDOWNS
from queue_engine.rules.transitions import check_queue
from tests.store.examples import changed
from tests.unit.queue_engine.examples import (
    CHECKING,
    HOUR,
    MINUTE,
    NOW,
    PENDING,
    POLICY,
    READY,
    SECOND,
    UPDATING,
    comparison,
    entry,
    facts_with,
    judged_run,
    pull,
    report,
    rules,
    workflow_run,
)
from tests.unit.queue_engine.planner.outcome_cases import (
    AGAIN,
    CI_OF_OURS,
    LATE,
    OTHERS,
    RED_CI,
    Case,
    case,
    demanded,
    failed,
    in_words,
    passed,
    running,
)

JOB: Any = {"job_of": 7}


NO_RERUN: Any = {"reruns": 0}


REQUIRED_CHECKS = [
    case("required and passed", ("ci",), (passed(),), "ready"),
    case("required and skipped", ("ci",), (passed(conclusion="skipped"),), "ready"),
    case("required and neutral", ("ci",), (passed(conclusion="neutral"),), "ready"),
    case("required and absent", ("ci",), (), "wait for ci"),
    case("required and absent, others have passed", ("ci",), (passed("lint"),), "outside, check_absent: ci"),
    case("required and running", ("ci",), (running(),), "wait for ci"),
    case("all of several are awaited", ("ci", "lint", "unit"), (passed("lint"),), "outside, check_absent: ci, unit"),
    case("what is not required may fail", ("ci",), (passed(), failed("lint")), "ready"),
    case("what is not required may hang", ("ci",), (passed(), running("nightly")), "ready"),
    case("the name in another case is another check", ("ci",), (passed("CI"),), "outside, check_absent: ci"),
    case("demanded by the configuration alone", (), (), "wait for ci", configured=demanded("ci")),
    case("demanded by both", ("ci",), (passed(),), "outside, check_absent: lint", configured=demanded("lint")),
    case("both passed", ("ci",), (passed(), passed("lint")), "ready", configured=demanded("lint")),
    case("IMQ's own check is required too", ("ci", "IMQ"), (passed(),), "ready", at={"own_check_required": True}),
    case(
        "a check of IMQ's App that it never reports",
        ("ci", RequiredCheck("merge", 99)),
        (passed(),),
        "leave, own_check_required: merge",
        own_app=99,
    ),
    case("bound to an App, which passed", (CI_OF_OURS,), (passed(),), "ready"),
    case(
        "bound to an App, another passed",
        (CI_OF_OURS,),
        (passed(app=OTHERS),),
        "outside, check_absent: ci (required from the App with the id 10, reported by somebody else)",
    ),
    case("bound to an App, another failed", (CI_OF_OURS,), (passed(), failed(app=OTHERS)), "ready"),
    case("bound to no App, one of two runs", ("ci",), (passed(), running(app=OTHERS)), "wait for ci"),
    case("run and status of one name, the status runs", ("ci",), (passed(), running(app=None)), "wait for ci"),
    case("run and status of one name, both passed", ("ci",), (passed(), passed(app=None)), "ready"),
    case("an ignored check that is required counts", ("ci",), (running(),), "wait for ci", ignored=("*",)),
]


NOTHING_REQUIRED = [
    case("no report yet", (), (), "wait for a report"),
    case("one passed", (), (passed(),), "ready"),
    case("one of two runs", (), (passed(), running("lint")), "wait for lint"),
    case("passed just now: later ones may come", (), (report("ci"),), "wait for a report"),
    case("no report in time", (), (), "leave, no_checks", at=LATE),
    case("no report in time, and landing so is allowed", (), (), "ready", at=LATE, land_without=True),
    case("landing so is allowed, but not at once", (), (), "wait for a report", land_without=True),
    case("landing so is allowed, but one runs", (), (running(),), "wait for ci", land_without=True),
    case("landing so is allowed, but one is required", ("ci",), (), "leave, checks_timed_out: ci (limit: 120 minutes, "
         "while there is no history to tell how long checks take here)", at=LATE, land_without=True),
    case("an ignored one fails", (), (passed(), failed("cov")), "ready", ignored=("cov",)),
    case("one of an ignored kind fails", (), (passed(), failed("cov/a")), "ready", ignored=("cov/*",)),
    case("only ignored ones report", (), (failed("cov"),), "leave, no_checks", at=LATE, ignored=("cov",)),
]  # fmt: skip


VERDICTS = [
    case("an Actions job failed", ("ci",), (failed(**JOB),), "run again ci"),
    case("it failed where nothing is required", (), (failed(**JOB),), "run again ci"),
    case("it broke down", ("ci",), (failed(conclusion="timed_out", **JOB),), "run again ci"),
    case("a job of its workflow still runs", ("ci",), (failed(**JOB), running("e2e", **JOB)), "wait for e2e"),
    case("a job of another one runs", ("ci",), (failed(**JOB), running("e2e", job_of=8)), "run again ci"),
    case(
        "a job of its workflow runs for too long",
        ("ci",),
        (failed(**JOB), running("e2e", **JOB)),
        "leave, checks_failed: ci",
        at=LATE,
    ),
    case("run again, and only its old run is shown", ("ci",), (failed(**JOB),), "wait for ci", at=AGAIN),
    case("run again, its old run is shown for long", ("ci",), (failed(**JOB),), "wait for ci", at=AGAIN | LATE),
    case("run again, its old run is shown, too late", ("ci",), (failed(**JOB),), "leave, checks_timed_out: ci",
         at=AGAIN | {"status_since": NOW - timedelta(days=2)}),
    case("run again, and running", ("ci",), (running(run=2, **JOB),), "wait for ci", at=AGAIN),
    case("run again, and passed: flaky", ("ci",), (passed(run=2),), "ready", at=AGAIN),
    case("run again, and failed", ("ci",), (failed(run=2, **JOB),), "look at base_reports", at=AGAIN),
    case("two runs allowed", ("ci",), (failed(run=2, **JOB),), "run again ci", at=AGAIN, reruns=2),
    case("no rerun allowed", ("ci",), (failed(**JOB),), "look at base_reports", **NO_RERUN),
    case("no job of Actions", ("ci",), RED_CI, "look at base_reports"),
    case("a commit status", ("ci",), (failed(app=None),), "look at base_reports"),
    case("a job of Actions, and another App's check", (), (failed(**JOB), failed("lint")), "look at base_reports"),
    case("one of two is no job", ("ci", "lint"), (failed(**JOB), failed("lint")), "look at base_reports"),
    case("own: it passes on the base", ("ci",), RED_CI, "leave, checks_failed: ci", base=(passed(),)),
    case("own: it did not run on the base", ("ci",), RED_CI, "leave, checks_failed: ci", base=()),
    case("own: another App's fails there", ("ci",), RED_CI, "leave, checks_failed: ci", base=(failed(app=OTHERS),)),
    case("own: another one fails there", ("ci",), RED_CI, "leave, checks_failed: ci", base=(failed("lint"),)),
    case("own: it was cancelled there", ("ci",), RED_CI, "leave, checks_failed: ci", base=(failed("ci", "cancelled"),)),
    case("base red: it fails there, too", ("ci",), RED_CI, "the base is red: ci", base=RED_CI),
    case("base red: it breaks down here and there", ("ci",), (failed("ci", "timed_out"),), "the base is red: ci",
         base=(failed("ci", "timed_out"),)),
    case("base red, where nothing is required", (), RED_CI, "the base is red: ci", base=RED_CI),
    case("base red, but this is to mend it", ("ci",), RED_CI, "leave, checks_failed: ci", at={"fixes_base": True}),
    case("one fails there, too, one does not", ("ci", "lint"), (failed(), failed("lint")),
         "leave, checks_failed: lint", base=(failed(), passed("lint"))),
    case("the base is being checked", ("ci",), RED_CI, "wait for a report", base=(running(),)),
    case("the base is being checked for too long", ("ci",), RED_CI, "leave, checks_failed: ci", base=(running(),),
         at=LATE),
    case("one is own whatever the base says", ("ci", "lint"), (failed(), failed("lint")),
         "leave, checks_failed: ci, lint", base=(running(), passed("lint"))),
    *(
        case(f"broke down: {word}", ("ci",), (failed("ci", word),), "leave, checks_broke_down: ci", base=())
        for word in sorted(BREAKDOWNS)
    ),
    case("somebody has to act: own", ("ci",), (failed("ci", "action_required"),), "leave, checks_failed: ci", base=()),
    case("one broke down, one failed: own", ("ci", "lint"), (failed("ci", "timed_out"), failed("lint")),
         "leave, checks_failed: ci, lint", base=()),
]  # fmt: skip


@pytest.mark.parametrize("line", [*REQUIRED_CHECKS, *NOTHING_REQUIRED, *VERDICTS])
def test_checks_of_the_front_decide(line: Case) -> None:
    """The specification of required checks and of verdicts, line by line."""
    front = changed(entry(status=CHECKING, base_tip="base-1"), **line.entry)
    runs = tuple(workflow_run(report.suite) for report in line.reports if report.suite is not None)
    facts = Facts(
        pull=pull(),
        rules=rules(*line.required),
        reports=line.reports,
        base_reports=line.base,
        workflow_runs=runs,
        suites=(),
        others=CommitFacts("", tuple(report(name) for name in ("ci", "lint", "unit"))),
        rules_fresh=True,
    )
    action = decide(front, facts, line.policy, NOW)
    decided = in_words(action)
    assert decided == line.decided


LONG_RUNNING = (replace(running(), started_at=NOW - HOUR),)
LIMITS = [
    # rule, the entry, the facts, what the policy says, what is decided at the limit
    (
        "checks, as configured",
        {"status": CHECKING},
        {"reports": LONG_RUNNING},
        {"timeout": 20 * MINUTE},
        20 * MINUTE,
        Dequeue(
            Reason.CHECKS_TIMED_OUT,
            "ci (limit: 20 minutes, as configured)",
            (replace(running(), started_at=NOW - HOUR),),
        ),
    ),
    (
        "checks, by history",
        {"status": CHECKING, "check_limits": {"ci": 1800}},
        {"reports": ()},
        {},
        30 * MINUTE,
        Dequeue(Reason.CHECKS_TIMED_OUT, "ci (limit: 30 minutes, by how long checks took here before)"),
    ),
    (
        "checks, no history",
        {"status": CHECKING},
        {"reports": ()},
        {"fallback_timeout": HOUR},
        HOUR,
        Dequeue(
            Reason.CHECKS_TIMED_OUT,
            "ci (limit: 60 minutes, while there is no history to tell how long checks take here)",
        ),
    ),
    (
        "mergeable unknown",
        {"status": UPDATING, "polls": 3},
        {"pull": pull(mergeable=None)},
        {},
        POLICY.timeouts.update,
        Dequeue(Reason.MERGEABLE_UNKNOWN),
    ),
    (
        "mergeable unknown when the update was refused",
        {"status": UPDATING},
        {"pull": pull(mergeable=None), "update_refused": "no", "comparison": comparison(behind=1)},
        {},
        POLICY.timeouts.update,
        Dequeue(Reason.MERGEABLE_UNKNOWN, "no"),
    ),
    (
        "updating",
        {"status": UPDATING, "polls": 3},
        {"pull": pull()},
        {},
        POLICY.timeouts.update,
        Dequeue(Reason.UPDATE_TIMED_OUT),
    ),
]


@pytest.mark.parametrize(("rule", "at", "facts", "policy", "limit", "left"), LIMITS, ids=[row[0] for row in LIMITS])
def test_limit_of_a_wait_ends_in_its_reason(
    rule: str, at: dict[str, Any], facts: dict[str, Any], policy: dict[str, Any], limit: timedelta, left: Dequeue
) -> None:
    """P5: a second before it the entry still waits or tries, at it the entry leaves and says why."""
    known, choices = (
        facts_with(**{"pull": pull(), "rules": rules("ci"), "workflow_runs": (), "suites": ()} | facts),
        replace(POLICY, checks=CheckRules(**policy)),
    )
    assert decide(entry(status_since=NOW - limit, **at), known, choices, NOW) == left
    before = decide(entry(status_since=NOW - limit + SECOND, **at), known, choices, NOW)
    assert isinstance(before, Wait | Update)


@pytest.mark.parametrize(
    ("before", "green", "red"),
    [
        ((report("ci"),), True, False),
        ((report("ci", CheckState.FAILED),), False, True),
        ((report("ci", conclusion="skipped"),), False, False),
        ((report("ci", CheckState.PENDING),), False, False),
        ((report("ci", app_id=77),), False, False),
        ((), False, False),
    ],
    ids=["green", "red", "skipped", "running", "of_another_app", "absent"],
)
def test_departure_says_what_a_check_was_before_imqs_update_only_where_that_is_known(
    before: tuple[CheckReport, ...], green: bool, red: bool
) -> None:
    """P6: only a result of the same check, by the same App, on the queued head says that the change passed alone."""
    front = entry(status=CHECKING, head_sha="head-2", updated_from="head-1")
    facts = facts_with(rules=rules("ci"), reports=(report("ci", CheckState.FAILED),), base_reports=(report("ci"),))
    assert judged_run(front, facts, POLICY, NOW) == ReadFact(FactKind.FORMER_REPORTS)
    left = judged_run(front, replace(facts, former_reports=before), POLICY, NOW)
    assert isinstance(left, Dequeue)
    assert (left.reason, left.detail) == (Reason.CHECKS_FAILED, None)
    shown = failure_of("head-1", front.run, left.checks, replace(facts, former_reports=before))
    assert (shown.green == ("ci",), shown.red == ("ci",), shown.is_together) == (green, red, green)
    assert shown.on_base
    alone = failure_of("head-2", front.run, left.checks, replace(facts, former_reports=before))
    assert not alone.merged
    assert not alone.is_together


def test_timeout_of_many_checks_names_some_and_counts_the_rest() -> None:
    """The sentence stays readable, and the limit in it is not cut off."""
    names = [f"check-{n:02}" for n in range(14)]
    known = facts_with(pull=pull(), rules=rules(*names), reports=(), workflow_runs=(), suites=())
    action = decide(entry(status=CHECKING, **LATE), known, POLICY, NOW)
    assert isinstance(action, Dequeue)
    assert action.detail is not None
    assert action.detail.startswith("check-00, check-01, ")
    assert "check-09 and 4 more (limit: 120 minutes" in action.detail


def test_conflict_found_while_updating_leaves_as_one() -> None:
    """Whether GitHub says so of the pull request or in its refusal."""
    known = Facts(pull=pull(mergeable=False), rules=rules("ci"))
    assert decide(entry(status=UPDATING), known, POLICY, NOW) == Dequeue(Reason.CONFLICT)
    refused = replace(
        known, pull=pull(mergeable=None), comparison=comparison(behind=1), update_refused="merge conflict"
    )
    assert decide(entry(status=UPDATING), refused, POLICY, NOW) == Dequeue(Reason.CONFLICT)


@pytest.mark.parametrize("status", [UPDATING, CHECKING, READY])
def test_entry_behind_the_front_is_never_tested_so_no_entry_ahead_can_cause_its_failure(status: Any) -> None:
    """Entries ahead land or leave before a failure counts, by construction: IMQ refuses a second one under test."""
    with pytest.raises(InvariantError):
        check_queue((entry(), entry(id="other", number=2, seq=2, rank=1, position=1, status=status)))
    behind = entry(id="other", number=2, seq=2, rank=1, position=1, status=PENDING)
    check_queue((entry(status=status, run=Run(id=1)), behind))
