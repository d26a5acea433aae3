"""What becomes of the front by its checks: one line per rule, read as `what there is` -> `what is decided`."""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from queue_engine.actions import Action, BaseIsRed, Leave, Look, Rerun, Save, Seen, Update, Wait
from queue_engine.checks import rerun_names, run_key
from queue_engine.decide import decide
from queue_engine.errors import InvariantBroken
from queue_engine.facts import CheckReport, CheckState, RequiredCheck
from queue_engine.invariants import check_queue
from queue_engine.reasons import Reason
from queue_engine.verdicts import BREAKDOWNS, rerun_answered
from tests.queue_engine.examples import (
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
    pull,
    report,
    rules,
    seen,
)
from tests.queue_engine.walk import Refusal, Walk, checking, landed

OURS, OTHERS = 10, 11
"""Two Apps."""


@dataclass(frozen=True)
class Case:
    """A front being checked: what stands, and what is decided of it in words."""

    rule: str
    required: tuple[str | RequiredCheck, ...]
    """By protection and rulesets together; the gateway joins them."""
    reports: tuple[CheckReport, ...]
    decided: str
    entry: dict[str, Any]
    policy: dict[str, Any]
    base: tuple[CheckReport, ...] | None


def case(
    rule: str,
    required: tuple[str | RequiredCheck, ...],
    reports: tuple[CheckReport, ...],
    decided: str,
    *,
    base: tuple[CheckReport, ...] | None = None,
    at: dict[str, Any] | None = None,
    **policy: Any,
) -> Any:
    """One line of the specification. `at` is what the entry has behind it, `base` what reports on the base's tip."""
    return pytest.param(Case(rule, required, reports, decided, at or {}, policy, base), id=rule)


def passed(name: str = "ci", conclusion: str = "success", *, app: int | None = OURS, run: int = 1) -> CheckReport:
    return report(name, CheckState.PASSED, app_id=app, conclusion=conclusion, run=run, completed_at=NOW - HOUR)


def failed(
    name: str = "ci", conclusion: str = "failure", *, app: int | None = OURS, run: int = 1, job_of: int | None = None
) -> CheckReport:
    return report(name, CheckState.FAILED, app_id=app, conclusion=conclusion, run=run, workflow=job_of)


def running(name: str = "ci", *, app: int | None = OURS, run: int = 1, job_of: int | None = None) -> CheckReport:
    return report(name, CheckState.PENDING, app_id=app, run=run, workflow=job_of)


def demanded(*names: str) -> frozenset[RequiredCheck]:
    """Checks that the repository's configuration demands."""
    return frozenset(RequiredCheck(name, None) for name in names)


def in_words(action: Action) -> str:
    """A decision as the table writes it."""
    match action:
        case Look(fact):
            return f"look at {fact.value}"
        case Wait(changed):
            return f"wait for {', '.join(changed.awaited_checks) or 'a report'}"
        case Save(changed):
            return changed.status.value
        case Rerun(_, checks):
            return f"run again {named(checks)}"
        case BaseIsRed(_, check):
            return f"the base is red: {check.name}"
        case Leave(reason, detail, checks):
            return f"leave, {reason.value}" + (f": {named(checks) or detail}" if checks or detail else "")
    raise AssertionError(action)


def named(checks: tuple[CheckReport, ...]) -> str:
    return ", ".join(check.name for check in checks)


CI_OF_OURS = RequiredCheck("ci", OURS)
LATE = {"status_since": NOW - timedelta(days=1)}
AGAIN = {"reruns": 1, "rerun_checks": ("1:ci",)}
JOB: Any = {"job_of": 7}
NO_RERUN: Any = {"check_reruns": 0}

