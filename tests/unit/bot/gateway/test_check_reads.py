"""Check runs and commit statuses as one kind of report: the newest of each App and name, from all pages."""

from datetime import UTC, datetime
from typing import Any

import pytest

from bot.gateway import Gateway
from queue_engine.domain.errors import NotFound
from queue_engine.domain.facts import CheckState, RequiredCheck
from queue_engine.domain.model import Repository
from tests.unit.bot.answers import check_run, status
from tests.unit.bot.conftest import APP_ID
from tests.unit.bot.github_double import LACKING, GitHubDouble, Says

REPO = "/repos/ada/engine"
RUNS, STATUSES = f"{REPO}/commits/h1/check-runs", f"{REPO}/commits/h1/status"


@pytest.mark.parametrize(
    ("run", "expected"),
    [({"status": "completed", "conclusion": word}, CheckState.PASSED) for word in ("success", "neutral", "skipped")]
    + [
        ({"status": "completed", "conclusion": word}, CheckState.FAILED)
        for word in ("failure", "timed_out", "cancelled", "action_required", "stale", "startup_failure", None)
    ]
    + [
        ({"status": word, "conclusion": None}, CheckState.PENDING)
        for word in ("queued", "in_progress", "waiting", "requested", "pending")
    ],
)
async def test_check_run_state_follows_githubs_words(
    gateway: Gateway, github: GitHubDouble, repository: Repository, run: dict[str, Any], expected: CheckState
) -> None:
    """Success, neutral and skipped pass; any other conclusion fails; what is not completed is pending."""
    github.on("GET", RUNS, Says({"total_count": 1, "check_runs": [check_run(**run)]}))
    github.on("GET", STATUSES, Says({"statuses": []}))
    (report,) = await gateway.check_reports(repository, "h1", ())
    assert report.state is expected
    assert report.conclusion == (run["conclusion"] or run["status"])


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("success", CheckState.PASSED),
        ("pending", CheckState.PENDING),
        ("failure", CheckState.FAILED),
        ("error", CheckState.FAILED),
    ],
)
async def test_commit_status_state_follows_githubs_words(
    gateway: Gateway, github: GitHubDouble, repository: Repository, word: str, expected: CheckState
) -> None:
    """A commit status has no App; its page is its target."""
    github.on("GET", RUNS, Says({"check_runs": []}))
    github.on("GET", STATUSES, Says({"statuses": [status(state=word, target_url="https://ci.example/1")]}))
    (report,) = await gateway.check_reports(repository, "h1", ())
    assert (report.name, report.app_id, report.state, report.url) == ("lint", None, expected, "https://ci.example/1")


@pytest.mark.parametrize(
    ("picture", "app_id"),
    [
        ("https://avatars.githubusercontent.com/in/15368?v=4", 15368),
        ("https://github.example.com/avatars/in/7", 7),
        ("https://avatars.githubusercontent.com/u/15368?v=4", None),
        ("https://avatars.githubusercontent.com/u/1?x=/in/15368", None),
        ("https://elsewhere.example/u/1/avatars/in/15368", None),
        (None, None),
    ],
)
async def test_commit_status_names_its_app_by_its_avatar_alone(
    gateway: Gateway, github: GitHubDouble, repository: Repository, picture: str | None, app_id: int | None
) -> None:
    """An App's avatar has its id in the path, a person's has `/u/`; the combined status has nothing else."""
    github.on("GET", RUNS, Says({"check_runs": []}))
    github.on("GET", STATUSES, Says({"statuses": [status(avatar_url=picture)]}))
    (report,) = await gateway.check_reports(repository, "h1", ())
    assert report.app_id == app_id


