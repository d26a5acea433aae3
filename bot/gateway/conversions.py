"""Convert GitHub's answers to the engine's facts. Pure functions."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TypeVar

from bot.gateway.rules.rule_schemas import BranchAnswer
from bot.gateway.schemas import (
    CheckRunAnswer,
    CheckSuiteAnswer,
    CommitAnswer,
    DeliveryAnswer,
    ListedCommitAnswer,
    PermissionAnswer,
    PullRequestAnswer,
    RepositoryAnswer,
    ReviewAnswer,
    StatusAnswer,
    WorkflowRunAnswer,
)
from queue_engine.domain.facts import (
    Branch,
    CheckReport,
    CheckState,
    CheckSuite,
    Commit,
    Delivery,
    MergeMethod,
    Permission,
    PullRequest,
    Review,
    ReviewState,
    WorkflowRun,
)
from queue_engine.rules.landing_order import order_lines

PASSING_CONCLUSIONS = frozenset({"success", "neutral", "skipped"})
"""GitHub's "About status checks": these satisfy a required check (skipped: Kodiak #780; neutral: Mergify #2544)."""

_WEB_FLOW = "web-flow"
"""The committer of changes through GitHub's pages and API."""

GHOST = "ghost"
"""The login that GitHub shows for a deleted account."""

K = TypeVar("K")
V = TypeVar("V")


def delivery(answer: DeliveryAnswer) -> Delivery:
    """Convert a delivery. `OK` is GitHub's status for success ("Handling failed webhook deliveries")."""
    return Delivery(
        id=answer.id,
        guid=answer.guid,
        at=answer.delivered_at.astimezone(UTC),
        redelivery=answer.redelivery,
        succeeded=answer.status == "OK" or 200 <= answer.status_code < 300,
        event=answer.event,
        action=answer.action,
        status_code=answer.status_code,
    )


def pull_request(answer: PullRequestAnswer, remembered: tuple[MergeMethod, ...] | None = None) -> PullRequest:
    """Convert a pull request. `remembered` are the repository's merge methods, which an App's answer lacks."""
    return PullRequest(
        number=answer.number,
        title=answer.title,
        author=answer.user.login if answer.user else GHOST,
        assignees=tuple(user.login for user in answer.assignees or ()),
        open=answer.state == "open",
        merged=answer.merged,
        draft=bool(answer.draft),
        head_sha=answer.head.sha,
        head_repository=answer.head.repo.full_name if answer.head.repo else None,
        head_in_organisation=answer.head.repo is not None and answer.head.repo.owner.type == "Organization",
        base_branch=answer.base.ref,
        base_repository=answer.base.repo.full_name if answer.base.repo else "",
        mergeable=answer.mergeable,
        rebaseable=answer.rebaseable,
        labels=frozenset(label.name for label in answer.labels),
        # Before the merge this field names GitHub's trial merge, which lands nothing.
        merge_sha=answer.merge_commit_sha if answer.merged else None,
        maintainer_can_modify=answer.maintainer_can_modify,
        methods=remembered or methods(answer.base.repo),
        body=answer.body or "",
        order=order_lines(answer.body or ""),
        head_branch=answer.head.ref,
        merge_state=answer.mergeable_state or "unknown",
        updated_at=answer.updated_at,
        comments=answer.comments,
        stack_base=None if answer.stack is None else str((answer.stack.get("base") or {}).get("ref") or ""),
        auto_merge=answer.auto_merge is not None,
        node_id=answer.node_id,
        url=answer.html_url,
        merged_at=answer.merged_at,
        merged_by=answer.merged_by.login if answer.merged_by else None,
        default_branch=answer.base.repo.default_branch if answer.base.repo else "",
        by_rest=True,
    )


def methods(repository: RepositoryAnswer | None) -> tuple[MergeMethod, ...]:
    """Return the merge methods that a repository allows, as far as they are known."""
    if repository is None:
        return tuple(MergeMethod)
    allowed = {
        MergeMethod.MERGE: repository.allow_merge_commit,
        MergeMethod.SQUASH: repository.allow_squash_merge,
        MergeMethod.REBASE: repository.allow_rebase_merge,
    }
    return tuple(method for method in MergeMethod if allowed[method] is not False)


def commit(answer: CommitAnswer) -> Commit:
    """Convert a commit from the git database."""
    parents = tuple(parent.sha for parent in answer.parents)
    return Commit(answer.sha, answer.tree.sha, parents, message=answer.message)