REQUIRED_CHECKS = [
    case("required and passed", ("ci",), (passed(),), "ready"),
    case("required and skipped", ("ci",), (passed(conclusion="skipped"),), "ready"),
    case("required and neutral", ("ci",), (passed(conclusion="neutral"),), "ready"),
    case("required and absent", ("ci",), (), "wait for ci"),
    case("required and absent, others have passed", ("ci",), (passed("lint"),), "wait for ci"),
    case("required and running", ("ci",), (running(),), "wait for ci"),
    case("all of several are awaited", ("ci", "lint", "unit"), (passed("lint"),), "wait for ci, unit"),
    case("what is not required may fail", ("ci",), (passed(), failed("lint")), "ready"),
    case("what is not required may hang", ("ci",), (passed(), running("nightly")), "ready"),
    case("the name in another case is another check", ("ci",), (passed("CI"),), "wait for ci"),
    case("demanded by the configuration alone", (), (), "wait for ci", required_checks=demanded("ci")),
    case("demanded by both", ("ci",), (passed(),), "wait for lint", required_checks=demanded("lint")),
    case("both passed", ("ci",), (passed(), passed("lint")), "ready", required_checks=demanded("lint")),
    case("IMQ's own check is required", ("ci", "IMQ"), (passed(),), "leave, own_check_required: IMQ"),
    case(
        "IMQ's own by the configuration",
        ("ci",),
        (passed(),),
        "leave, own_check_required: IMQ",
        required_checks=demanded("IMQ"),
    ),
    case("bound to an App, which passed", (CI_OF_OURS,), (passed(),), "ready"),
    case("bound to an App, another passed", (CI_OF_OURS,), (passed(app=OTHERS),), "wait for ci"),
    case("bound to an App, another failed", (CI_OF_OURS,), (passed(), failed(app=OTHERS)), "ready"),
    case("bound to no App, one of two runs", ("ci",), (passed(), running(app=OTHERS)), "wait for ci"),
    case("run and status of one name, the status runs", ("ci",), (passed(), running(app=None)), "wait for ci"),
    case("run and status of one name, both passed", ("ci",), (passed(), passed(app=None)), "ready"),
    case("an ignored check that is required counts", ("ci",), (running(),), "wait for ci", ignored_checks=("*",)),
]

NOTHING_REQUIRED = [
    case("no report yet", (), (), "wait for a report"),
    case("one passed", (), (passed(),), "ready"),
    case("one of two runs", (), (passed(), running("lint")), "wait for lint"),
    case("passed just now: later ones may come", (), (report("ci"),), "wait for a report"),
    case("no report in time", (), (), "leave, no_checks", at=LATE),
    case("no report in time, and landing so is allowed", (), (), "ready", at=LATE, land_without_checks=True),
    case("landing so is allowed, but not at once", (), (), "wait for a report", land_without_checks=True),
    case("landing so is allowed, but one runs", (), (running(),), "wait for ci", land_without_checks=True),
    case("landing so is allowed, but one is required", ("ci",), (), "leave, checks_timed_out: ci (limit: 120 minutes, "
         "while there is no history to tell how long checks take here)", at=LATE, land_without_checks=True),
    case("an ignored one fails", (), (passed(), failed("cov")), "ready", ignored_checks=("cov",)),
    case("one of an ignored kind fails", (), (passed(), failed("cov/a")), "ready", ignored_checks=("cov/*",)),
    case("only ignored ones report", (), (failed("cov"),), "leave, no_checks", at=LATE, ignored_checks=("cov",)),
]  # fmt: skip

RED_CI = (failed(),)
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
    case("run again, its old run is shown, too late", ("ci",), (failed(**JOB),), "leave, checks_timed_out: ci",
         at=AGAIN | LATE),
    case("run again, and running", ("ci",), (running(run=2, **JOB),), "wait for ci", at=AGAIN),
    case("run again, and passed: flaky", ("ci",), (passed(run=2),), "ready", at=AGAIN),
    case("run again, and failed", ("ci",), (failed(run=2, **JOB),), "look at base_reports", at=AGAIN),
    case("two runs allowed", ("ci",), (failed(run=2, **JOB),), "run again ci", at=AGAIN, check_reruns=2),
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
    front = replace(entry(status=CHECKING, base_tip="base-1"), **line.entry)
    facts = Seen(pull=pull(), rules=rules(*line.required), reports=line.reports, base_reports=line.base)
    action = decide(front, facts, replace(POLICY, **line.policy), NOW)
    decided = in_words(action)
    assert decided == line.decided