async def test_check_reports_newest_run_per_app_and_name_wins(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """A rerun's failure is not hidden by an older success (prow #337), nor by another App's check of that name."""
    runs = [
        check_run(id=7, conclusion="failure", html_url="https://github.example/7", started_at="2026-01-02T03:00:00Z"),
        check_run(id=6, conclusion="success", started_at="2026-01-02T03:00:01Z"),
        check_run(id=8, app={"id": 16}),
        check_run(id=9, name="IMQ", app={"id": APP_ID}),
    ]
    github.on("GET", RUNS, Says({"check_runs": runs}))
    github.on("GET", STATUSES, Says({"statuses": [status(id=1, context="test"), status(id=2, state="error")]}))
    reports = await gateway.check_reports(repository, "h1", ())
    assert [(report.name, report.app_id, report.state) for report in reports] == [
        ("lint", None, CheckState.FAILED),
        ("test", None, CheckState.PASSED),
        ("test", 15, CheckState.FAILED),
        ("test", 16, CheckState.PASSED),
    ]
    failed = reports[2]
    assert failed.url == "https://github.example/7"
    assert failed.started_at == datetime(2026, 1, 2, 3, 0, tzinfo=UTC)


async def test_check_reports_read_all_pages_of_both(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """The failing check may stand on the second page."""
    more = {"link": f'<{github.url}/more-runs?page=2>; rel="next", <{github.url}/more-runs?page=2>; rel="last"'}
    github.on("GET", RUNS, Says({"check_runs": [check_run()]}, headers=more))
    github.on("GET", "/more-runs", Says({"check_runs": [check_run(id=2, name="slow", conclusion="failure")]}))
    more = {"link": f'<{github.url}/more-statuses>; rel="next"'}
    github.on("GET", STATUSES, Says({"statuses": [status()]}, headers=more))
    github.on("GET", "/more-statuses", Says({"statuses": [status(id=2, context="style")]}))
    assert [report.name for report in await gateway.check_reports(repository, "h1", ())] == [
        "lint",
        "slow",
        "style",
        "test",
    ]
    assert github.asked_for("GET", RUNS)[0].query == {"filter": "latest", "per_page": "100"}


async def test_check_reports_half_failing_raises_one_of_our_errors(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """Half of the truth is none."""
    github.on("GET", RUNS, Says({"check_runs": []}))
    with pytest.raises(NotFound):
        await gateway.check_reports(repository, "h1", ())


@pytest.mark.parametrize(
    ("required", "asked"),
    [
        ((RequiredCheck("test", 15),), 0),
        ((RequiredCheck("test", 15), RequiredCheck("lint", None)), 1),
        ((RequiredCheck("test", 15), RequiredCheck("slow", 15)), 1),
        ((RequiredCheck("test", 16),), 1),
        ((), 1),
    ],
)
async def test_check_reports_leave_statuses_out_only_where_none_can_matter(
    gateway: Gateway, github: GitHubDouble, repository: Repository, required: tuple[RequiredCheck, ...], asked: int
) -> None:
    """A request is saved when every required check is bound to an App and has a run of it."""
    github.on("GET", RUNS, Says({"check_runs": [check_run()]}))
    github.on("GET", STATUSES, Says({"statuses": [status()]}))
    reports = await gateway.check_reports(repository, "h1", required)
    assert len(github.asked_for("GET", STATUSES)) == asked
    assert len(reports) == 1 + asked


ACTIONS = {"id": 15, "slug": "github-actions"}
WORKFLOW_RUNS = f"{REPO}/actions/runs"


def job(number: int, suite: int, conclusion: str | None = "success") -> dict[str, Any]:
    """A run of the check `test` by GitHub Actions, in a suite."""
    status = "in_progress" if conclusion is None else "completed"
    return check_run(id=number, app=ACTIONS, check_suite={"id": suite}, conclusion=conclusion, status=status)


def run_of(suite: int, workflow: int, event: str, head: str = "h1") -> dict[str, Any]:
    """The workflow run of a suite; its number is ten times the suite's."""
    run = {"id": suite * 10, "workflow_id": workflow, "event": event, "check_suite_id": suite, "head_sha": head}
    return run | {"created_at": "2026-01-05T10:00:00Z"}


@pytest.mark.parametrize(
    ("jobs", "counted"),
    [
        ([job(1, 71, "failure"), job(2, 72)], {1, 2}),
        ([job(1, 71, "failure"), job(3, 73)], {1, 3}),
        ([job(1, 71, "failure"), job(4, 74)], {4}),
        ([job(1, 71, "failure"), job(5, 71)], {5}),
        ([job(1, 71, "failure"), job(4, 74, None)], {4}),
        ([job(1, 71, "cancelled"), job(3, 73)], {3}),
        ([job(1, 71, "cancelled"), job(2, 72)], {1, 2}),
        ([job(4, 71, "cancelled"), job(3, 73)], {3, 4}),
        ([job(1, 71, "failure"), job(9, 79)], {1, 9}),
    ],
    ids=[
        "another workflow",
        "another event",
        "the same workflow and event",
        "the same run",
        "the same, under way",
        "cancelled for another event",
        "cancelled, another workflow",
        "cancelled last",
        "a run that GitHub does not list",
    ],
)
async def test_jobs_of_one_name_count_per_workflow_and_event(
    gateway: Gateway, github: GitHubDouble, repository: Repository, jobs: list[Any], counted: set[int]
) -> None:
    """P1: a later success hides no failure of another workflow or event (wait-on-check-action #156)."""
    runs = [run_of(71, 1, "push"), run_of(72, 2, "push"), run_of(73, 1, "pull_request"), run_of(74, 1, "push")]
    github.on("GET", RUNS, Says({"check_runs": jobs}))
    github.on("GET", WORKFLOW_RUNS, Says({"workflow_runs": runs}))
    reports = await gateway.check_reports(repository, "h1", (RequiredCheck("test", 15),))
    assert {report.run_id for report in reports} == counted


@pytest.mark.parametrize(
    "jobs",
    [
        [job(1, 71), job(2, 72)],
        [job(1, 71), job(2, 72, None)],
        [job(1, 71, "failure"), check_run(id=2, name="lint", app=ACTIONS, check_suite={"id": 72})],
        [job(1, 71, "failure"), check_run(id=2, app={"id": 16, "slug": "other"}, check_suite={"id": 72})],
    ],
    ids=["all passed", "none failed", "other names", "other Apps"],
)
async def test_workflow_runs_are_asked_for_only_where_they_can_matter(
    gateway: Gateway, github: GitHubDouble, repository: Repository, jobs: list[Any]
) -> None:
    """P7: the request budget stays, but for jobs of one name of which one failed."""
    github.on("GET", RUNS, Says({"check_runs": jobs}))
    assert len(await gateway.check_reports(repository, "h1", (RequiredCheck("test", jobs[0]["app"]["id"]),))) == 2


async def test_workflow_runs_are_those_of_the_commit_and_none_where_they_may_not_be_read(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """Another commit's run is no proof of anything; who granted no `actions` loses reruns, not the queue."""
    parked = run_of(71, 1, "pull_request") | {"status": "completed", "conclusion": "action_required"}
    github.on("GET", WORKFLOW_RUNS, Says({"workflow_runs": [parked, run_of(72, 1, "push", head="h2")]}))
    (run,) = await gateway.workflow_runs(repository, "h1")
    assert (run.id, run.suite, run.awaits_approval, run.under_way) == (710, 71, True, False)
    github.on("GET", WORKFLOW_RUNS, Says({"message": "Resource not accessible by integration"}, 403, LACKING))
    assert await gateway.workflow_runs(repository, "h1") == ()


async def test_check_suites_name_the_own_one(gateway: Gateway, github: GitHubDouble, repository: Repository) -> None:
    """IMQ's own suite ends only when the pull request does."""
    suites = [
        {"id": 1, "app": {"id": APP_ID, "slug": "imq", "name": "IMQ"}, "status": "queued"},
        {"id": 2, "app": ACTIONS, "status": "queued", "latest_check_runs_count": 0},
    ]
    github.on("GET", f"{REPO}/commits/h1/check-suites", Says({"check_suites": suites}))
    own, suite = await gateway.check_suites(repository, "h1")
    assert own.own
    assert (suite.app, suite.by_actions, suite.under_way) == ("github-actions", True, True)
