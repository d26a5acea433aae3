"""Cases of a verdict: what was reported and demanded, and what is done about it, in words."""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from queue_engine.config.model import CheckRules, Policy
from queue_engine.domain.facts import CheckReport, CheckState, RequiredCheck
from queue_engine.planner.actions import Action, Dequeue, HoldBase, ReadFact, Rerun, Save, Unmet, Wait
from tests.unit.queue_engine.examples import HOUR, NOW, POLICY, report
from tests.unit.queue_engine.planner.paths import Walk, checking

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
    policy: Policy
    base: tuple[CheckReport, ...] | None


def case(
    rule: str,
    required: tuple[str | RequiredCheck, ...],
    reports: tuple[CheckReport, ...],
    decided: str,
    *,
    base: tuple[CheckReport, ...] | None = None,
    at: dict[str, Any] | None = None,
    configured: frozenset[RequiredCheck] = frozenset(),
    own_app: int | None = None,
    **checks: Any,
) -> Any:
    """One line of the specification. `at` is what the entry has behind it, `base` what reports on the base's tip."""
    policy = replace(POLICY, own_app=own_app, checks=CheckRules(required=configured, **checks))
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
        case ReadFact(fact):
            return f"look at {fact.value}"
        case Wait(run):
            return f"wait for {', '.join(run.pending_checks) or 'a report'}"
        case Save(changed):
            return changed.status.value
        case Rerun(_, checks):
            return f"run again {named(checks)}"
        case Unmet(_, (lacks, *_)):
            return f"outside, {lacks.reason.value}: {lacks.detail}"
        case HoldBase(_, check):
            return f"the base is red: {check.name}"
        case Dequeue(reason, detail, checks):
            return f"leave, {reason.value}" + (f": {named(checks) or detail}" if checks or detail else "")
    raise AssertionError(action)


def named(checks: tuple[CheckReport, ...]) -> str:
    return ", ".join(check.name for check in checks)


CI_OF_OURS = RequiredCheck("ci", OURS)
LATE = {"status_since": NOW - timedelta(days=1)}
AGAIN = {"reruns": 1, "rerun_checks": ("1:ci",)}
RED_CI = (failed(),)


def a_job(**changes: Any) -> Walk:
    """A front whose one required check is a job of GitHub Actions, and has just failed."""
    walk = checking(workflow=7, **changes)
    walk.reported(CheckState.FAILED)
    return walk
