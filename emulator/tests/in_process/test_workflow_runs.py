"""Workflow runs of GitHub Actions: which events begin one, what it tests, and what it reports."""

from datetime import timedelta
from typing import Literal

import pytest

from github_emulator import (
    Actor,
    CheckRun,
    Conflict,
    Forbidden,
    GitHub,
    Job,
    PullRequestHandle,
    RepositoryHandle,
    Trigger,
)
from in_process.conftest import PublishedEvents, edited

MINUTE = timedelta(minutes=1)
PULLS = [Trigger("pull_request")]


def opened(repository: RepositoryHandle, **files: str) -> PullRequestHandle:
    """A pull request of this repository."""
    return repository.open_pull_request("One", head="one", by="ann", files=files or {"one": "1"})


def by_suite(github: GitHub, pull: PullRequestHandle) -> dict[str, list[tuple[str, str | None]]]:
    """Event -> name and conclusion of the latest runs on a pull request's head."""
    found: dict[str, list[tuple[str, str | None]]] = {}
    for run in github.checks.latest_runs(pull.record.repository, pull.head_sha):
        assert run.workflow_run is not None
        found.setdefault(run.workflow_run.event, []).append((run.name, run.conclusion))
    return found


def newest(pull: PullRequestHandle) -> CheckRun:
    """The newest run on the head."""
    return pull.check_runs[0]


async def test_workflow_on_push_and_pull_request_reports_twice(github: GitHub, repository: RepositoryHandle) -> None:
    """Two suites, each with a run of that name; `latest` drops only what the same suite has newer."""
    repository.add_workflow(jobs=[Job("test", MINUTE, plan=("failure",))])
    pull = opened(repository)
    await github.advance(MINUTE)
    assert by_suite(github, pull) == {"push": [("test", "failure")], "pull_request": [("test", "failure")]}
    assert len({run.suite.id for run in pull.check_runs}) == 2
    repository.rerun(newest(pull), by="ann")
    await github.advance(MINUTE)
    assert by_suite(github, pull) == {"push": [("test", "failure")], "pull_request": [("test", "success")]}
    assert len(pull.check_runs) == 3


@pytest.mark.parametrize(("same_name", "refused"), [("newest", False), ("all", True)])
async def test_required_check_of_two_workflows_is_ambiguous(
    github: GitHub, repository: RepositoryHandle, same_name: Literal["newest", "all"], refused: bool
) -> None:
    """A failure stands beside a later success of the same name: GitHub's answer is one of the two."""
    github.checks.same_name = same_name
    repository.protect("main", required_checks=["test"])
    repository.add_workflow("First", jobs=[Job("test", MINUTE, plan=("failure",))], on=PULLS)
    repository.add_workflow("Second", jobs=[Job("test", MINUTE)], on=PULLS)
    pull = opened(repository)
    await github.advance(MINUTE)
    assert bool(github.merge_rules.merge_violations(pull.record)) is refused


async def test_workflow_of_pull_request_tests_the_merge_with_the_base(
    github: GitHub, repository: RepositoryHandle
) -> None:
    """`refs/pull/N/merge` is tested, as the base was then; a rerun tests the same commit; the head gets the report."""
    repository.push("main", {"two": "1"})
    repository.create_branch("one", repository.log()[1].sha)
    repository.add_workflow(jobs=[Job("test", MINUTE, judge=lambda files: not {"one", "two"} <= files.keys())])
    pull = opened(repository)
    await github.advance(MINUTE)
    assert by_suite(github, pull) == {"push": [("test", "success")], "pull_request": [("test", "failure")]}
    run = next(run for run in repository.record.workflow_runs.values() if run.event == "pull_request")
    assert repository.sha("refs/pull/1/merge") == run.tested_sha
    assert repository.record.git.must(run.tested_sha).parents == (repository.sha(), pull.head_sha)
    repository.push("main", {"two": None})
    github.actions.rerun(run, actor=github.actor("ann"))
    await github.advance(MINUTE)
    assert run.suite.conclusion == "failure"


