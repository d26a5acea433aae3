"""GitHub's JSON, shared by the REST answers and the webhooks: one function per object, from a record to a dict.

Complete to GitHub's published schema of 2022-11-28. May not live here: anything that changes state, except that
showing a pull request asks for its `mergeable`, as on GitHub.
"""

from sandbox.payloads.accounts import app, installation, integration, node_id, organization, team, user
from sandbox.payloads.actions import concurrency_group, job, workflow, workflow_run
from sandbox.payloads.checks import annotation, check_run, check_suite, combined_status, status, status_event
from sandbox.payloads.commits import commit, file_change, git_commit, git_tag, git_user, push_commit
from sandbox.payloads.issues import comment, issue, issue_event, label, review, review_comment, thread
from sandbox.payloads.protection import full_protection
from sandbox.payloads.pulls import merge_request, pull_request, pull_request_stub, simple_pull_request
from sandbox.payloads.pushes import activity, push
from sandbox.payloads.repositories import minimal_repository, repository, repository_stub, webhook_repository
from sandbox.payloads.rules import branch_rules, protection_rule, ruleset, ruleset_heading
from sandbox.payloads.times import timestamp

__all__ = [
    "app",
    "installation",
    "integration",
    "organization",
    "team",
    "user",
    "git_user",
    "node_id",
    "timestamp",
    "repository",
    "minimal_repository",
    "webhook_repository",
    "repository_stub",
    "pull_request",
    "simple_pull_request",
    "pull_request_stub",
    "merge_request",
    "issue",
    "issue_event",
    "comment",
    "label",
    "review",
    "review_comment",
    "thread",
    "workflow",
    "workflow_run",
    "job",
    "check_run",
    "annotation",
    "concurrency_group",
    "check_suite",
    "status",
    "combined_status",
    "status_event",
    "commit",
    "git_commit",
    "git_tag",
    "push",
    "activity",
    "push_commit",
    "file_change",
    "full_protection",
    "protection_rule",
    "ruleset",
    "ruleset_heading",
    "branch_rules",
]
