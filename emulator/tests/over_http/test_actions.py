"""Running things again over HTTP: who may, and what GitHub answers when it cannot be done."""

from datetime import timedelta

from github_emulator import CheckRun, CISettings, Job
from over_http.conftest import PERMISSIONS, Client, R


async def failed(client: Client, name: str, workflow: str | None = None) -> CheckRun:
    """The failed first run of a CI on a new pull request."""
    settings = CISettings(duration=timedelta(seconds=1), plan=("failure",), workflow=workflow)
    client.repo.add_ci(name, settings)
    pull = client.repo.open_pull_request("Change", head="topic", by="ann", files={"b": "1\n"})
    await client.settle(5)
    run: CheckRun = pull.check_runs[0]
    return run


async def test_failed_jobs_of_actions_run_again_with_the_permission(client: Client) -> None:
    """`actions: write` is needed; the job's page names the run; a new run of the same name and head appears."""
    job = await failed(client, "unit", workflow="ci")
    listed = await client.get(f"{R}/commits/{job.head_sha}/check-runs")
    page: str = listed["check_runs"][0]["details_url"]
    run_id = page.split("/actions/runs/")[1].split("/job/")[0]
    place = f"{R}/actions/runs/{run_id}/rerun-failed-jobs"
    without = {name: level for name, level in PERMISSIONS.items() if name != "actions"}
    token = {"Authorization": f"Bearer {client.installation_token(without)}"}
    answer = await client.call("POST", place, 403, who="anonymous", headers=token)
    assert answer["message"] == "Resource not accessible by integration"
    await client.call("POST", place, 201)
    answer = await client.call("POST", place, 403)
    assert answer["message"] == "This workflow is already running"
    await client.settle(5)
    answer = await client.call("POST", place, 403)
    assert answer["message"] == "This workflow run cannot be retried"
    listed = await client.get(f"{R}/commits/{job.head_sha}/check-runs")
    assert [(run["name"], run["conclusion"]) for run in listed["check_runs"]] == [("unit", "success")]
    assert listed["check_runs"][0]["id"] > job.id
    await client.call("POST", f"{R}/actions/runs/1/rerun-failed-jobs", 404)


async def test_run_of_another_app_is_not_rerequested(client: Client) -> None:
    """An app asks for its own runs only. (GitHub's page on check runs: 403.)"""
    run = await failed(client, "ci/test")
    await client.call("POST", f"{R}/check-runs/{run.id}/rerequest", 403)
    own = await client.call("POST", f"{R}/check-runs", 201, json_body={"name": "IMQ", "head_sha": run.head_sha})
    await client.call("POST", f"{R}/check-runs/{own['id']}/rerequest", 201)
    await client.settle()
    received = [body for headers, body in client.receiver.received if headers["X-GitHub-Event"] == "check_run"]
    assert [body["check_run"]["id"] for body in received if body["action"] == "rerequested"] == [own["id"]]


async def test_runs_are_listed_by_what_identifies_them(client: Client) -> None:
    """By head, event, branch, status or conclusion; a run's jobs are its check runs; `refs/pull/N/merge` exists."""
    client.repo.add_workflow("Build", jobs=[Job("test", timedelta(seconds=1), plan=("failure",))])
    pull = client.repo.open_pull_request("Change", head="topic", by="ann", files={"b": "1\n"})
    client.repo.push("main", {"c": "1\n"}, by="maria")
    await client.settle(0)
    listed = await client.get(f"{R}/actions/runs?head_sha={pull.head_sha}")
    assert [(run["event"], run["name"], run["status"]) for run in listed["workflow_runs"]] == [
        ("pull_request", "Build", "in_progress"),
        ("push", "Build", "in_progress"),
    ]
    for query, count in (("event=push", 2), ("branch=topic", 2), ("status=in_progress", 3), ("status=failure", 0)):
        assert (await client.get(f"{R}/actions/runs?{query}"))["total_count"] == count, query
    run = listed["workflow_runs"][0]
    [job] = (await client.get(f"{R}/actions/runs/{run['id']}/jobs"))["jobs"]
    [check] = [
        one
        for one in (await client.get(f"{R}/commits/{pull.head_sha}/check-runs"))["check_runs"]
        if one["check_suite"]["id"] == run["check_suite_id"]
    ]
    assert (job["id"], job["html_url"]) == (check["id"], check["details_url"])
    refs = await client.get(f"{R}/git/matching-refs/pull/{pull.number}/")
    assert [ref["ref"] for ref in refs.content] == ["refs/pull/1/head", "refs/pull/1/merge"]
    await client.call("POST", f"{R}/actions/runs/{run['id']}/cancel", 202)
    answer = await client.call("POST", f"{R}/actions/runs/{run['id']}/cancel", 409)
    assert answer["message"] == "Cannot cancel a workflow run that is completed."


async def test_parked_run_is_approved_only_where_github_lets_it(client: Client) -> None:
    """A fork's run is; one that an app's push caused is not, and a filter by its conclusion may not even find it."""
    client.repo.record.app_approval = True
    client.repo.add_workflow(on=["pull_request"])
    pull = client.repo.open_pull_request("Change", head="topic", by="ann", files={"b": "1\n"})
    client.repo.push("main", {"c": "1\n"}, by="maria")
    await client.call("PUT", f"{R}/pulls/{pull.number}/update-branch", 202)
    await client.settle(5)
    [run] = (await client.get(f"{R}/actions/runs?head_sha={pull.head_sha}"))["workflow_runs"]
    assert (run["status"], run["conclusion"], run["actor"]["login"]) == ("completed", "action_required", "imq[bot]")
    answer = await client.call("POST", f"{R}/actions/runs/{run['id']}/approve", 403)
    assert answer["message"] == "This run is not from a fork pull request or queued by the Actions bot."
    for finds, count in ((False, 0), (True, 1)):
        client.github.actions.status_finds_parked = finds
        assert (await client.get(f"{R}/actions/runs?status=action_required"))["total_count"] == count
    assert (await client.get(f"{R}/commits/{pull.head_sha}/check-runs"))["total_count"] == 0
