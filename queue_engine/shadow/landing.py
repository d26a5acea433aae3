"""Judge merges that somebody else made: would IMQ have queued that head, and had its checks tested what landed?

A head's checks tested the landed tree if both trees are the same: then the head contained its base. Otherwise no check
of the head reported on that tree, as far as GitHub shows: a workflow on GitHub's trial merge may have tested it, if the
base did not move after the workflow started. GitHub's documentation ("Get a pull request") has what `merge_commit_sha`
names: the merge commit, the squashed commit, or the commit that the base was updated to by a rebase.
"""

from dataclasses import replace
from datetime import datetime, timedelta

from queue_engine.admission.case import EnqueueRequest
from queue_engine.config.model import Policy
from queue_engine.domain.facts import (
    CheckReport,
    CheckState,
    Commit,
    Permission,
    PullRequest,
    RequiredCheck,
    ReviewState,
)
from queue_engine.domain.model import Repository
from queue_engine.domain.shadow_pull import BaseState, ShadowLanding
from queue_engine.effects.context import Engine
from queue_engine.rules.checks import CommitChecks, head_checks, judge
from queue_engine.rules.eligibility import NotReady, Reject
from queue_engine.shadow.decide import judge_request

_REPORTS_WITHIN = timedelta(days=1)
"""How long checks on the landed commit may take to report."""

_NOT_BY_PUSH = frozenset({"schedule", "workflow_dispatch", "repository_dispatch"})
"""Events of GitHub Actions that run a workflow on a branch's tip without a push."""


async def judge_landing(engine: Engine, request: EnqueueRequest, pull: PullRequest, policy: Policy) -> ShadowLanding:
    """Judge a merged pull request, as if the person of the request had queued it just before. Raises GitHubError."""
    github, repository = engine.github, request.case.repository
    at = pull.merged_at or engine.clock.now()
    taken = await github.snapshot(repository, pull.number, login=request.by)
    before = replace(
        taken.pull,
        open=True,
        merged=False,
        head_sha=pull.head_sha,
        mergeable=None,
        labels=taken.pull.labels | {policy.trigger_label},
    )
    # Who merged may merge; only a configuration may ask for more.
    permission = taken.permission if taken.permission is not None and taken.permission.may_merge else Permission.WRITE
    request = replace(request, head_sha=pull.head_sha)
    _, _, judged = await judge_request(engine, request, replace(taken, pull=before, permission=permission))
    lacks = judged.unmet[0] if isinstance(judged, NotReady) else None
    answer = judged if lacks is None else Reject(lacks.reason, lacks.detail)
    required = head_checks(await github.branch_rules(repository, pull.base_branch), policy)
    reports = await github.check_reports(repository, pull.head_sha, required)
    checks = judge(required, (_at(at, report) for report in reports), policy.checks.ignored)
    failed = tuple(dict.fromkeys(report.name for report in checks.failed))
    landed = None if pull.merge_sha is None else await github.commit(repository, pull.merge_sha)
    head = await github.commit(repository, pull.head_sha)
    approvals = [
        each.at
        for each in await github.reviews(repository, pull.number)
        if each.state is ReviewState.APPROVED and each.at is not None and each.at <= at
    ]
    return ShadowLanding(
        at=at,
        by=request.by,
        sha=pull.merge_sha or "",
        head_sha=pull.head_sha,
        reason=answer.reason if isinstance(answer, Reject) else None,
        detail=answer.detail if isinstance(answer, Reject) else None,
        checks=checks.state,
        not_passed=failed or checks.pending_names,
        tree_tested=None if landed is None else landed.tree == head.tree,
        before=_before(landed, pull),
        approved_at=max(approvals, default=None),
    )


def _at(at: datetime, report: CheckReport) -> CheckReport:
    """Return the report as it was at an instant: a check that completed later was pending."""
    if report.completed_at is None or report.completed_at <= at:
        return report
    return replace(report, state=CheckState.PENDING, completed_at=None)


def _before(landed: Commit | None, pull: PullRequest) -> str | None:
    """Return the base's tip before a merge or squash commit; a rebased commit may follow another of the same change."""
    if landed is None or not landed.parents:
        return None
    is_merge = pull.head_sha in landed.parents[1:]
    return landed.parents[0] if is_merge or len(landed.parents) == 1 else None


async def follow_base(
    engine: Engine, repository: Repository, base_branch: str, landing: ShadowLanding, policy: Policy
) -> ShadowLanding:
    """Read the landed commit's checks, and with the result the head's checks again. Raises GitHubError."""
    required = head_checks(await engine.github.branch_rules(repository, base_branch), policy)
    followed = await _base_state(engine, repository, landing, required, policy)
    if followed.base is BaseState.PENDING or followed.checks is CheckState.PASSED:
        return followed
    reports = await engine.github.check_reports(repository, landing.head_sha, required)
    checks = judge(required, (_at(landing.at, report) for report in reports), policy.checks.ignored)
    passed = checks.state is CheckState.PASSED
    return replace(followed, checks=checks.state, not_passed=()) if passed else followed


async def _base_state(
    engine: Engine, repository: Repository, landing: ShadowLanding, required: frozenset[RequiredCheck], policy: Policy
) -> ShadowLanding:
    """Judge the landed commit. Without all required checks, later workflows have as long to report as in a queue."""
    checks, complete = await _pushed_checks(engine, repository, landing.sha, required, policy)
    if checks.failed:
        failed = tuple(dict.fromkeys(each.name for each in checks.failed))
        red_before = None
        if landing.before is not None:
            former, _ = await _pushed_checks(engine, repository, landing.before, required, policy)
            red_before = any(each.name in failed for each in former.failed) if former.reported else None
        return replace(landing, base=BaseState.RED, base_checks=failed, red_before=red_before)
    age = engine.clock.now() - landing.at
    if checks.reported and not checks.pending and (complete or age >= policy.checks.first_report):
        return replace(landing, base=BaseState.GREEN)
    return replace(landing, base=BaseState.UNKNOWN) if age >= _REPORTS_WITHIN else landing


async def _pushed_checks(
    engine: Engine, repository: Repository, sha: str, required: frozenset[RequiredCheck], policy: Policy
) -> tuple[CommitChecks, bool]:
    """Judge the checks of a commit of the base, and return whether all required ones passed.

    The required checks count, or all if none of these reports on pushes. Runs that a schedule or a person started do
    not: GitHub attaches them to the tip of the branch, whatever that commit changed ("Events that trigger workflows").
    """
    reports = await engine.github.check_reports(repository, sha, frozenset())
    checks = judge(required, reports, policy.checks.ignored)
    if required and checks.state is CheckState.PASSED:
        return checks, True
    if any(report.by_actions for report in reports):
        runs = await engine.github.workflow_runs(repository, sha)
        others = {run.suite for run in runs if run.event in _NOT_BY_PUSH}
        reports = tuple(report for report in reports if report.suite is None or report.suite not in others)
        checks = judge(required, reports, policy.checks.ignored)
    return (checks if checks.reported else judge((), reports, policy.checks.ignored)), False