LIMITS = [
    # rule, the entry, the facts, what the policy says, what is decided at the limit
    (
        "checks, as configured",
        {"status": CHECKING},
        {"reports": (running(),)},
        {"check_timeout": 20 * MINUTE},
        20 * MINUTE,
        Leave(Reason.CHECKS_TIMED_OUT, "ci (limit: 20 minutes, as configured)", (running(),)),
    ),
    (
        "checks, by history",
        {"status": CHECKING, "check_seconds": 1800},
        {"reports": ()},
        {},
        30 * MINUTE,
        Leave(Reason.CHECKS_TIMED_OUT, "ci (limit: 30 minutes, by how long checks took here before)"),
    ),
    (
        "checks, no history",
        {"status": CHECKING},
        {"reports": ()},
        {"fallback_check_timeout": HOUR},
        HOUR,
        Leave(
            Reason.CHECKS_TIMED_OUT,
            "ci (limit: 60 minutes, while there is no history to tell how long checks take here)",
        ),
    ),
    (
        "mergeable unknown",
        {"status": UPDATING, "recheck": 3},
        {"pull": pull(mergeable=None)},
        {},
        POLICY.update_timeout,
        Leave(Reason.MERGEABLE_UNKNOWN),
    ),
    (
        "mergeable unknown when the update was refused",
        {"status": UPDATING},
        {"pull": pull(mergeable=None), "update_refused": "no", "comparison": comparison(behind=1)},
        {},
        POLICY.update_timeout,
        Leave(Reason.MERGEABLE_UNKNOWN, "no"),
    ),
    (
        "updating",
        {"status": UPDATING, "recheck": 3},
        {"pull": pull()},
        {},
        POLICY.update_timeout,
        Leave(Reason.UPDATE_TIMED_OUT),
    ),
]


@pytest.mark.parametrize(("rule", "at", "facts", "policy", "limit", "left"), LIMITS, ids=[row[0] for row in LIMITS])
def test_limit_of_a_wait_ends_in_its_reason(
    rule: str, at: dict[str, Any], facts: dict[str, Any], policy: dict[str, Any], limit: timedelta, left: Leave
) -> None:
    """P5: a second before it the entry still waits or tries, at it the entry leaves and says why."""
    known, choices = seen(**{"pull": pull(), "rules": rules("ci")} | facts), replace(POLICY, **policy)
    assert decide(entry(status_since=NOW - limit, **at), known, choices, NOW) == left
    before = decide(entry(status_since=NOW - limit + SECOND, **at), known, choices, NOW)
    assert isinstance(before, Wait | Update)


def test_timeout_of_many_checks_names_some_and_counts_the_rest() -> None:
    """The sentence stays readable, and the limit in it is not cut off."""
    names = [f"check-{n:02}" for n in range(14)]
    known = seen(pull=pull(), rules=rules(*names), reports=())
    action = decide(entry(status=CHECKING, **LATE), known, POLICY, NOW)
    assert isinstance(action, Leave)
    assert action.detail is not None
    assert action.detail.startswith("check-00, check-01, ")
    assert "check-09 and 4 more (limit: 120 minutes" in action.detail


def test_conflict_found_while_updating_leaves_as_one() -> None:
    """Whether GitHub says so of the pull request or in its refusal."""
    known = Seen(pull=pull(mergeable=False), rules=rules("ci"))
    assert decide(entry(status=UPDATING), known, POLICY, NOW) == Leave(Reason.CONFLICT)
    refused = replace(
        known, pull=pull(mergeable=None), comparison=comparison(behind=1), update_refused="merge conflict"
    )
    assert decide(entry(status=UPDATING), refused, POLICY, NOW) == Leave(Reason.CONFLICT)


@pytest.mark.parametrize("status", [UPDATING, CHECKING, READY])
def test_entry_behind_the_front_is_never_tested_so_nobody_ahead_can_be_to_blame(status: Any) -> None:
    """Those ahead have settled before anybody is blamed, by construction: a second one under test is refused."""
    with pytest.raises(InvariantBroken):
        check_queue((entry(), entry(id="other", number=2, seq=2, rank=1, position=1, status=status)))
    check_queue((entry(status=status), entry(id="other", number=2, seq=2, rank=1, position=1, status=PENDING)))


# Running again


