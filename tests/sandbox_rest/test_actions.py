"""Running things again over HTTP: who may, and what GitHub answers when it cannot be done."""

from datetime import timedelta

from sandbox.state import CheckRun
from tests.sandbox_rest.conftest import PERMISSIONS, Client, R


async def failed(client: Client, name: str, **options: object) -> CheckRun:
    """The failed first run of a CI on a new pull request."""
    client.repo.add_ci(name, duration=timedelta(seconds=1), plan=("failure",), **options)
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
    seen = await client.call("POST", place, 403, who="nobody", headers=token)
    assert seen["message"] == "Resource not accessible by integration"
    await client.call("POST", place, 201)
    seen = await client.call("POST", place, 403)
    assert seen["message"] == "This workflow is already running"
    await client.settle(5)
    seen = await client.call("POST", place, 403)
    assert seen["message"] == "This workflow run cannot be retried"
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
    told = [body for headers, body in client.receiver.received if headers["X-GitHub-Event"] == "check_run"]
    assert [body["check_run"]["id"] for body in told if body["action"] == "rerequested"] == [own["id"]]