async def test_workflow_of_pull_request_does_not_run_on_a_conflict(
    github: GitHub, repository: RepositoryHandle
) -> None:
    """Nothing appears, not even a pending run; the workflow of the push runs all the same."""
    repository.add_workflow()
    repository.push("main", {"lines.txt": edited(3, "theirs")})
    repository.create_branch("one", repository.log()[1].sha)
    pull = opened(repository, **{"lines.txt": edited(3, "ours")})
    await github.advance(MINUTE)
    assert by_suite(github, pull) == {"push": [("test", "success")]}


async def test_workflow_left_out_by_a_filter_or_a_message_leaves_no_trace(
    github: GitHub, repository: RepositoryHandle
) -> None:
    """Path filters look at the whole pull request, and at what a push brought; `[skip ci]` skips both events."""
    docs = ["docs/**"]
    repository.add_workflow(on=[Trigger("push", paths=docs), Trigger("pull_request", paths=docs)])
    pull = opened(repository)
    await github.settle()
    assert pull.check_runs == []
    pull.push({"docs/a": "1"}, by="ann")
    await github.settle()
    assert len(pull.check_runs) == 2
    pull.push({"two": "1"}, by="ann")
    await github.settle()
    assert [run.workflow_run.event for run in pull.check_runs if run.workflow_run] == ["pull_request"]
    pull.push({"docs/b": "1"}, "Typo [skip ci]", by="ann")
    await github.settle()
    assert pull.check_runs == []
    assert repository.record.suites_by_sha.get(pull.head_sha) is None


async def test_workflow_runs_on_other_actions_of_a_pull_request(github: GitHub, repository: RepositoryHandle) -> None:
    """A label starts a second run on the same head: another suite with a run of the same name."""
    repository.add_workflow(on=[Trigger("pull_request", types=["opened", "labeled"])])
    pull = opened(repository)
    await github.settle()
    pull.label("bug", by="ann")
    await github.settle()
    assert [run.name for run in pull.check_runs] == ["test", "test"]


async def test_workflow_is_not_started_by_its_own_token(github: GitHub, repository: RepositoryHandle) -> None:
    """A push by Actions starts nothing; one by another app's token does."""
    runner = repository.add_workflow(on=["push"])
    base = repository.sha()
    for slug in ("github-actions", "imq"):
        app = github.accounts.app_for(slug, repository.record)
        actor = Actor(app.bot, app, {"contents": "write"})
        github.refs.create(repository.record, slug, base, actor=actor)
    await github.settle()
    assert [run.actor.login for run in runner.runs] == ["imq[bot]"]


async def test_job_waits_for_its_needs_and_is_skipped_without_them(
    github: GitHub, repository: RepositoryHandle
) -> None:
    """A check run appears when its needs have ended; a skipped one satisfies; a rerun brings it back."""
    jobs = [
        Job("build", MINUTE, plan=("failure",)),
        Job("test", MINUTE, needs=["build"]),
        Job("report", MINUTE, needs=["test"], always=True),
        Job("deploy", guard=lambda run: run.event == "push"),
    ]
    repository.add_workflow(jobs=jobs, on=PULLS)
    repository.protect("main", required_checks=["test", "deploy"])
    pull = opened(repository)
    await github.settle()
    assert {run.name for run in pull.check_runs} == {"build", "deploy"}
    assert newest(pull).suite.status == "in_progress"
    await github.advance(MINUTE)
    assert [(run.name, run.conclusion) for run in pull.check_runs[:2]] == [("report", None), ("test", "skipped")]
    assert github.merge_rules.merge_violations(pull.record) == []
    await github.advance(MINUTE)
    repository.rerun(newest(pull), by="ann")
    await github.advance(4 * MINUTE)
    latest = github.checks.latest_runs(repository.record, pull.head_sha)
    assert {run.name: run.conclusion for run in latest} == {
        "build": "success", "test": "success", "report": "success", "deploy": "skipped"
    }  # fmt: skip
    assert newest(pull).suite.conclusion == "success"


