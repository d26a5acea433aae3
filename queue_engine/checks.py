"""What the reports on one commit mean for landing it: a pure judgement over plain data.

Sources: required checks match by name and, where bound, by App; the newest run of each App and name counts; a check
run and a status of one name are both required; absent is pending (GitHub's documentation on status checks).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from queue_engine.facts import BranchRules, CheckReport, CheckState, RequiredCheck
from queue_engine.policy import Policy


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement: one state for the commit, and the checks that make it so."""

    state: CheckState
    awaited: tuple[str, ...]
    """Names still to come, required and absent ones included, sorted."""
    pending: tuple[CheckReport, ...]
    """Reports that have begun and not ended."""
    failed: tuple[CheckReport, ...]
    ended: tuple[str, ...]
    """Names that count and are not awaited any more, sorted."""
    reported: bool
    """Whether anything at all has reported."""
    last_completed: datetime | None


def required_checks(rules: BranchRules | None, policy: Policy) -> frozenset[RequiredCheck]:
    """What protection, rulesets and the repository's configuration demand together."""
    return policy.required_checks | (rules.required_checks if rules else frozenset())


def judge(required: Iterable[RequiredCheck], reports: Iterable[CheckReport]) -> Verdict:
    """Judge a commit. Nothing required: every report must pass, and at least one must have come."""
    reports = tuple(reports)
    required = frozenset(required)
    counted = tuple(r for r in reports if not required or any(_matches(q, r) for q in required))
    absent = {q.name for q in required if not any(_matches(q, r) for r in reports)}
    failed = tuple(r for r in counted if r.state is CheckState.FAILED)
    pending = tuple(r for r in counted if r.state is CheckState.PENDING)
    awaited = tuple(sorted(absent | {r.name for r in pending}))
    ended = tuple(sorted({r.name for r in counted} - set(awaited)))
    if failed:
        state = CheckState.FAILED
    elif awaited or not counted:
        state = CheckState.PENDING
    else:
        state = CheckState.PASSED
    completed = [r.completed_at for r in counted if r.completed_at is not None]
    return Verdict(state, awaited, pending, failed, ended, bool(counted), max(completed, default=None))


def _matches(required: RequiredCheck, report: CheckReport) -> bool:
    """A commit status does not tell its App: GitHub itself holds the binding when it merges."""
    if required.name != report.name:
        return False
    return required.app_id is None or report.app_id is None or required.app_id == report.app_id
