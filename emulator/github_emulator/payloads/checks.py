"""Check runs, check suites and commit statuses."""

from collections.abc import Sequence
from typing import Any

from github_emulator.payloads.accounts import avatar, integration, node_id, user
from github_emulator.payloads.commits import commit, simple_commit
from github_emulator.payloads.pulls import pull_request_stub
from github_emulator.payloads.repositories import api, html, minimal_repository
from github_emulator.payloads.source import Source
from github_emulator.payloads.times import timestamp
from github_emulator.state import CheckRun, CheckSuite, CommitStatus, Repository


def check_run(source: Source, run: CheckRun) -> dict[str, Any]:
    """`check-run`."""
    url = f"{api(source, run.repository)}/check-runs/{run.id}"
    page = f"{html(source, run.repository)}/runs/{run.id}"
    suite = run.suite
    return {
        "id": run.id,
        "name": run.name,
        "node_id": node_id("CheckRun", run.id),
        "head_sha": run.head_sha,
        "external_id": run.external_id,
        "url": url,
        "html_url": page,
        "details_url": run.details_url or page,
        "status": run.status,
        "conclusion": run.conclusion,
        "started_at": timestamp(run.started_at),
        "completed_at": timestamp(run.completed_at),
        "output": {
            "title": run.output.get("title"),
            "summary": run.output.get("summary"),
            "text": run.output.get("text"),
            "annotations_count": len(run.annotations),
            "annotations_url": f"{url}/annotations",
        },
        "check_suite": _suite(source, suite),
        "app": integration(source, run.app),
        "pull_requests": pulls_at(source, run.repository, run.head_sha),
    }


def annotation(source: Source, record: Repository, found: dict[str, Any]) -> dict[str, Any]:
    """`check-annotation`."""
    optional = dict.fromkeys(("start_column", "end_column", "title", "raw_details"))
    return {**optional, **found, "blob_href": f"{html(source, record)}/blob/{record.default_branch}/{found['path']}"}


def check_suite(source: Source, suite: CheckSuite, *, webhook: bool = False) -> dict[str, Any]:
    """`check-suite`; in a webhook without its repository."""
    record = suite.repository
    shown = _suite(source, suite) | {
        "head_commit": simple_commit(record, suite.head_sha),
        "latest_check_runs_count": len({run.name for run in suite.runs}),
        "check_runs_url": f"{api(source, record)}/check-suites/{suite.id}/check-runs",
        "rerequestable": True,
        "runs_rerequestable": True,
    }
    return shown if webhook else shown | {"repository": minimal_repository(source, record)}


def status(source: Source, record: Repository, found: CommitStatus) -> dict[str, Any]:
    """`status`, of the list of all statuses."""
    return {
        "url": f"{api(source, record)}/statuses/{found.sha}",
        "avatar_url": avatar(source, found.creator),
        "id": found.id,
        "node_id": node_id("StatusContext", found.id),
        "state": found.state,
        "description": found.description,
        "target_url": found.target_url,
        "context": found.context,
        "created_at": timestamp(found.created_at),
        "updated_at": timestamp(found.created_at),
        "creator": user(source, found.creator),
    }


def combined_status(
    source: Source, record: Repository, sha: str, page: Sequence[CommitStatus] | None = None
) -> dict[str, Any]:
    """`combined-commit-status`: the newest of each context (or a page of them) and all in one word."""
    latest = source.checks.latest_statuses(record, sha)
    shown = [status(source, record, found) for found in (latest if page is None else page)]
    for found in shown:
        del found["creator"]
        found["required"] = False
    return {
        "state": source.checks.combined_state(record, sha),
        "statuses": shown,
        "sha": sha,
        "total_count": len(latest),
        "repository": minimal_repository(source, record),
        "commit_url": f"{api(source, record)}/commits/{sha}",
        "url": f"{api(source, record)}/commits/{sha}/status",
    }


def status_event(source: Source, record: Repository, found: CommitStatus) -> dict[str, Any]:
    """The own fields of a `status` webhook."""
    branches = [name for name, tip in record.git.branches().items() if tip == found.sha]
    url = f"{api(source, record)}/commits/{found.sha}"
    return {
        "id": found.id,
        "sha": found.sha,
        "name": record.full_name,
        "avatar_url": avatar(source, found.creator),
        "target_url": found.target_url,
        "context": found.context,
        "description": found.description,
        "state": found.state,
        "commit": commit(source, record, record.git.must(found.sha)),
        "branches": [
            {"name": name, "commit": {"sha": found.sha, "url": url}, "protected": _protected(source, record, name)}
            for name in branches
        ],
        "created_at": timestamp(found.created_at),
        "updated_at": timestamp(found.created_at),
    }


def _suite(source: Source, suite: CheckSuite) -> dict[str, Any]:
    return {
        "id": suite.id,
        "node_id": node_id("CheckSuite", suite.id),
        "head_branch": suite.head_branch,
        "head_sha": suite.head_sha,
        "status": suite.status,
        "conclusion": suite.conclusion,
        "url": f"{api(source, suite.repository)}/check-suites/{suite.id}",
        "before": suite.before,
        "after": suite.head_sha,
        "pull_requests": pulls_at(source, suite.repository, suite.head_sha),
        "app": integration(source, suite.app),
        "created_at": timestamp(suite.created_at),
        "updated_at": timestamp(suite.updated_at),
    }


def pulls_at(source: Source, record: Repository, sha: str) -> list[dict[str, Any]]:
    """Open pull requests with this head; never those from forks, as on GitHub."""
    return [
        pull_request_stub(source, pull)
        for pull in record.pulls.values()
        if pull.state == "open" and pull.head_sha == sha and not pull.from_fork
    ]


def _protected(source: Source, record: Repository, branch: str) -> bool:
    return source.rules.protection(record, branch) is not None
