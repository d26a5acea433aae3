"""Compare reports of checks with the known results. Pure functions."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta

from queue_engine.domain.facts import CheckReport, CheckState, RequiredCheck
from queue_engine.domain.known_facts import SETTLED, CheckResult, CommitStatus, Known

_BEGUN_AGAIN = timedelta(minutes=1)
"""An App may restart a run that has ended, without any webhook: after this time the read counts."""


def statuses_matter(required: Collection[RequiredCheck], runs: Iterable[tuple[str, int | None, bool]]) -> bool:
    """Return whether statuses matter, by the name and App of each check run, and whether it is pending.

    They do not for a required check that is bound to an App and has a run of it. Nor do they for one that any App may
    report while its run is pending: no status makes it pass before.
    """
    known = set(runs)
    its_own, pending = {(name, app) for name, app, _ in known}, {name for name, _, waits in known if waits}
    return not required or any(
        check.name not in pending if check.app_id is None else (check.name, check.app_id) not in its_own
        for check in required
    )


def outdated_reports(
    reports: Sequence[CheckReport], required: Collection[RequiredCheck], known: Sequence[Known], now: datetime
) -> str | None:
    """Say why these reports are older than known facts; None if they are not."""
    runs = [(each.name, each.app_id, each.state is CheckState.PENDING) for each in reports if each.run_id is not None]
    with_statuses = statuses_matter(required, runs)
    for one in known:
        match one.statement:
            case CheckResult() as ended if not _shows_run(reports, ended, now - one.at):
                return f"the check run {ended.name!r} is known to have ended"
            case CommitStatus() as status if with_statuses and not _shows_status(reports, status, now - one.at):
                return f"the status {status.name!r} is known to be {status.state}"
    return None


def _shows_run(reports: Sequence[CheckReport], ended: CheckResult, since: timedelta) -> bool:
    """Return whether the reports have this run as it ended, or a newer run of its App and name."""
    same = next((report for report in reports if report.run_id == ended.id), None)
    if same is None:
        return any(
            report.run_id is not None
            and report.run_id > ended.id
            and (report.name, report.app_id) == (ended.name, ended.app_id)
            for report in reports
        )
    if same.state is CheckState.PENDING:
        return since >= _BEGUN_AGAIN or _later(same.started_at, ended.completed_at or ended.started_at)
    if same.conclusion == ended.conclusion:
        return True
    if same.completed_at == ended.completed_at:
        return since >= SETTLED
    return _later(same.completed_at, ended.completed_at)


def _shows_status(reports: Sequence[CheckReport], status: CommitStatus, since: timedelta) -> bool:
    """Return whether the reports have this status, or a later one of its name."""
    same = next((report for report in reports if report.run_id is None and report.name == status.name), None)
    if same is None:
        return False
    at = same.completed_at or same.started_at
    if same.conclusion == status.state or at is None or status.at is None:
        return same.conclusion == status.state or since >= SETTLED
    return since >= SETTLED if at == status.at else at > status.at


def _later(one: datetime | None, other: datetime | None) -> bool:
    return one is not None and other is not None and one > other