def listed_commit(answer: ListedCommitAnswer, *, own_login: str) -> Commit:
    """Convert a commit from a list or a comparison."""
    parents = tuple(parent.sha for parent in answer.parents)
    return Commit(answer.sha, answer.commit.tree.sha, parents, made_by_imq=_is_made_by(answer, own_login))


def _is_made_by(commit: ListedCommitAnswer, login: str) -> bool:
    """Whether GitHub itself made this commit for that account: it is signed with GitHub's key.

    GitHub signs what an App changes through the API ("About commit signature verification: signature verification
    for bots"), `update-branch` too (ai-memory-mcp #3844), and commits it as `web-flow`.
    """
    verification = commit.commit.verification
    signed = verification is not None and verification.verified
    by_github = commit.committer is not None and commit.committer.login == _WEB_FLOW
    return signed and by_github and commit.author is not None and commit.author.login == login


def permission(answer: PermissionAnswer) -> Permission:
    """Convert a permission; an organisation's own role counts as the base permission that it extends."""
    for role in (answer.role_name, answer.permission):
        if role in set(Permission):
            return Permission(role)
    return Permission.NONE


def check_reports(
    runs: Iterable[CheckRunAnswer],
    statuses: Iterable[StatusAnswer],
    *,
    own_app_id: int,
    workflow_runs: Iterable[WorkflowRun] = (),
) -> tuple[CheckReport, ...]:
    """Return the newest report of each source, by name, without IMQ's own.

    A source is an App and a name, a status's context, or for GitHub Actions a name in one workflow on one event: two
    workflows may have a job of one name, and `on: [push, pull_request]` runs one workflow twice on one commit. The
    `workflow_runs` tell which run is which; without them every suite is a source of its own.
    """
    others = [run for run in runs if run.app is None or run.app.id != own_app_id]
    of_suite = {run.suite: run for run in workflow_runs}
    newest_runs = _newest((_source(run, of_suite), run.id, run) for run in others)
    newest_statuses = _newest((status.context, status.id, status) for status in statuses)
    counted = [run for run in newest_runs if not _is_superseded(run, newest_runs, of_suite)]
    reports = [*map(_run_report, counted), *map(_status_report, newest_statuses)]
    return tuple(sorted(reports, key=lambda report: (report.name, report.app_id or 0, report.run_id or 0)))


def is_contested(runs: Sequence[CheckRunAnswer]) -> bool:
    """Whether several runs of a check disagree, so that the workflow runs must decide which one counts.

    GitHub's `filter=latest` is per suite (wait-on-check-action #156, git-workflow-skill #223), and Actions has a suite
    per workflow run.
    """
    newest = _newest(((run.name, _suite(run)), run.id, run) for run in runs if _by_actions(run))
    failed = {run.name for run in newest if run.status == "completed" and run.conclusion not in PASSING_CONCLUSIONS}
    names = [run.name for run in newest]
    return any(names.count(name) > 1 for name in failed)


def workflow_run(answer: WorkflowRunAnswer) -> WorkflowRun:
    """Convert a workflow run. Older servers omit the last actor: then the first one counts.

    Its path may end with `@` and a ref, as in the example of "List workflow runs for a repository".
    """
    begun_by = answer.actor.login if answer.actor else ""
    return WorkflowRun(
        id=answer.id,
        name=answer.name or "",
        workflow=answer.workflow_id,
        event=answer.event,
        suite=answer.check_suite_id or 0,
        head_sha=answer.head_sha,
        status=answer.status or "",
        conclusion=answer.conclusion,
        url=answer.html_url,
        begun_by=begun_by,
        last_run_by=answer.triggering_actor.login if answer.triggering_actor else begun_by,
        created_at=answer.created_at.astimezone(UTC),
        branch=answer.head_branch or "",
        path=(answer.path or "").partition("@")[0],
    )


def check_suite(answer: CheckSuiteAnswer, *, own_app_id: int) -> CheckSuite:
    return CheckSuite(
        app=answer.app.name or answer.app.slug if answer.app else "",
        by_actions=answer.app is not None and answer.app.slug == ACTIONS,
        status=answer.status or "",
        conclusion=answer.conclusion,
        runs=answer.latest_check_runs_count,
        app_id=answer.app.id if answer.app else None,
        created_at=_utc(answer.created_at),
        own=answer.app is not None and answer.app.id == own_app_id,
        id=answer.id,
    )


