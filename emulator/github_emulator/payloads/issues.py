"""The conversation: labels, comments, reviews, timeline events, and a pull request as an issue."""

from typing import Any
from urllib.parse import quote

from github_emulator.domain.pulls.conversation import REACTIONS
from github_emulator.payloads.accounts import author, ghost, integration, node_id, user
from github_emulator.payloads.repositories import api, html
from github_emulator.payloads.source import Source
from github_emulator.payloads.times import timestamp
from github_emulator.state import Comment, IssueEvent, Label, PullRequest, Repository, Review, Thread, User


def association(source: Source, record: Repository, author: User) -> str:
    """GitHub's word for what an author is to a repository."""
    if author is record.owner:
        return "OWNER"
    if author.login in record.collaborators:
        if record.owner.kind != "Organization" or not source.behaviour.private_members:
            return "COLLABORATOR"
        if source.accounts.members_shown:
            return "MEMBER"
    merged = any(pull.author is author and pull.merged for pull in record.pulls.values())
    return "CONTRIBUTOR" if merged or author.kind == "Bot" else "NONE"


def reactions(url: str, given: dict[str, list[str]]) -> dict[str, Any]:
    """`reaction-rollup`."""
    counts = {word: len(given.get(word, ())) for word in REACTIONS}
    return {"url": f"{url}/reactions", "total_count": sum(counts.values())} | counts


def label(source: Source, record: Repository, found: Label) -> dict[str, Any]:
    """`label`."""
    return {
        "id": found.id,
        "node_id": node_id("Label", found.id),
        "url": f"{api(source, record)}/labels/{quote(found.name)}",
        "name": found.name,
        "color": found.color,
        "default": False,
        "description": found.description,
        "archived_at": None,
        "archived_by": None,
    }


def issue(source: Source, pull: PullRequest) -> dict[str, Any]:
    """`issue`: a pull request as the issues API shows it."""
    record = pull.repository
    url, page = f"{api(source, record)}/issues/{pull.number}", f"{html(source, record)}/pull/{pull.number}"
    assignees = [user(source, assignee) for assignee in pull.assignees]
    return {
        "url": url,
        "repository_url": api(source, record),
        "labels_url": f"{url}/labels{{/name}}",
        "comments_url": f"{url}/comments",
        "events_url": f"{url}/events",
        "timeline_url": f"{url}/timeline",
        "html_url": page,
        "id": pull.issue_id,
        "node_id": node_id("PullRequest", pull.id),
        "number": pull.number,
        "title": pull.title,
        # Webhooks of comments never have null here.
        "user": author(source, pull.author) or ghost(source, pull.author),
        "labels": [label(source, record, found) for found in pull.labels],
        "state": pull.state,
        "state_reason": None,
        "locked": pull.locked,
        "active_lock_reason": None,
        "assignee": assignees[0] if assignees else None,
        "assignees": assignees,
        "milestone": None,
        "comments": len(pull.comments),
        "created_at": timestamp(pull.created_at),
        "updated_at": timestamp(pull.updated_at),
        "closed_at": timestamp(pull.closed_at),
        "closed_by": user(source, pull.closed_by) if pull.closed_by else None,
        "author_association": association(source, record, pull.author),
        "draft": pull.draft,
        "pull_request": {
            "url": f"{api(source, record)}/pulls/{pull.number}",
            "html_url": page,
            "diff_url": f"{page}.diff",
            "patch_url": f"{page}.patch",
            "merged_at": timestamp(pull.merged_at),
        },
        "body": pull.body or None,
        "reactions": reactions(url, {}),
        "performed_via_github_app": None,
    }


