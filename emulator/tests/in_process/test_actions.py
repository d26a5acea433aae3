"""CI that fails by plan, and GitHub Actions, whose jobs are run again through their workflow run."""

from datetime import timedelta

import pytest

from github_emulator import Actor, CheckRun, CISettings, Forbidden, GitHub, Invalid, RepositoryHandle, WorkflowRun
from in_process.conftest import PublishedEvents

MINUTE = timedelta(minutes=1)


def runs(repository: RepositoryHandle, sha: str) -> list[tuple[str, str | None]]:
    """Name and conclusion of every run on a commit, oldest first."""
    return [(run.name, run.conclusion) for run in repository.record.runs_by_sha[sha]]


def workflow_run(repository: RepositoryHandle) -> WorkflowRun:
    """The only workflow run there is."""
    (run,) = repository.record.workflow_runs.values()
    return run


async def test_ci_flaky_by_plan_passes_when_it_is_run_again(
    github: GitHub, repository: RepositoryHandle, published: PublishedEvents
) -> None:
    """A person presses Re-run: its app gets it, a new run of a new id starts, and the tree is judged after all."""
    repository.add_ci(settings=CISettings(duration=MINUTE, plan=("failure",)))
    sha = repository.push("one", {"one": "1"})
    await github.advance(MINUTE)
    old = github.checks.latest_runs(repository.record, sha)[0]
    repository.rerun(old, by="ann")
    await github.advance(MINUTE)
    assert runs(repository, sha) == [("ci/test", "failure"), ("ci/test", "success")]
    assert github.checks.latest_runs(repository.record, sha)[0].id > old.id
    # Only the check's own app hears that it was asked for again; the observer is nobody's app and sees all.
    assert published.names().count("check_run.rerequested") == 1


@pytest.mark.parametrize("conclusion", ["timed_out", "cancelled", "stale", "startup_failure", "action_required"])
async def test_ci_breaks_down_by_plan(github: GitHub, repository: RepositoryHandle, conclusion: str) -> None:
    """What is no verdict on the change comes as what it is; as a status it is an error."""
    repository.add_ci(settings=CISettings(duration=MINUTE, plan=(conclusion,)))
    repository.add_ci("ci/old", settings=CISettings(status=True, duration=MINUTE, plan=(conclusion,)))
    sha = repository.push("one", {"one": "1"})
    await github.advance(MINUTE)
    assert runs(repository, sha) == [("ci/test", conclusion)]
    assert github.checks.latest_statuses(repository.record, sha)[0].state == "error"


async def test_actions_failed_jobs_run_again_and_others_stand(github: GitHub, repository: RepositoryHandle) -> None:
    """Both jobs belong to one workflow run, which their pages name; the one that passed is not run again."""
    repository.add_ci("unit", settings=CISettings(workflow="ci", duration=MINUTE, plan=("failure",)))
    repository.add_ci("lint", settings=CISettings(workflow="ci", duration=MINUTE))
    sha = repository.push("one", {"one": "1"})
    await github.settle()
    with pytest.raises(Forbidden, match="This workflow is already running"):
        repository.rerun(repository.record.runs_by_sha[sha][0], by="ann")
    await github.advance(MINUTE)
    run = workflow_run(repository)
    pages = [job.details_url or "" for job in run.jobs]
    assert all(page.endswith(f"/actions/runs/{run.id}/job/{job.id}") for page, job in zip(pages, run.jobs, strict=True))
    github.actions.rerun(run, actor=github.actor("ann"), failed_only=True)
    await github.advance(MINUTE)
    assert runs(repository, sha) == [("unit", "failure"), ("lint", "success"), ("unit", "success")]
    assert run.attempt == 2
    assert len(repository.record.workflow_runs) == 1


@pytest.mark.parametrize("conclusion", ["success", "startup_failure"])
async def test_actions_without_failed_jobs_cannot_be_retried(
    github: GitHub, repository: RepositoryHandle, conclusion: str
) -> None:
    """Neither a run that passed nor one that died before it had jobs; the whole run can be started again."""
    repository.add_ci("unit", settings=CISettings(workflow="ci", duration=MINUTE, plan=(conclusion,)))
    sha = repository.push("one", {"one": "1"})
    await github.advance(MINUTE)
    with pytest.raises(Forbidden, match="This workflow run cannot be retried"):
        github.actions.rerun(workflow_run(repository), actor=github.actor("ann"), failed_only=True)
    github.actions.rerun(workflow_run(repository), actor=github.actor("ann"))
    await github.advance(MINUTE)
    assert len(runs(repository, sha)) == 2


async def test_actions_run_of_last_month_cannot_be_retried(github: GitHub, repository: RepositoryHandle) -> None:
    """GitHub keeps runs retriable for thirty days."""
    repository.add_ci("unit", settings=CISettings(workflow="ci", duration=MINUTE, plan=("failure",)))
    repository.push("one", {"one": "1"})
    await github.advance(timedelta(days=31))
    with pytest.raises(Forbidden, match="created over a month ago"):
        github.actions.rerun(workflow_run(repository), actor=github.actor("ann"), failed_only=True)


async def test_actions_job_is_not_rerequested_through_the_checks(github: GitHub, repository: RepositoryHandle) -> None:
    """Another app's run is not an app's to ask for; no app may ask for a job of Actions."""
    actions = repository.add_ci("unit", settings=CISettings(workflow="ci", duration=MINUTE))
    other = repository.add_ci("ci/test", settings=CISettings(duration=MINUTE))
    sha = repository.push("one", {"one": "1"})
    await github.advance(MINUTE)
    by_name: dict[str, CheckRun] = {run.name: run for run in repository.record.runs_by_sha[sha]}
    stranger = Actor(other.app.bot, other.app)
    with pytest.raises(Forbidden):
        github.checks.rerequest(by_name["unit"], actor=stranger)
    with pytest.raises(Invalid, match="not rerequestable"):
        github.checks.rerequest(by_name["unit"], actor=Actor(actions.app.bot, actions.app))
    github.checks.rerequest(by_name["ci/test"], actor=stranger)


async def test_ci_red_on_the_base_is_red_on_everything_built_on_it(
    github: GitHub, repository: RepositoryHandle
) -> None:
    """A bad file on the base fails the base's tip and each branch that contains it, until somebody fixes it."""
    repository.add_ci(settings=CISettings(duration=MINUTE, judge=lambda files: "bad" not in files))
    red = repository.push("main", {"bad": "1"})
    pull = repository.open_pull_request("One", head="one", files={"one": "1"})
    mended = repository.push("main", {"bad": None})
    await github.advance(MINUTE)
    assert [runs(repository, sha)[0][1] for sha in (red, pull.head_sha, mended)] == ["failure", "failure", "success"]
