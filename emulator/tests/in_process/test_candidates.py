"""What GitHub does with branches that test several pull requests together: CI, drafts, landings, signatures."""

from datetime import timedelta

import pytest

from github_emulator import (
    Actor,
    GitHub,
    Invalid,
    Job,
    PullRequestHandle,
    PullRequestOptions,
    RepositoryHandle,
    Trigger,
    WorkflowRunner,
)

MINUTE = timedelta(minutes=1)
ON_TRAINS = (Trigger("push", branches=["main", "imq/**"]), Trigger("pull_request"))


@pytest.fixture
def queue(github: GitHub) -> Actor:
    permissions = {"contents": "write", "pull_requests": "write", "metadata": "read"}
    app = github.create_app("queue", permissions=permissions)
    github.install(app, "octo")
    return Actor(app.bot, app, permissions)


@pytest.fixture
def pulls(repository: RepositoryHandle) -> list[PullRequestHandle]:
    return [
        repository.open_pull_request(name, head=name, by="ann", files={f"{name}.txt": "1\n"}) for name in ("one", "two")
    ]


def built(github: GitHub, repository: RepositoryHandle, pulls: list[PullRequestHandle], queue: Actor) -> str:
    """A candidate of these pull requests, published as IMQ does."""
    record = repository.record
    github.refs.create(record, "imq-build/main/1", repository.sha(), actor=queue)
    for pull in pulls:
        github.merging.merge_branch(record, base="imq-build/main/1", head=pull.head_sha, actor=queue)
    tip = repository.sha("imq-build/main/1")
    github.refs.create(record, "imq/main/1", tip, actor=queue)
    github.refs.delete(record, "imq-build/main/1", actor=queue)
    return tip


def branches(runner: WorkflowRunner, event: str) -> list[str | None]:
    """Where the runs of this event ran."""
    return [run.suite.head_branch for run in runner.runs if run.event == event]


async def test_candidate_runs_once_on_its_published_branch(
    github: GitHub, repository: RepositoryHandle, pulls: list[PullRequestHandle], queue: Actor
) -> None:
    """No merge on the build branch starts CI, by the filter of branches; an App's push does."""
    runner = repository.add_workflow(on=ON_TRAINS, jobs=[Job("test")])
    tip = built(github, repository, pulls, queue)
    await github.advance(MINUTE)
    assert branches(runner, "push") == ["imq/main/1"]
    (run,) = [each for each in runner.runs if each.event == "push"]
    assert (run.head_sha, run.suite.conclusion) == (tip, "success")
    assert {"one.txt", "two.txt"} < set(repository.record.git.files(run.tested_sha))


async def test_draft_of_a_candidate_runs_workflows_of_pull_requests_on_the_merge_with_the_base(
    github: GitHub, repository: RepositoryHandle, pulls: list[PullRequestHandle], queue: Actor
) -> None:
    """Its tree is the candidate's own while the base is where the candidate began."""
    runner = repository.add_workflow(on=["pull_request"], jobs=[Job("test")])
    tip = built(github, repository, pulls, queue)
    draft = github.pulls.open(
        repository.record,
        title="Test",
        head=(repository.record, "imq/main/1"),
        base="main",
        actor=queue,
        options=PullRequestOptions(draft=True),
    )
    await github.advance(MINUTE)
    (run,) = [each for each in runner.runs if each.pull is draft]
    git = repository.record.git
    assert run.suite.conclusion == "success"
    assert git.tree(run.tested_sha) == git.tree(tip)


@pytest.mark.parametrize("seconds", [0, 3600])
async def test_members_are_merged_when_the_candidate_reaches_the_base_or_later(
    github: GitHub, repository: RepositoryHandle, pulls: list[PullRequestHandle], queue: Actor, seconds: int
) -> None:
    """GitHub notices it later, now and then hours later (bors-ng #1605)."""
    github.timings.merged_by_push = timedelta(seconds=seconds)
    tip = built(github, repository, pulls, queue)
    github.refs.update(repository.record, "main", tip, actor=queue)
    await github.settle()
    assert [pull.merged for pull in pulls] == [seconds == 0] * 2
    await github.advance(timedelta(hours=1))
    git = repository.record.git
    assert [git.must(str(pull.merge_sha)).parents[1] for pull in pulls] == [pull.head_sha for pull in pulls]


async def test_run_on_a_candidate_that_is_cancelled_ends_without_a_verdict(
    github: GitHub, repository: RepositoryHandle, pulls: list[PullRequestHandle], queue: Actor
) -> None:
    """Its jobs conclude `cancelled`, which is no failure of the members."""
    runner = repository.add_workflow(on=ON_TRAINS, jobs=[Job("test", duration=MINUTE)])
    built(github, repository, pulls, queue)
    await github.settle()
    (run,) = [each for each in runner.runs if each.event == "push"]
    github.actions.cancel(run, actor=github.actor("ann"))
    assert [job.conclusion for job in run.current_jobs()] == ["cancelled"]


@pytest.mark.parametrize(("signs", "judged"), [(True, True), (False, True), (False, False)])
async def test_signatures_rule_refuses_unsigned_commits_of_members_where_it_judges_known_commits(
    github: GitHub,
    repository: RepositoryHandle,
    pulls: list[PullRequestHandle],
    queue: Actor,
    signs: bool,
    judged: bool,
) -> None:
    """GitHub signs the merges, not what people pushed unsigned; the members' own branches have these commits."""
    github.behaviour.known_commits_judged = judged
    repository.add_ruleset("Signed", signatures=True)
    if signs:
        github.state.signed.update(pull.head_sha for pull in pulls)
    tip = built(github, repository, pulls, queue)
    if signs or not judged:
        github.refs.update(repository.record, "main", tip, actor=queue)
        assert repository.sha() == tip
    else:
        with pytest.raises(Invalid, match="Found 2 violations"):
            github.refs.update(repository.record, "main", tip, actor=queue)