ACTIONS = "github-actions"
"""The slug of GitHub's own App, on Enterprise Server too, where its number is another."""

_INCONCLUSIVE = frozenset({"cancelled", "stale"})  # Conclusions of a run that was stopped before it had a result.


def _by_actions(run: CheckRunAnswer) -> bool:
    return run.app is not None and run.app.slug == ACTIONS


def _suite(run: CheckRunAnswer) -> int | None:
    return run.check_suite.id if run.check_suite else None


def _source(run: CheckRunAnswer, of_suite: Mapping[int, WorkflowRun]) -> tuple[object, ...]:
    app = run.app.id if run.app else None
    if not _by_actions(run):
        return app, run.name
    job_of = of_suite.get(_suite(run) or 0)
    return (app, run.name, _suite(run)) if job_of is None else (app, run.name, job_of.workflow, job_of.event)


def _is_superseded(run: CheckRunAnswer, others: Iterable[CheckRunAnswer], of_suite: Mapping[int, WorkflowRun]) -> bool:
    """Whether a newer run of its own workflow, on another event, replaced it before it had a result.

    Workflows with `concurrency: cancel-in-progress` stop the run of a push for that of its pull request.
    """
    job_of = of_suite.get(_suite(run) or 0)
    if job_of is None or run.conclusion not in _INCONCLUSIVE:
        return False
    return any(
        other.name == run.name and other.id > run.id and newer.workflow == job_of.workflow
        for other in others
        if (newer := of_suite.get(_suite(other) or 0)) is not None
    )


def _newest(candidates: Iterable[tuple[K, int, V]]) -> list[V]:
    """Return the value with the highest id per key: a rerun may have the times of its first run.

    GitHub's `filter=latest` takes the highest id, too (agent-glovebox #3532).
    """
    newest: dict[K, tuple[int, V]] = {}
    for key, age, value in candidates:
        if key not in newest or age > newest[key][0]:
            newest[key] = age, value
    return [value for _, value in newest.values()]


def _run_report(run: CheckRunAnswer) -> CheckReport:
    if run.status != "completed":
        state = CheckState.PENDING
    else:
        state = CheckState.PASSED if run.conclusion in PASSING_CONCLUSIONS else CheckState.FAILED
    return CheckReport(
        name=run.name,
        app_id=run.app.id if run.app else None,
        state=state,
        conclusion=run.conclusion or run.status,
        url=run.html_url or run.details_url,
        started_at=_utc(run.started_at),
        completed_at=_utc(run.completed_at),
        run_id=run.id,
        suite=_suite(run),
        by_actions=_by_actions(run),
        app=(run.app.name or run.app.slug or None) if run.app else None,
    )


_WRITERS = frozenset({"OWNER", "MEMBER", "COLLABORATOR"})


def review(answer: ReviewAnswer) -> Review:
    author, by_writer = answer.user.login if answer.user else None, answer.author_association in _WRITERS
    return Review(author, review_state(answer.state), by_writer, answer.submitted_at, answer.commit_id)


def review_state(word: str) -> ReviewState:
    """Convert a review's state; an unknown one counts as a comment."""
    state = word.lower()
    return ReviewState(state) if state in set(ReviewState) else ReviewState.COMMENTED


_APP_AVATAR = re.compile(r"https?://[^/?#]+(?:/avatars)?/in/(\d+)(?:[?#]|$)")
"""Where GitHub keeps an App's picture (simple-icons #10705): in the combined status nothing else names the App."""


def _status_report(status: StatusAnswer) -> CheckReport:
    state = {"success": CheckState.PASSED, "pending": CheckState.PENDING}.get(status.state, CheckState.FAILED)
    return CheckReport(
        name=status.context,
        app_id=int(app[1]) if (app := _APP_AVATAR.match(status.avatar_url or "")) else None,
        state=state,
        conclusion=status.state,
        url=status.target_url,
        started_at=_utc(status.created_at),
        completed_at=None if state is CheckState.PENDING else _utc(status.updated_at),
    )


def _utc(instant: datetime | None) -> datetime | None:
    return None if instant is None else instant.astimezone(UTC)


def branch_tip(answer: BranchAnswer) -> Branch | None:
    """Convert a branch; None if GitHub does not say its tip."""
    return Branch(answer.commit.sha, answer.protected) if answer.commit else None
