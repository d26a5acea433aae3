"""GitHub's own schemas (githubkit's models of 2022-11-28) for every endpoint's answer.

The models take a while to import: they are read on first use.
"""

import json
import re
from functools import cache
from typing import Any

from github_schemas import octokit

_EVENTS = (
    "LabeledIssueEvent UnlabeledIssueEvent AssignedIssueEvent UnassignedIssueEvent RenamedIssueEvent "
    "ReviewDismissedIssueEvent AddedToProjectIssueEvent"
)
_TIMELINE = (
    "LabeledIssueEvent UnlabeledIssueEvent RenamedIssueEvent ReviewDismissedIssueEvent TimelineCommentEvent "
    "TimelineCommittedEvent TimelineReviewedEvent TimelineAssignedIssueEvent TimelineUnassignedIssueEvent "
    "StateChangeIssueEvent"
)
_RULES = " ".join(f"RepositoryRuleDetailedOneof{number}" for number in range(25))
_REPO = "/repos/{owner}/{repo}"
NOTHING = ""
"""An answer without content."""
UNPUBLISHED = "?"
"""An answer that githubkit's newest schemas do not know; github/gh-stack documents its fields ("Merge API")."""

SCHEMAS = {
    "GET /rate_limit": "RateLimitOverview",
    "GET /users/{username}": "PublicUser",
    "GET /user": "PublicUser",
    "GET /user/{account_id}": "PublicUser",
    "GET /app": "Integration",
    "GET /app/installations": "[Installation]",
    "GET /app/installations/{installation_id}": "Installation",
    "POST /app/installations/{installation_id}/access_tokens": "InstallationToken",
    "POST /app-manifests/{code}/conversions": "AppManifestsCodeConversionsPostResponse201",
    "GET /app/hook/config": "WebhookConfig",
    "PATCH /app/hook/config": "WebhookConfig",
    "GET /app/hook/deliveries": "[HookDeliveryItem]",
    "GET /app/hook/deliveries/{delivery_id}": "HookDelivery",
    "POST /app/hook/deliveries/{delivery_id}/attempts": "AppHookDeliveriesDeliveryIdAttemptsPostResponse202",
    "GET /installation/repositories": "InstallationRepositoriesGetResponse200",
    "POST /user/repos": "FullRepository",
    f"GET {_REPO}": "FullRepository",
    f"GET {_REPO}/collaborators/{{username}}/permission": "RepositoryCollaboratorPermission",
    f"GET {_REPO}/contents/{{path}}": "ContentFile",
    f"PUT {_REPO}/contents/{{path}}": "FileCommit",
    f"GET {_REPO}/branches": "[ShortBranch]",
    f"GET {_REPO}/activity": "[Activity]",
    f"GET {_REPO}/branches/{{branch}}": "BranchWithProtection",
    f"GET {_REPO}/branches/{{branch}}/protection": "BranchProtection",
    f"GET {_REPO}/rules/branches/{{branch}}": f"[{_RULES}]",
    f"GET {_REPO}/rulesets": "[RepositoryRuleset]",
    f"GET {_REPO}/rulesets/{{ruleset_id}}": "RepositoryRuleset",
    "GET /orgs/{org}/rulesets/{ruleset_id}": "RepositoryRuleset",
    "GET /orgs/{org}/teams/{team_slug}/members": "[SimpleUser]",
    f"GET {_REPO}/git/commits/{{commit_sha}}": "GitCommit",
    f"GET {_REPO}/git/trees/{{tree_sha}}": "GitTree",
    f"GET {_REPO}/git/blobs/{{file_sha}}": "Blob",
    f"POST {_REPO}/git/blobs": "ShortBlob",
    f"POST {_REPO}/git/trees": "GitTree",
    f"POST {_REPO}/git/commits": "GitCommit",
    f"POST {_REPO}/git/tags": "GitTag",
    f"GET {_REPO}/git/tags/{{tag_sha}}": "GitTag",
    f"GET {_REPO}/git/ref/{{ref}}": "GitRef",
    f"GET {_REPO}/git/matching-refs/{{ref}}": "[GitRef]",
    f"POST {_REPO}/git/refs": "GitRef",
    f"PATCH {_REPO}/git/refs/{{ref}}": "GitRef",
    f"DELETE {_REPO}/git/refs/{{ref}}": NOTHING,
    f"GET {_REPO}/commits/{{commit_sha}}/pulls": "[PullRequestSimple]",
    f"GET {_REPO}/commits": "[Commit]",
    f"GET {_REPO}/commits/{{ref}}": "Commit",
    f"GET {_REPO}/compare/{{basehead}}": "CommitComparison",
    f"GET {_REPO}/commits/{{ref}}/check-runs": "ReposOwnerRepoCommitsRefCheckRunsGetResponse200",
    f"GET {_REPO}/commits/{{ref}}/check-suites": "ReposOwnerRepoCommitsRefCheckSuitesGetResponse200",
    f"POST {_REPO}/check-runs": "CheckRun",
    f"GET {_REPO}/check-runs/{{check_run_id}}": "CheckRun",
    f"PATCH {_REPO}/check-runs/{{check_run_id}}": "CheckRun",
    f"POST {_REPO}/check-runs/{{check_run_id}}/rerequest": "EmptyObject",
    f"GET {_REPO}/check-runs/{{check_run_id}}/annotations": "[CheckAnnotation]",
    f"GET {_REPO}/actions/runs/{{run_id}}/artifacts": "ReposOwnerRepoActionsRunsRunIdArtifactsGetResponse200",
    f"GET {_REPO}/actions/artifacts/{{artifact_id}}/{{archive_format}}": NOTHING,
    f"GET {_REPO}/actions/concurrency_groups/{{concurrency_group_name}}": "ConcurrencyGroup",
    f"GET {_REPO}/actions/runs": "ReposOwnerRepoActionsRunsGetResponse200",
    f"GET {_REPO}/actions/runs/{{run_id}}": "WorkflowRun",
    f"GET {_REPO}/actions/runs/{{run_id}}/jobs": "ReposOwnerRepoActionsRunsRunIdJobsGetResponse200",
    f"GET {_REPO}/actions/jobs/{{job_id}}": "Job",
    f"POST {_REPO}/actions/runs/{{run_id}}/cancel": "EmptyObject",
    f"POST {_REPO}/actions/runs/{{run_id}}/approve": "EmptyObject",
    f"POST {_REPO}/actions/runs/{{run_id}}/rerun": "EmptyObject",
    f"POST {_REPO}/actions/runs/{{run_id}}/rerun-failed-jobs": "EmptyObject",
    f"POST {_REPO}/actions/workflows/{{workflow_id}}/dispatches": NOTHING,
    f"GET {_REPO}/commits/{{ref}}/status": "CombinedCommitStatus",
    f"GET {_REPO}/commits/{{ref}}/statuses": "[Status]",
    f"POST {_REPO}/statuses/{{sha}}": "Status",
    f"GET {_REPO}/issues": "[Issue]",
    f"GET {_REPO}/issues/{{number}}": "Issue",
    f"PATCH {_REPO}/issues/{{number}}": "Issue",
    f"GET {_REPO}/labels/{{name}}": "Label",
    f"POST {_REPO}/labels": "Label",
    f"GET {_REPO}/issues/{{number}}/labels": "[Label]",
    f"POST {_REPO}/issues/{{number}}/labels": "[Label]",
    f"PUT {_REPO}/issues/{{number}}/labels": "[Label]",
    f"DELETE {_REPO}/issues/{{number}}/labels/{{name}}": "[Label]",
    f"GET {_REPO}/issues/{{number}}/events": f"[{_EVENTS}]",
    f"GET {_REPO}/issues/{{number}}/timeline": f"[{_TIMELINE}]",
    f"POST {_REPO}/issues/{{number}}/assignees": "Issue",
    f"DELETE {_REPO}/issues/{{number}}/assignees": "Issue",
    f"GET {_REPO}/issues/{{number}}/comments": "[IssueComment]",
    f"POST {_REPO}/issues/{{number}}/comments": "IssueComment",
    f"GET {_REPO}/issues/comments": "[IssueComment]",
    f"GET {_REPO}/issues/comments/{{comment_id}}": "IssueComment",
    f"PATCH {_REPO}/issues/comments/{{comment_id}}": "IssueComment",
    f"DELETE {_REPO}/issues/comments/{{comment_id}}": NOTHING,
    f"POST {_REPO}/issues/comments/{{comment_id}}/reactions": "Reaction",
    f"GET {_REPO}/issues/comments/{{comment_id}}/reactions": "[Reaction]",
    f"GET {_REPO}/pulls": "[PullRequestSimple]",
    f"POST {_REPO}/pulls": "PullRequest",
    f"GET {_REPO}/pulls/{{number}}": "PullRequest",
    f"PATCH {_REPO}/pulls/{{number}}": "PullRequest",
    f"GET {_REPO}/pulls/{{number}}/reviews": "[PullRequestReview]",
    f"GET {_REPO}/pulls/{{number}}/commits": "[Commit]",
    f"GET {_REPO}/pulls/{{number}}/files": "[DiffEntry]",
    f"GET {_REPO}/pulls/{{number}}/merge": NOTHING,
    f"PUT {_REPO}/pulls/{{number}}/merge": "PullRequestMergeResult",
    f"PUT {_REPO}/pulls/{{number}}/merge-async": UNPUBLISHED,
    f"GET {_REPO}/pulls/{{number}}/merge-async/{{uuid}}": UNPUBLISHED,
    f"PUT {_REPO}/pulls/{{number}}/update-branch": "ReposOwnerRepoPullsPullNumberUpdateBranchPutResponse202",
    f"POST {_REPO}/merges": "Commit",
}
"""Template -> name of the model; in brackets: a list, of any of the models named."""


