"""GitHub's answers become the engine's facts. Pure functions."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TypeVar

from bot.gateway.answers import (
    ActionsRunAnswer,
    CheckRunAnswer,
    CommitAnswer,
    DeliveryAnswer,
    ListedCommitAnswer,
    PermissionAnswer,
    PullRequestAnswer,
    RepositoryAnswer,
    ReviewAnswer,
    StatusAnswer,
)
from bot.gateway.rule_answers import BranchAnswer
from queue_engine.facts import (
    ActionsRun,
    BranchTip,
    CheckReport,
    CheckState,
    Commit,
    Delivery,
    MergeMethod,
    Permission,
    PullRequest,
    Review,
    ReviewState,
)

PASSING_CONCLUSIONS = frozenset({"success", "neutral", "skipped"})
"""GitHub's "About status checks": these three satisfy a required check."""

_WEB_FLOW = "web-flow"
"""The account as which GitHub commits what is changed through its pages and its API."""

_GHOST = "ghost"
"""Whom GitHub shows in place of a deleted account."""

K = TypeVar("K")
V = TypeVar("V")


def delivery(answer: DeliveryAnswer) -> Delivery:
    """An attempt to deliver a webhook. `OK` is GitHub's word for success ("Handling failed webhook deliveries")."""
    return Delivery(
        id=answer.id,
        guid=answer.guid,
        at=answer.delivered_at.astimezone(UTC),
        redelivery=answer.redelivery,
        succeeded=answer.status == "OK" or 200 <= answer.status_code < 300,
        event=answer.event,
        action=answer.action,
    )


def pull_request(answer: PullRequestAnswer) -> PullRequest:
    """A pull request."""
    return PullRequest(
        number=answer.number,
        title=answer.title,
        author=answer.user.login if answer.user else _GHOST,
        assignees=tuple(user.login for user in answer.assignees or ()),
        open=answer.state == "open",
        merged=answer.merged,
        draft=bool(answer.draft),
        head_sha=answer.head.sha,
        head_repository=answer.head.repo.full_name if answer.head.repo else None,
        base_branch=answer.base.ref,
        mergeable=answer.mergeable,
        labels=frozenset(label.name for label in answer.labels),
        # Before the merge this field names GitHub's trial merge, which lands nothing.
        merge_sha=answer.merge_commit_sha if answer.merged else None,
        maintainer_can_modify=answer.maintainer_can_modify,
        methods=_methods(answer.base.repo),
        body=answer.body or "",
        head_branch=answer.head.ref,
        merge_state=answer.mergeable_state or "unknown",
        updated_at=answer.updated_at,
        default_branch=answer.base.repo.default_branch if answer.base.repo else "",
    )


def _methods(repository: RepositoryAnswer | None) -> tuple[MergeMethod, ...]:
    if repository is None:
        return tuple(MergeMethod)
    allowed = {
        MergeMethod.MERGE: repository.allow_merge_commit,
        MergeMethod.SQUASH: repository.allow_squash_merge,
        MergeMethod.REBASE: repository.allow_rebase_merge,
    }
    return tuple(method for method in MergeMethod if allowed[method] is not False)


def commit(answer: CommitAnswer) -> Commit:
    """A commit from the git database."""
    return Commit(answer.sha, answer.tree.sha, tuple(parent.sha for parent in answer.parents))


def listed_commit(answer: ListedCommitAnswer, *, own_login: str) -> Commit:
    """A commit from a list or a comparison."""
    parents = tuple(parent.sha for parent in answer.parents)
    return Commit(answer.sha, answer.commit.tree.sha, parents, made_by_imq=_is_made_by(answer, own_login))


def _is_made_by(commit: ListedCommitAnswer, login: str) -> bool:
    """Whether GitHub itself made this commit for that account: signed with GitHub's key, which nobody else has.

    GitHub signs what an App changes through the API ("About commit signature verification: signature verification
    for bots"), `update-branch` too, and commits it as `web-flow`.
    """
    verification = commit.commit.verification
    signed = verification is not None and verification.verified
    by_github = commit.committer is not None and commit.committer.login == _WEB_FLOW
    return signed and by_github and commit.author is not None and commit.author.login == login


def permission(answer: PermissionAnswer) -> Permission:
    """A person's permission; an organisation's own role counts as the base permission that it extends."""
    for word in (answer.role_name, answer.permission):
        if word in set(Permission):
            return Permission(word)
    return Permission.NONE


def check_reports(
    runs: Iterable[CheckRunAnswer], statuses: Iterable[StatusAnswer], *, own_app_id: int
) -> tuple[CheckReport, ...]:
    """The newest run per App and name, and the newest status per context, by name; never IMQ's own."""
    newest_runs = _newest(
        ((run.app.id if run.app else None, run.name), run.id, run)
        for run in runs
        if run.app is None or run.app.id != own_app_id
    )
    newest_statuses = _newest((status.context, status.id, status) for status in statuses)
    reports = [*map(_run_report, newest_runs), *map(_status_report, newest_statuses)]
    return tuple(sorted(reports, key=lambda report: (report.name, report.app_id or 0)))


def actions_run(answer: ActionsRunAnswer) -> ActionsRun:
    """A run of a workflow. Older servers do not tell who ran it last: then whoever began it did."""
    begun_by = answer.actor.login if answer.actor else ""
    return ActionsRun(
        id=answer.id,
        event=answer.event,
        head_sha=answer.head_sha,
        begun_by=begun_by,
        last_run_by=answer.triggering_actor.login if answer.triggering_actor else begun_by,
        created_at=answer.created_at.astimezone(UTC),
        ended=answer.status == "completed",
    )


def _newest(candidates: Iterable[tuple[K, int, V]]) -> list[V]:
    """The value with the highest id per key: ids grow, while the times of a rerun may be those of its first run."""
    newest: dict[K, tuple[int, V]] = {}
    for key, age, value in candidates:
        if key not in newest or age > newest[key][0]:
            newest[key] = age, value
    return [value for _, value in newest.values()]


_ACTIONS_JOB = re.compile(r"/actions/runs/(\d+)/job/")
"""Where GitHub Actions shows a job: the address of its check run is the only place that names its workflow's run."""


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
        actions_run=int(job[1]) if (job := _ACTIONS_JOB.search(run.details_url or "")) else None,
    )


_WRITERS = frozenset({"OWNER", "MEMBER", "COLLABORATOR"})


def review(answer: ReviewAnswer) -> Review:
    """A review."""
    state = answer.state.lower()
    return Review(
        author=answer.user.login if answer.user else None,
        state=ReviewState(state) if state in set(ReviewState) else ReviewState.COMMENTED,
        commit=answer.commit_id,
        by_writer=answer.author_association in _WRITERS,
    )


_APP_AVATAR = re.compile(r"https?://[^/?#]+(?:/avatars)?/in/(\d+)(?:[?#]|$)")
"""Where GitHub keeps an App's picture (people's are under `/u/`): in the combined status nothing else tells the App."""


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


def branch_tip(answer: BranchAnswer) -> BranchTip | None:
    """Where a branch stands; None if GitHub does not say."""
    return BranchTip(answer.commit.sha, answer.protected) if answer.commit else None