def a_job(**changes: Any) -> Walk:
    """A front whose one required check is a job of GitHub Actions, and has just failed."""
    walk = checking(workflow=7, **changes)
    walk.reported(CheckState.FAILED)
    return walk


def test_rerun_that_passes_lands_in_its_place_and_is_remembered_as_flaky() -> None:
    """One rerun, the status stays, nobody is blamed; jobs that depend on it get a moment to appear."""
    walk = a_job()
    assert isinstance(walk.go(), Wait)
    assert (walk.entry.status, walk.entry.awaited_checks, walk.entry.rerun_at) == (CHECKING, ("ci",), None)
    assert walk.entry.recheck_at == NOW + POLICY.check_look.base
    walk.reported(CheckState.PASSED)
    assert isinstance(walk.go(), Wait)
    assert walk.due == NOW + POLICY.settle
    assert landed(walk.wait())
    assert rerun_names(walk.entry) == ("ci",)
    assert walk.asked.count("rerun") == 1
    assert "base_reports" not in walk.asked


def test_rerun_that_fails_again_is_the_changes_own_fault_and_says_that_it_was_run_twice() -> None:
    """Once and no more; then the base is asked."""
    walk = a_job()
    walk.go()
    walk.reported(CheckState.FAILED)
    assert walk.go() == Leave(
        Reason.CHECKS_FAILED,
        "run again on the same commit, without success: ci",
        walk.github.reports["head-2"],
    )
    assert walk.asked.count("rerun") == 1


def test_rerun_whose_old_failure_is_reported_again_is_waited_for() -> None:
    """A webhook of the first failure that comes late is not a second failure, whatever the clocks say."""
    walk = a_job()
    old = walk.github.reports["head-2"]
    walk.go()
    walk.github.reports["head-2"] = old
    walk.hint(recheck_at=walk.now)
    assert isinstance(walk.go(), Wait)
    assert walk.asked.count("rerun") == 1


def test_rerun_of_a_new_head_is_counted_anew() -> None:
    """What one head has had is no debt of the next."""
    walk = a_job()
    walk.go()
    walk.github.move_base("base-3")
    walk.hint(known_behind=True)
    walk.go()
    walk.updated("head-3")
    walk.go()
    assert (walk.entry.reruns, walk.entry.rerun_checks) == (0, ())
    walk.reported(CheckState.FAILED)
    walk.go()
    assert walk.asked.count("rerun") == 2


@pytest.mark.parametrize("happened", [True, False])
def test_rerun_whose_answer_was_lost_is_looked_for_before_it_is_asked_for_again(happened: bool) -> None:
    """P2: killed, or the line cut, before or after GitHub took it up: run again once, and never blamed without."""
    walk = a_job(reruns=[Refusal(lost=True, happened=happened)])
    assert walk.go() is None
    assert isinstance(walk.go(), Wait)
    assert (walk.entry.rerun_at, walk.entry.reruns) == (None, 1)
    assert walk.asked.count("rerun") == (1 if happened else 2)
    walk.reported(CheckState.FAILED)
    assert walk.left() is Reason.CHECKS_FAILED


def test_rerun_that_comes_too_early_is_asked_for_again_when_the_workflow_has_ended() -> None:
    """GitHub runs no workflow again that still goes on; jobs of it may not have begun, so nobody sees them."""
    too_early = Refusal("This workflow is already running")
    walk = a_job(reruns=[too_early] * 3)
    assert isinstance(walk.go(), Wait)
    for _ in range(3):
        assert walk.entry.rerun_at is not None
        assert isinstance(walk.wait(), Wait)
    assert (walk.entry.rerun_at, walk.asked.count("rerun")) == (None, 4)


def test_rerun_that_always_comes_too_early_ends_with_the_checks_time() -> None:
    """P5: a workflow that never ends holds up nobody for longer than checks may take."""
    walk = a_job(reruns=[Refusal("This workflow is already running")] * 99)
    action = walk.go()
    while isinstance(action, Wait):
        action = walk.wait()
    assert isinstance(action, Leave)
    assert action.reason is Reason.CHECKS_FAILED
    assert walk.now - NOW <= POLICY.fallback_check_timeout + POLICY.ask_again.maximum
    assert walk.asked.count("rerun") < 25


