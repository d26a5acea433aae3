"""Check runs, suites and statuses."""

import pytest

from github_emulator import Actor, App, CheckRunFields, Forbidden, GitHub, RepositoryHandle
from in_process.conftest import PublishedEvents


@pytest.fixture
def ci(github: GitHub) -> App:
    app = github.create_app("ci", permissions={"checks": "write"})
    github.install(app, "octo")
    return app


def test_push_requests_a_suite_of_each_app_that_may_write_checks(
    github: GitHub, repository: RepositoryHandle, ci: App, published: PublishedEvents
) -> None:
    """GitHub makes an empty, queued suite for each such app."""
    github.install(github.create_app("reader", permissions={"checks": "read"}), "octo")
    sha = repository.push("one", {"a": "1"})
    suites = github.checks.suites(repository.record, sha)
    assert [(suite.app, suite.status, suite.head_branch, suite.runs) for suite in suites] == [(ci, "queued", "one", [])]
    assert published.names().count("check_suite.requested") == 1


def test_run_walks_from_queued_to_completed_and_its_suite_follows(
    github: GitHub, repository: RepositoryHandle, ci: App, published: PublishedEvents
) -> None:
    """Created and completed are published; the suite's conclusion is the worst of its runs."""
    sha = repository.sha()
    checks = github.checks
    good = checks.create_run(repository.record, app=ci, name="good", head_sha=sha)
    bad = checks.create_run(
        repository.record, app=ci, name="bad", head_sha=sha, fields=CheckRunFields(status="in_progress")
    )
    assert good.suite is bad.suite
    assert good.suite.status == "in_progress"
    checks.update_run(good, CheckRunFields(conclusion="success"))
    assert (good.status, good.suite.status) == ("completed", "in_progress")
    checks.update_run(bad, CheckRunFields(conclusion="failure", output={"title": "Red"}))
    assert (bad.suite.status, bad.suite.conclusion) == ("completed", "failure")
    names = [name for name in published.names() if name.startswith("check_run")]
    assert names == ["check_run.created", "check_run.created", "check_run.completed", "check_run.completed"]
    assert published.last("check_suite", "completed")["check_suite"]["conclusion"] == "failure"
    assert published.last("check_run", "completed")["check_run"]["output"]["title"] == "Red"


def test_latest_runs_keep_the_newest_per_app_and_name(github: GitHub, repository: RepositoryHandle, ci: App) -> None:
    """An older run of the same app and name is history."""
    sha, checks = repository.sha(), github.checks
    other = github.create_app("other", permissions={"checks": "write"})
    for app, conclusion in ((ci, "success"), (ci, "failure"), (other, "neutral")):
        checks.create_run(
            repository.record, app=app, name="ci/test", head_sha=sha, fields=CheckRunFields(conclusion=conclusion)
        )
    newest = {run.app.slug: run.conclusion for run in checks.latest_runs(repository.record, sha)}
    assert newest == {"ci": "failure", "other": "neutral"}
    assert len(checks.runs(repository.record, sha)) == 3


def test_rerequest_publishes_and_reopens_the_suite(
    github: GitHub, repository: RepositoryHandle, ci: App, published: PublishedEvents
) -> None:
    """The run stays as it is, its suite waits; another app may not ask."""
    run = github.checks.create_run(
        repository.record,
        app=ci,
        name="ci/test",
        head_sha=repository.sha(),
        fields=CheckRunFields(conclusion="failure"),
    )
    stranger = github.create_app("stranger", permissions={"checks": "write"})
    with pytest.raises(Forbidden):
        github.checks.rerequest(run, actor=Actor(stranger.bot, stranger))
    github.checks.rerequest(run, actor=github.actor("bob"))
    assert (run.conclusion, run.suite.status) == ("failure", "queued")
    assert published.last("check_run", "rerequested")["sender"]["login"] == "bob"


def test_statuses_combine_the_newest_of_each_context(github: GitHub, repository: RepositoryHandle) -> None:
    """No status is pending; one red is failure; the newest report of a context counts."""
    sha, ann = repository.sha(), github.actor("ann")
    states = [github.checks.combined_state(repository.record, sha)]
    for context, state in (("a", "success"), ("b", "error"), ("b", "success"), ("c", "pending")):
        github.checks.create_status(repository.record, sha, actor=ann, state=state, context=context)
        states.append(github.checks.combined_state(repository.record, sha))
    assert states == ["pending", "success", "failure", "success", "pending"]
