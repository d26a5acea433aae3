"""GitHub Actions: workflows, their runs, and the jobs of these."""

from datetime import timedelta
from typing import Any
from urllib.parse import quote

from github_emulator.domain.checks.progress import page
from github_emulator.payloads.accounts import node_id, user
from github_emulator.payloads.checks import pulls_at
from github_emulator.payloads.commits import simple_commit
from github_emulator.payloads.repositories import api, html, minimal_repository
from github_emulator.payloads.source import Source
from github_emulator.payloads.times import timestamp
from github_emulator.state import Artifact, CheckRun, Repository, Workflow, WorkflowRun


def workflow(source: Source, record: Repository, found: Workflow) -> dict[str, Any]:
    """`workflow`."""
    page = f"{html(source, record)}/blob/{record.default_branch}/{found.path}"
    return {
        "id": found.id,
        "node_id": node_id("Workflow", found.id),
        "name": found.name,
        "path": found.path,
        "state": "active",
        "created_at": timestamp(found.created_at),
        "updated_at": timestamp(found.created_at),
        "url": f"{api(source, record)}/actions/workflows/{found.id}",
        "html_url": page,
        "badge_url": f"{html(source, record)}/actions/workflows/{found.path.rpartition('/')[2]}/badge.svg",
    }


def workflow_run(source: Source, run: WorkflowRun, *, webhook: bool = False) -> dict[str, Any]:
    """`workflow-run`; the repositories of a webhook's are the same minimal ones."""
    record, suite = run.repository, run.suite
    url = f"{api(source, record)}/actions/runs/{run.id}"
    head = run.pull.head_repository if run.pull else record
    commit = simple_commit(record, run.head_sha)
    shown = {
        "id": run.id,
        "name": run.workflow.name,
        "node_id": node_id("WorkflowRun", run.id),
        "head_branch": suite.head_branch,
        "head_sha": run.head_sha,
        "path": run.workflow.path,
        "display_title": run.pull.title if run.pull else commit["message"].partition("\n")[0],
        "run_number": run.number,
        "event": run.event,
        "status": suite.status,
        "conclusion": suite.conclusion,
        "workflow_id": run.workflow.id,
        "check_suite_id": suite.id,
        "check_suite_node_id": node_id("CheckSuite", suite.id),
        "url": url,
        "html_url": page(source.addresses, run),
        "pull_requests": pulls_at(source, record, run.head_sha),
        "created_at": timestamp(run.created_at),
        "updated_at": timestamp(suite.updated_at),
        "actor": user(source, run.actor),
        "run_attempt": run.attempt,
        "referenced_workflows": [],
        "run_started_at": timestamp(run.started_at or run.created_at),
        "triggering_actor": user(source, run.rerun_by or run.actor),
        "jobs_url": f"{url}/jobs",
        "logs_url": f"{url}/logs",
        "check_suite_url": f"{api(source, record)}/check-suites/{suite.id}",
        "artifacts_url": f"{url}/artifacts",
        "cancel_url": f"{url}/cancel",
        "rerun_url": f"{url}/rerun",
        "previous_attempt_url": f"{url}/attempts/{run.attempt - 1}" if run.attempt > 1 else None,
        "workflow_url": f"{api(source, record)}/actions/workflows/{run.workflow.id}",
        "head_commit": commit,
        "repository": minimal_repository(source, record),
        "head_repository": minimal_repository(source, head or record),
    }
    if not webhook:
        shown["head_repository_id"] = (head or record).id
    return shown


def artifact(source: Source, run: WorkflowRun, found: Artifact) -> dict[str, Any]:
    """`artifact`."""
    url = f"{api(source, run.repository)}/actions/artifacts/{found.id}"
    return {
        "id": found.id,
        "node_id": node_id("Artifact", found.id),
        "name": found.name,
        "size_in_bytes": len(found.content),
        "url": url,
        "archive_download_url": f"{url}/zip",
        "expired": found.expired,
        "created_at": timestamp(found.created_at),
        "expires_at": timestamp(found.created_at + timedelta(days=90)),
        "updated_at": timestamp(found.created_at),
        "workflow_run": {
            "id": run.id,
            "repository_id": run.repository.id,
            "head_repository_id": run.repository.id,
            "head_branch": run.suite.head_branch,
            "head_sha": run.head_sha,
        },
    }


def concurrency_group(source: Source, record: Repository, name: str, runs: list[WorkflowRun]) -> dict[str, Any]:
    """`concurrency-group`, of runs alone."""
    url = f"{api(source, record)}/actions"
    members = [
        {
            "run_id": run.id,
            "run_name": run.workflow.name,
            "run_url": f"{url}/runs/{run.id}",
            "run_html_url": page(source.addresses, run),
            "status": "in_progress",
        }
        for run in runs
    ]
    group = {"group_name": name, "group_url": f"{url}/concurrency_groups/{quote(name, safe='')}"}
    return group | {"total_count": len(members), "group_members": members}


def job(source: Source, run: WorkflowRun, check: CheckRun) -> dict[str, Any]:
    """`job`. Its number is its check run's."""
    url = f"{api(source, run.repository)}/actions"
    refused = any(each["message"].startswith("The job was not started") for each in check.annotations)
    is_taken = check.status in ("in_progress", "completed") and check.conclusion != "skipped" and not refused
    return {
        "id": check.id,
        "run_id": run.id,
        "workflow_name": run.workflow.name,
        "head_branch": run.suite.head_branch,
        "run_url": f"{url}/runs/{run.id}",
        "run_attempt": check.attempt,
        "node_id": node_id("CheckRun", check.id),
        "head_sha": run.head_sha,
        "url": f"{url}/jobs/{check.id}",
        "html_url": check.details_url,
        "status": check.status,
        "conclusion": check.conclusion,
        "created_at": timestamp(check.created_at),
        "started_at": timestamp(check.started_at),
        "completed_at": timestamp(check.completed_at),
        "name": check.name,
        "steps": [],
        "check_run_url": f"{api(source, run.repository)}/check-runs/{check.id}",
        "labels": list(check.labels),
        "runner_id": 1 if is_taken else 0,
        "runner_name": "GitHub Actions 1" if is_taken else "",
        "runner_group_id": 0,
        "runner_group_name": "GitHub Actions" if is_taken else "",
    }