@pytest.mark.parametrize("started_at", ["renewed", "kept"])
async def test_job_stays_queued_for_a_day_without_a_runner(
    github: GitHub, repository: RepositoryHandle, started_at: Literal["renewed", "kept"]
) -> None:
    """A queued run shows the instant at which it was queued as its start; its real start may never be published."""
    github.actions.started_at = started_at
    github.timings.workflow_run, github.timings.job_start = timedelta(seconds=30), timedelta(hours=23)
    repository.add_workflow(on=PULLS)
    pull = opened(repository)
    await github.settle()
    assert pull.check_runs == []
    await github.advance(timedelta(hours=23))
    queued = newest(pull)
    assert (queued.status, queued.started_at) == ("queued", queued.created_at)
    await github.advance(timedelta(seconds=30))
    assert queued.status == "in_progress"
    assert (queued.started_at > queued.created_at) is (started_at == "renewed")


async def test_run_is_published_step_by_step(
    github: GitHub, repository: RepositoryHandle, published: PublishedEvents
) -> None:
    """Requested, in progress, completed, each once, and its suite once."""
    repository.add_workflow(jobs=[Job("a", MINUTE), Job("b", MINUTE, needs=["a"])], on=PULLS)
    pull = opened(repository)
    await github.advance(2 * MINUTE)
    completed_by_approval = ["workflow_run.requested", "workflow_run.in_progress", "workflow_run.completed"]
    assert [name for name in published.names() if name.startswith("workflow_run")] == completed_by_approval
    assert published.names().count("check_suite.completed") == 1
    run = published.last("workflow_run", "completed")["workflow_run"]
    assert (run["event"], run["conclusion"], run["head_sha"]) == ("pull_request", "success", pull.head_sha)


@pytest.mark.parametrize("queued", [timedelta(0), MINUTE])
async def test_run_cancelled_ends_its_jobs_once(
    github: GitHub, repository: RepositoryHandle, queued: timedelta
) -> None:
    """Jobs queued or under way conclude; nothing starts or finishes later; what is over cannot be cancelled."""
    github.timings.job_start = queued
    repository.add_workflow(jobs=[Job("build", MINUTE), Job("test", MINUTE, needs=["build"])], on=PULLS)
    pull = opened(repository)
    await github.settle()
    run = newest(pull).workflow_run
    assert run is not None
    repository.cancel(run, by="ann")
    await github.advance(5 * MINUTE)
    assert [(one.name, one.conclusion) for one in pull.check_runs] == [("build", "cancelled")]
    assert run.suite.conclusion == "cancelled"
    with pytest.raises(Conflict, match="Cannot cancel a workflow run that is completed"):
        repository.cancel(run, by="ann")
    github.actions.rerun(run, actor=github.actor("ann"), failed_only=True)
    await github.advance(5 * MINUTE)
    assert run.suite.conclusion == "success"


async def test_newer_push_cancels_the_older_run_of_its_branch(github: GitHub, repository: RepositoryHandle) -> None:
    """`concurrency` with `cancel-in-progress`, within one event and branch."""
    repository.add_workflow(on=PULLS, cancels_older=True)
    pull = opened(repository)
    await github.settle()
    old = newest(pull)
    pull.push({"one": "2"}, by="ann")
    await github.advance(MINUTE)
    assert (old.conclusion, newest(pull).conclusion) == ("cancelled", "success")


