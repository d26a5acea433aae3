"""Endpoints of check runs and check suites."""

from datetime import UTC, datetime
from functools import partial
from typing import Any

from github_emulator import payloads
from github_emulator.callers.errors import Refusal, invalid_request, not_found
from github_emulator.domain.checks.checks import CheckRunFields
from github_emulator.rest.answer import Answer
from github_emulator.rest.call import Call
from github_emulator.rest.routing import Routes
from github_emulator.state import CheckRun

routes = Routes("checks/runs")
_READ, _WRITE = "checks=read", "checks=write"
_STATUSES = ("queued", "in_progress", "completed", "waiting", "requested", "pending")
_CONCLUSIONS = ("action_required", "cancelled", "failure", "neutral", "success", "skipped", "stale", "timed_out")


@routes.repository("GET", "/commits/{ref}/check-runs", _READ, docs="#list-check-runs-for-a-git-reference")
def list_for_ref(call: Call) -> Answer:
    """The runs on a commit, newest first; with `filter=latest` only the newest of each app and name."""
    sha = resolve(call, call.params["ref"])
    checks, query = call.github.checks, call.query
    everything = query.get("filter", "latest") == "all"
    runs = (checks.runs if everything else checks.latest_runs)(call.repository, sha)
    wanted = {"name": query.get("check_name"), "status": query.get("status")}
    for field, value in wanted.items():
        if value is not None:
            runs = [run for run in runs if getattr(run, field) == value]
    if "app_id" in query:
        runs = [run for run in runs if str(run.app.id) == query["app_id"]]
    return call.counted_page("check_runs", runs, partial(payloads.check_run, call.github.source))


@routes.repository(
    "GET", "/commits/{ref}/check-suites", _READ, docs="checks/suites#list-check-suites-for-a-git-reference"
)
def list_suites(call: Call) -> Answer:
    """The suites on a commit, oldest first."""
    suites = call.github.checks.suites(call.repository, resolve(call, call.params["ref"]))
    if "app_id" in call.query:
        suites = [suite for suite in suites if str(suite.app.id) == call.query["app_id"]]
    return call.counted_page("check_suites", suites, partial(payloads.check_suite, call.github.source))


@routes.repository("POST", "/check-runs", _WRITE, role="write", creates=True, docs="#create-a-check-run")
def create(call: Call) -> Answer:
    """A new run of the calling app."""
    app = call.app
    name, sha = call.take("name", str), call.take("head_sha", str)
    run = call.github.checks.create_run(call.repository, app=app, name=name, head_sha=sha, fields=_fields(call))
    return Answer(payloads.check_run(call.github.source, run), 201)


@routes.repository("GET", "/check-runs/{check_run_id}", _READ, docs="#get-a-check-run")
def get(call: Call) -> Answer:
    """One run."""
    return Answer(payloads.check_run(call.github.source, _run(call)))


@routes.repository("GET", "/check-runs/{check_run_id}/annotations", _READ, docs="#list-check-run-annotations")
def list_annotations(call: Call) -> Answer:
    """What a run says of lines of files, and of the run itself."""
    return call.page(_run(call).annotations, partial(payloads.annotation, call.github.source, call.repository))


@routes.repository("PATCH", "/check-runs/{check_run_id}", _WRITE, role="write", docs="#update-a-check-run")
def update(call: Call) -> Answer:
    """Changes a run of the calling app."""
    app, run = call.app, _run(call)
    if run.app is not app:
        raise Refusal(
            403,
            "Invalid app_id `" + str(app.id) + "` - check run can only be modified by the GitHub App that created it.",
        )
    call.github.checks.update_run(run, _fields(call))
    return Answer(payloads.check_run(call.github.source, run))


@routes.repository("POST", "/check-runs/{check_run_id}/rerequest", _WRITE, role="write", docs="#rerequest-a-check-run")
def rerequest(call: Call) -> Answer:
    """Asks the run's app to run it again. An app may ask for its own runs only."""
    run = _run(call)
    call.github.checks.rerequest(run, actor=call.actor)
    empty: dict[str, Any] = {}
    return Answer(empty, 201)


def resolve(call: Call, ref: str) -> str:
    """The commit that a ref in the path names. Raises 422 as GitHub does."""
    sha = call.repository.git.resolve(ref)
    if sha is None:
        raise Refusal(422, f"No commit found for SHA: {ref}")
    return sha


def _run(call: Call) -> CheckRun:
    run = call.repository.runs.get(call.number("check_run_id"))
    if run is None:
        raise not_found()
    return run


def _fields(call: Call) -> CheckRunFields:
    """The fields that creation and change share; only those that were sent.

    GitHub refuses null for a string (NVIDIA/NemoClaw #7065; EnricoMi/publish-unit-test-result-action #48).
    """
    fields: dict[str, Any] = {
        name: call.take(name, str)
        for name in ("name", "status", "conclusion", "details_url", "external_id")
        if name in call.data
    }
    for name, choices in (("status", _STATUSES), ("conclusion", _CONCLUSIONS)):
        if fields.get(name) is not None and fields[name] not in choices:
            raise invalid_request(f"For 'properties/{name}', {fields[name]} is not a member of {list(choices)}.")
    if fields.get("status") == "completed" and fields.get("conclusion") is None:
        raise invalid_request('"conclusion" wasn\'t supplied.')
    for name in ("started_at", "completed_at"):
        if call.data.get(name) is not None:
            fields[name] = _instant(call, name)
    if "output" in call.data:
        fields["output"] = _output(call.take("output", dict))
    return CheckRunFields(**fields)


def _output(output: dict[str, Any]) -> dict[str, Any]:
    for name in ("title", "summary"):
        if not isinstance(output.get(name), str):
            raise invalid_request(f'"{name}" wasn\'t supplied.')
    if len(output["summary"]) > 65535:
        raise invalid_request("Only 65535 characters are allowed in summary.")
    return output


def _instant(call: Call, name: str) -> datetime:
    text = call.take(name, str)
    try:
        instant = datetime.fromisoformat(text)
    except ValueError as error:
        raise invalid_request(f"For 'properties/{name}', {text} is not a valid date-time.") from error
    return instant if instant.tzinfo is not None else instant.replace(tzinfo=UTC)