def test_rerun_that_github_refuses_lets_the_failure_stand() -> None:
    """Too old, or no permission: not asked for twice, and no mention of a second run."""
    walk = a_job(reruns=[Refusal("Resource not accessible by integration")])
    assert walk.go() == Leave(Reason.CHECKS_FAILED, None, walk.github.reports["head-2"])
    assert walk.asked.count("rerun") == 1


def test_rerun_answered_with_a_refusal_forgets_only_what_was_refused() -> None:
    """Of two workflow runs one may be on its way."""
    asked = entry(status=CHECKING, rerun_checks=("1:ci", "2:lint"), rerun_at=NOW)
    after = rerun_answered(asked, (failed("lint", run=2),), "no", POLICY, NOW)
    assert (after.rerun_checks, after.rerun_at) == (("1:ci",), None)


# A red base


def test_base_red_holds_the_entry_and_gives_it_one_more_run_when_the_base_is_green() -> None:
    """Its place and its head stay; what failed on a red base tells nothing."""
    walk = a_job()
    walk.github.say_on_base(CheckState.FAILED)
    walk.go()
    walk.reported(CheckState.FAILED)
    action = walk.go()
    assert isinstance(action, BaseIsRed)
    assert (action.check.name, action.tip, walk.entry.status) == ("ci", "base-2", CHECKING)
    walk.github.say_on_base(CheckState.PASSED)
    assert isinstance(walk.go_at(NOW + 9 * HOUR), Wait)
    assert (walk.asked.count("rerun"), walk.entry.status_since) == (2, walk.now)
    walk.reported(CheckState.PASSED)
    walk.go()
    assert landed(walk.wait())


def test_base_red_where_nothing_is_run_again_lets_the_failure_stand_when_the_base_is_green() -> None:
    """`checks.reruns: 0` means none, ever; while the base is red nobody is blamed, and its last look decides."""
    walk = a_job()
    walk.policy = replace(walk.policy, check_reruns=0)
    walk.github.say_on_base(CheckState.FAILED)
    assert isinstance(walk.go(), BaseIsRed)
    assert isinstance(walk.go_at(NOW + HOUR), BaseIsRed)
    walk.github.say_on_base(CheckState.PASSED)
    assert walk.left() is Reason.CHECKS_FAILED
    assert "rerun" not in walk.asked


def test_base_red_that_has_moved_is_followed_by_an_update() -> None:
    """The fix landed: what failed before it is tested on top of it."""
    walk = a_job(reruns=[Refusal("no")])
    walk.github.say_on_base(CheckState.FAILED)
    assert isinstance(walk.go(), BaseIsRed)
    walk.github.move_base("base-3")
    walk.hint(known_behind=True)
    walk.go()
    assert (walk.entry.status, walk.entry.base_tip) == (UPDATING, "base-3")


def test_base_red_is_looked_for_on_the_tip_that_the_head_contains() -> None:
    """Not on whatever the branch has become since."""
    walk = a_job(reruns=[Refusal("no")])
    walk.github.reports["base-3"] = (failed(),)
    walk.github.base_tip = "base-3"
    assert walk.left() is Reason.CHECKS_FAILED


def test_base_that_settles_while_it_is_waited_for_decides() -> None:
    """Nobody is blamed for what the base may have, and it is asked ever less often."""
    walk = a_job(reruns=[Refusal("no")])
    walk.github.say_on_base(CheckState.PENDING)
    assert isinstance(walk.go(), Wait)
    assert isinstance(walk.wait(), Wait)
    walk.github.say_on_base(CheckState.FAILED)
    assert isinstance(walk.wait(), BaseIsRed)


def test_green_way_asks_nothing_of_the_base() -> None:
    """P7: what costs requests happens on failures only."""
    walk = checking()
    walk.reported(CheckState.PASSED)
    assert landed(walk.go())
    assert not {"base_reports", "rerun"} & set(walk.asked)


def test_run_key_tells_runs_of_one_check_apart() -> None:
    """By GitHub's number of the run."""
    assert run_key(failed(run=1)) != run_key(failed(run=2))