@cache
def _model(names: str) -> Any:
    import githubkit_schemas.v2022_11_28.models as models

    inner = names.strip("[]").split()
    kinds = [getattr(models, name) for name in inner]
    union = kinds[0]
    for kind in kinds[1:]:
        union = union | kind
    container: Any = list
    return container[union] if names.startswith("[") else union


def check_answer(template: str, status: int, content: Any) -> None:
    """Raises what githubkit or Octokit's description says when a success does not fit GitHub's schema."""
    from githubkit.compat import type_validate_python

    octokit.check_answer(template, status, content)
    names = SCHEMAS[template]
    assert (content is None) == (names == NOTHING), f"{template}: content where none belongs, or the reverse"
    if names == UNPUBLISHED:
        check_merge_request(content)
    elif names != NOTHING:
        type_validate_python(_model(names), content)


def check_merge_request(content: Any) -> None:
    """Raises when an answer of `merge-async` has not the fields that belong to its status."""
    more = {
        "pending": {"uuid", "merge_method", "merge_action", "expected_head_sha"},
        "merged": {"sha"},
        "enqueued": set(),
        "failed": set(),
    }
    assert content.keys() == {"status", "details"}
    assert content["details"].keys() == {"message"} | more[content["status"]]


def check_webhook(event: str, payload: str) -> None:
    """Raises what githubkit or Octokit's description says when a webhook's payload does not fit GitHub's schema."""
    from githubkit import GitHub

    octokit.check_webhook(event, json.loads(payload))
    GitHub.webhooks("2022-11-28").parse(event, payload)


def next_link(header: str | None) -> str | None:
    """The address of the next page in a Link header."""
    found = re.search(r'<([^>]+)>; rel="next"', header or "")
    return found.group(1) if found else None
