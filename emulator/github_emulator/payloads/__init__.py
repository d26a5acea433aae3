"""GitHub's JSON, shared by the REST answers and the webhooks: one function per object, from a record to a dict.

Complete to GitHub's published schema of 2022-11-28. May not live here: anything that changes state, except that
showing a pull request asks for its `mergeable`, as on GitHub.
"""

from github_emulator.payloads.accounts import app, installation, integration, node_id, organization, team, user
from github_emulator.payloads.actions import artifact, concurrency_group, job, workflow, workflow_run
from github_emulator.payloads.checks import annotation, check_run, check_suite, combined_status, status, status_event
from github_emulator.payloads.commits import commit, file_change, git_commit, git_tag, git_user, push_commit
from github_emulator.payloads.issues import comment, issue, issue_event, label, review, review_comment, thread
from github_emulator.payloads.protection import full_protection
from github_emulator.payloads.pulls import merge_request, pull_request, pull_request_stub, simple_pull_request
from github_emulator.payloads.pushes import activity, push
from github_emulator.payloads.repositories import minimal_repository, repository, repository_stub, webhook_repository
from github_emulator.payloads.rules import branch_rules, protection_rule, ruleset, ruleset_heading
from github_emulator.payloads.times import timestamp

__all__ = [
    "artifact",
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
