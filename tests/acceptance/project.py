"""The project that the worlds of acceptance tests begin with: its files, its check, and what the App may do."""

from typing import Any

PERMISSIONS = {
    "actions": "write",
    "administration": "read",
    "checks": "write",
    "contents": "write",
    "issues": "write",
    "metadata": "read",
    "pull_requests": "write",
    "statuses": "read",
}
EVENTS = (
    "branch_protection_configuration",
    "branch_protection_rule",
    "check_run",
    "check_suite",
    "issue_comment",
    "label",
    "pull_request",
    "pull_request_review",
    "pull_request_review_thread",
    "push",
    "repository",
    "repository_ruleset",
    "status",
)
FILES = {"README.md": "Widgets\n", "app.py": "one\ntwo\nthree\n", "limits.txt": "0\n"}


def total_at_most_ten(files: Any) -> bool:
    """The tree is green while the numbers in all `*.txt` files add up to at most ten: green alone, red together."""
    return sum(int(text) for path, text in files.items() if path.endswith(".txt")) <= 10
