"""Which events an app may be sent, by the permissions that it has."""

EVENT_PERMISSIONS = {
    "branch_protection_configuration": ("administration",),
    "branch_protection_rule": ("administration",),
    "check_run": ("checks",),
    "check_suite": ("checks",),
    "create": ("contents",),
    "delete": ("contents",),
    "issue_comment": ("issues", "pull_requests"),
    "label": ("issues", "pull_requests", "metadata"),
    "membership": ("members",),
    "pull_request": ("pull_requests",),
    "pull_request_review": ("pull_requests",),
    "pull_request_review_comment": ("pull_requests",),
    "pull_request_review_thread": ("pull_requests",),
    "push": ("contents",),
    "repository": ("metadata",),
    "repository_ruleset": ("administration",),
    "status": ("statuses",),
    "team": ("members",),
    "workflow_run": ("actions",),
}
"""Event -> permissions of which an installation needs one, at least to read."""