def comment(source: Source, pull: PullRequest, found: Comment) -> dict[str, Any]:
    """`issue-comment`."""
    record = pull.repository
    url = f"{api(source, record)}/issues/comments/{found.id}"
    return {
        "url": url,
        "html_url": f"{html(source, record)}/pull/{pull.number}#issuecomment-{found.id}",
        "issue_url": f"{api(source, record)}/issues/{pull.number}",
        "id": found.id,
        "node_id": node_id("IssueComment", found.id),
        "user": author(source, found.user),
        "created_at": timestamp(found.created_at),
        "updated_at": timestamp(found.updated_at),
        "author_association": association(source, record, found.user),
        "body": found.body,
        "reactions": reactions(url, found.reactions),
        "performed_via_github_app": integration(source, found.app) if found.app else None,
    }


def review(source: Source, pull: PullRequest, found: Review) -> dict[str, Any]:
    """`pull-request-review`."""
    record = pull.repository
    page = f"{html(source, record)}/pull/{pull.number}#pullrequestreview-{found.id}"
    url = f"{api(source, record)}/pulls/{pull.number}"
    return {
        "id": found.id,
        "node_id": node_id("PullRequestReview", found.id),
        "user": author(source, found.user),
        "body": found.body,
        "state": found.state,
        "html_url": page,
        "pull_request_url": url,
        "author_association": association(source, record, found.user),
        "_links": {"html": {"href": page}, "pull_request": {"href": url}},
        "submitted_at": timestamp(found.submitted_at),
        "updated_at": timestamp(found.submitted_at),
        "commit_id": found.commit_id,
    }


def review_comment(source: Source, pull: PullRequest, found: Thread) -> dict[str, Any]:
    """`pull-request-review-comment`: the one that opens a conversation, on the first line of the file's diff."""
    record, opener = pull.repository, found.review
    page = f"{html(source, record)}/pull/{pull.number}#discussion_r{found.id}"
    place = f"{api(source, record)}/pulls"
    at = timestamp(opener.submitted_at)
    return {
        "url": f"{place}/comments/{found.id}",
        "pull_request_review_id": opener.id,
        "id": found.id,
        "node_id": node_id("PullRequestReviewComment", found.id),
        "diff_hunk": "@@ -0,0 +1 @@",
        "path": found.path,
        "commit_id": opener.commit_id,
        "original_commit_id": opener.commit_id,
        "user": author(source, opener.user),
        "body": found.body,
        "created_at": at,
        "updated_at": at,
        "html_url": page,
        "pull_request_url": f"{place}/{pull.number}",
        "author_association": association(source, record, opener.user),
        "_links": {
            "self": {"href": f"{place}/comments/{found.id}"},
            "html": {"href": page},
            "pull_request": {"href": f"{place}/{pull.number}"},
        },
        "reactions": reactions(f"{place}/comments/{found.id}", {}),
        "position": 1,
        "original_position": 1,
        "line": 1,
        "original_line": 1,
        "start_line": None,
        "original_start_line": None,
        "start_side": None,
        "side": "RIGHT",
        "subject_type": "line",
    }


def thread(source: Source, pull: PullRequest, found: Thread) -> dict[str, Any]:
    """The `thread` of a `pull_request_review_thread` webhook."""
    return {
        "node_id": node_id("PullRequestReviewThread", found.id),
        "comments": [review_comment(source, pull, found)],
    }


def issue_event(source: Source, pull: PullRequest, found: IssueEvent) -> dict[str, Any]:
    """`issue-event` of an issue: one line of its history."""
    url = api(source, pull.repository)
    shown: dict[str, Any] = {
        "id": found.id,
        "node_id": node_id("Event", found.id),
        "url": f"{url}/issues/events/{found.id}",
        "actor": user(source, found.actor),
        "event": found.event,
        "commit_id": found.commit_id,
        "commit_url": f"{url}/commits/{found.commit_id}" if found.commit_id else None,
        "created_at": timestamp(found.created_at),
        "performed_via_github_app": integration(source, found.app) if found.app else None,
    }
    if found.label is not None:
        shown["label"] = {"name": found.label.name, "color": found.label.color}
    if found.assignee is not None:
        shown |= {"assignee": user(source, found.assignee), "assigner": user(source, found.actor)}
    if found.rename is not None:
        shown["rename"] = {"from": found.rename[0], "to": found.rename[1]}
    return shown
