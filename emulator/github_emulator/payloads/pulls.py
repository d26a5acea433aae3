"""Pull requests."""

from typing import Any

from github_emulator.payloads.accounts import author, ghost, node_id, user
from github_emulator.payloads.issues import association, label
from github_emulator.payloads.repositories import api, branch_repository, html, minimal_repository
from github_emulator.payloads.source import Source
from github_emulator.payloads.times import timestamp
from github_emulator.state import MergeRequest, PullRequest, Repository, User


def pull_request_stub(source: Source, pull: PullRequest) -> dict[str, Any]:
    """`pull-request-minimal`, as check runs and suites list it."""
    head = pull.head_repository or pull.repository
    return {
        "id": pull.id,
        "number": pull.number,
        "url": f"{api(source, pull.repository)}/pulls/{pull.number}",
        "head": {"ref": pull.head_branch, "sha": pull.head_sha, "repo": _stub(source, head)},
        "base": {"ref": pull.base_branch, "sha": pull.base_sha, "repo": _stub(source, pull.repository)},
    }


def simple_pull_request(source: Source, pull: PullRequest) -> dict[str, Any]:
    """`pull-request-simple`, as lists show it."""
    record = pull.repository
    url, page = f"{api(source, record)}/pulls/{pull.number}", f"{html(source, record)}/pull/{pull.number}"
    assignees = [user(source, assignee) for assignee in pull.assignees]
    return {
        "url": url,
        "id": pull.id,
        "node_id": node_id("PullRequest", pull.id),
        "html_url": page,
        "diff_url": f"{page}.diff",
        "patch_url": f"{page}.patch",
        **_links(source, pull),
        "number": pull.number,
        "state": pull.state,
        "locked": pull.locked,
        "active_lock_reason": None,
        "title": pull.title,
        "user": author(source, pull.author),
        "body": pull.body or None,
        "labels": [label(source, record, found) for found in pull.labels],
        "milestone": None,
        "created_at": timestamp(pull.created_at),
        "updated_at": timestamp(pull.updated_at),
        "closed_at": timestamp(pull.closed_at),
        "merged_at": timestamp(pull.merged_at),
        "merge_commit_sha": pull.merge_commit_sha,
        "assignee": assignees[0] if assignees else None,
        "assignees": assignees,
        "requested_reviewers": [user(source, reviewer) for reviewer in pull.reviewers],
        "requested_teams": [],
        "head": _end(source, pull.head_repository, pull.head_owner, pull.head_branch, pull.head_sha),
        "base": _end(source, record, record.owner.login, pull.base_branch, pull.base_sha),
        "_links": {"self": {"href": url}, "html": {"href": page}} | _hrefs(source, pull),
        "author_association": association(source, record, pull.author),
        "auto_merge": _auto_merge(source, pull),
        "draft": pull.draft,
        **_stack(source, pull),
    }


def _hrefs(source: Source, pull: PullRequest) -> dict[str, Any]:
    """Return the links again, as in `_links`."""
    return {name.removesuffix("_url"): {"href": link} for name, link in _links(source, pull).items()}


def pull_request(source: Source, pull: PullRequest, *, ask: bool = True) -> dict[str, Any]:
    """`pull-request`. With `ask` GitHub starts to compute `mergeable` when it does not know it."""
    mergeable = source.mergeability.mergeable(pull, ask=ask)
    files = source.pulls.files(pull)
    return simple_pull_request(source, pull) | {
        # In this schema alone it is never null.
        "user": author(source, pull.author) or ghost(source, pull.author),
        "merged": pull.merged,
        "mergeable": mergeable,
        "rebaseable": pull.rebaseable if mergeable is not None else None,
        "mergeable_state": source.mergeability.mergeable_state(pull),
        "merged_by": user(source, pull.merged_by) if pull.merged_by else None,
        "comments": len(pull.comments),
        "review_comments": len(pull.threads),
        "maintainer_can_modify": pull.maintainer_can_modify,
        "commits": len(source.pulls.commits(pull)),
        "additions": sum(change.additions for change in files),
        "deletions": sum(change.deletions for change in files),
        "changed_files": len(files),
    }


def merge_request(request: MergeRequest) -> dict[str, Any]:
    """What `merge-async` answers; only a pending one names itself (gh-stack, "Merge API")."""
    details: dict[str, Any] = {"message": request.message}
    if request.status == "pending":
        details |= {
            "uuid": request.uuid,
            "merge_method": request.method or "merge",
            "merge_action": request.action,
            "expected_head_sha": request.expected_head_sha,
        }
    if request.sha is not None:
        details["sha"] = request.sha
    return {"status": request.status, "details": details}


def _auto_merge(source: Source, pull: PullRequest) -> dict[str, Any] | None:
    wanted = pull.auto_merge
    if wanted is None:
        return None
    enabled_by = user(source, wanted.actor.user)
    title = wanted.title or pull.title
    return {"enabled_by": enabled_by, "merge_method": wanted.method, "commit_title": title, "commit_message": ""}


def _stack(source: Source, pull: PullRequest) -> dict[str, Any]:
    stack = source.stacks.of(pull)
    if stack is None:
        return {"stack": None} if source.behaviour.stack_null else {}
    tip = pull.repository.git.branch(stack.base_branch)
    place = {"size": len(stack.pulls), "position": stack.pulls.index(pull) + 1}
    return {"stack": {"id": stack.id, "number": stack.number, **place, "base": {"ref": stack.base_branch, "sha": tip}}}


def _links(source: Source, pull: PullRequest) -> dict[str, str]:
    url = api(source, pull.repository)
    return {
        "issue_url": f"{url}/issues/{pull.number}",
        "commits_url": f"{url}/pulls/{pull.number}/commits",
        "review_comments_url": f"{url}/pulls/{pull.number}/comments",
        "review_comment_url": f"{url}/pulls/comments{{/number}}",
        "comments_url": f"{url}/issues/{pull.number}/comments",
        "statuses_url": f"{url}/statuses/{pull.head_sha}",
    }


def _end(source: Source, record: Repository | None, owner: str, branch: str, sha: str) -> dict[str, Any]:
    account: User | None = source.state.users.get(owner.lower())
    return {
        "label": f"{owner}:{branch}",
        "ref": branch,
        "sha": sha,
        "user": user(source, account) if account else None,
        "repo": _repository(source, record) if record else None,
    }


def _repository(source: Source, record: Repository) -> dict[str, Any]:
    with_settings = source.behaviour.merge_settings_in_pulls
    return branch_repository(source, record) if with_settings else minimal_repository(source, record)


def _stub(source: Source, record: Repository) -> dict[str, Any]:
    return {"id": record.id, "url": api(source, record), "name": record.name}