async def test_run_of_a_comment_cancels_the_run_of_its_group(github: GitHub, repository: RepositoryHandle) -> None:
    """It is one of the default branch, and the cancelled job names the group; a workflow's own comment starts none."""
    repository.add_workflow(on=PULLS, group="ci")
    answers = repository.add_workflow("Answers", on=[Trigger("issue_comment")], group="ci")
    pull = opened(repository)
    await github.settle()
    job = newest(pull)
    pull.comment("Bot here", by="github-actions[bot]")
    await github.settle()
    assert answers.runs == []
    pull.comment("Hello", by="ann")
    await github.settle()
    assert [run.head_sha for run in answers.runs] == [repository.sha("main")]
    assert job.conclusion == "cancelled"
    assert [each["message"] for each in job.annotations] == [
        f"Canceling since a higher priority waiting request for 'ci-{pull.number}' exists"
    ]


@pytest.mark.parametrize(
    ("policy", "author", "waits"),
    [
        ("", "zoe", False),
        ("first_time_contributors", "zoe", True),
        ("first_time_contributors", "rea", False),
        ("all_external_contributors", "rea", True),
        ("all_external_contributors", "ann", False),
    ],
)
async def test_run_of_a_fork_waits_for_approval(
    github: GitHub, repository: RepositoryHandle, policy: str, author: str, waits: bool
) -> None:
    """No check run appears until somebody approves; who landed something is no first-time contributor any more."""
    repository.open_pull_request("Before", head="before", fork_of="rea", files={"before": "1"}).merge()
    repository.record.fork_approval = policy
    runner = repository.add_workflow(on=PULLS)
    pull = repository.open_pull_request("One", head="one", fork_of=author, files={"one": "1"})
    await github.settle()
    [run] = runner.runs
    if not waits:
        assert newest(pull).status == "in_progress"
        return
    assert (run.suite.status, run.suite.conclusion, pull.check_runs) == ("completed", "action_required", [])
    repository.approve(run, by="ann")
    await github.advance(MINUTE)
    assert newest(pull).conclusion == "success"
    with pytest.raises(Forbidden, match="not from a fork pull request"):
        repository.approve(run, by="ann")


@pytest.mark.parametrize("completed_by_approval", [True, False])
async def test_run_caused_by_an_app_waits_though_its_branch_is_here(
    github: GitHub, repository: RepositoryHandle, published: PublishedEvents, completed_by_approval: bool
) -> None:
    """The actor of the event counts: after an app's update the new head has a parked run, until it is run again."""
    github.actions.parked_is_completed = completed_by_approval
    repository.record.app_approval = True
    runner = repository.add_workflow(on=PULLS)
    pull = opened(repository)
    repository.push("main", {"two": "1"})
    app = github.create_app("imq", permissions={"contents": "write", "pull_requests": "write"})
    github.install(app, "octo")
    github.merging.update_branch(pull.record, actor=Actor(app.bot, app, dict(app.permissions)))
    await github.advance(MINUTE)
    assert [run.parked for run in runner.runs] == [None, "app"]
    completed = [body for name, body in published.events if name == "workflow_run" and body["action"] == "completed"]
    assert ("action_required" in {body["workflow_run"]["conclusion"] for body in completed}) is completed_by_approval
    github.actions.rerun(runner.runs[1], actor=github.actor("ann"))
    await github.advance(MINUTE)
    assert newest(pull).conclusion == "success"


async def test_job_that_judges_the_pull_request_sees_the_title_of_its_event(
    github: GitHub, repository: RepositoryHandle
) -> None:
    """A rerun has the same event; a new title is seen by a run that its edit begins."""
    job = Job("title", MINUTE, judges=lambda run: run.title.startswith("feat"))
    repository.add_workflow(jobs=[job], on=[Trigger("pull_request", types=("opened", "edited"))])
    pull = opened(repository)
    await github.advance(MINUTE)
    assert newest(pull).conclusion == "failure"
    pull.edit_title("feat: one", by="ann")
    repository.rerun(newest(pull), by="ann")
    await github.advance(MINUTE * 2)
    runs = [(run.workflow_run.title, run.conclusion) for run in pull.check_runs if run.workflow_run is not None]
    assert sorted(runs) == [("One", "failure"), ("One", "failure"), ("feat: one", "success")]
