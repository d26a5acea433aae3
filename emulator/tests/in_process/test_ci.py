"""The emulator's CI: what it tests, how long it takes, and how it judges."""

from collections.abc import Mapping
from datetime import timedelta

import pytest

from github_emulator import CISettings, GitHub, ManualClock, RepositoryHandle
from in_process.conftest import PublishedEvents

HOUR = timedelta(hours=1)


def not_both(files: Mapping[str, str]) -> bool:
    """Red when both changes are there."""
    return not {"one", "two"} <= files.keys()


async def test_ci_takes_its_time_and_reports_each_step(
    github: GitHub, repository: RepositoryHandle, published: PublishedEvents
) -> None:
    """Queued, in progress after the wait, completed after the duration; an hour costs no time."""
    repository.add_ci(settings=CISettings(duration=HOUR, waits=timedelta(minutes=5)))
    pull = repository.open_pull_request("One", head="one", files={"one": "1"})
    statuses = []
    for step in (timedelta(0), timedelta(minutes=5), HOUR - timedelta(seconds=1), timedelta(seconds=1)):
        await github.advance(step)
        statuses.append(pull.check_runs[0].status)
    assert statuses == ["queued", "in_progress", "in_progress", "completed"]
    run = pull.check_runs[0]
    assert run.conclusion == "success"
    assert run.completed_at is not None
    assert run.completed_at - run.started_at == HOUR
    assert published.last("check_run", "completed")["check_run"]["details_url"].startswith(github.addresses.html_url)
    assert len(pull.check_runs) == 1


async def test_ci_changes_green_alone_are_red_together(github: GitHub, repository: RepositoryHandle) -> None:
    """The tree decides: each alone passes, the merge of both does not, though no line conflicts."""
    repository.add_ci(settings=CISettings(duration=HOUR, judge=not_both))
    one = repository.open_pull_request("One", head="one", files={"one": "1"})
    two = repository.open_pull_request("Two", head="two", files={"two": "1"})
    await github.advance(HOUR)
    assert [pull.check_runs[0].conclusion for pull in (one, two)] == ["success", "success"]
    one.merge()
    two.update_branch(by="bob")
    await github.advance(2 * HOUR)
    assert two.check_runs[0].conclusion == "failure"


async def test_ci_as_status_reports_pending_then_result(github: GitHub, repository: RepositoryHandle) -> None:
    """An old-fashioned CI reports commit statuses with a link."""
    repository.add_ci("ci/old", settings=CISettings(status=True, duration=HOUR, judge=lambda files: "bad" not in files))
    sha = repository.push("one", {"bad": "1"})
    await github.advance(timedelta(0))
    assert github.checks.combined_state(repository.record, sha) == "pending"
    await github.advance(HOUR)
    statuses = repository.record.statuses[sha]
    assert [status.state for status in statuses] == ["pending", "failure"]
    assert statuses[-1].target_url
    assert repository.record.runs_by_sha == {}


async def test_ci_that_never_reports_leaves_nothing(github: GitHub, repository: RepositoryHandle) -> None:
    """The check that never comes."""
    repository.add_ci(settings=CISettings(reports=False))
    pull = repository.open_pull_request("One", head="one", files={"one": "1"})
    await github.advance(24 * HOUR)
    assert pull.check_runs == []


async def test_ci_that_never_finishes_stays_in_progress(github: GitHub, repository: RepositoryHandle) -> None:
    """The check that hangs."""
    repository.add_ci(settings=CISettings(finishes=False))
    pull = repository.open_pull_request("One", head="one", files={"one": "1"})
    await github.advance(24 * HOUR)
    assert pull.check_runs[0].status == "in_progress"


async def test_ci_listens_only_to_what_it_is_set_up_for(github: GitHub, repository: RepositoryHandle) -> None:
    """Pushes to certain branches only."""
    repository.add_ci(settings=CISettings(on=["push"], branches=["queue/*"]))
    ignored = repository.push("one", {"one": "1"})
    tested = repository.push("queue/main", {"one": "2"})
    repository.open_pull_request("One", head="one")
    await github.advance(HOUR)
    assert list(repository.record.runs_by_sha) == [tested]
    assert ignored != tested


async def test_ci_tests_a_forks_pull_request_in_the_base_repository(
    github: GitHub, repository: RepositoryHandle
) -> None:
    """A push to a fork is none of its business; the pull request is."""
    repository.add_ci(settings=CISettings(duration=HOUR))
    pull = repository.open_pull_request("One", head="one", fork_of="zoe", by="rea", files={"one": "1"})
    await github.advance(HOUR)
    assert [run.conclusion for run in pull.check_runs] == ["success"]


async def test_ci_rerequested_run_is_tested_again(github: GitHub, repository: RepositoryHandle) -> None:
    """A rerun is a new run in the same suite; it may end otherwise."""
    verdicts = iter([False, True])
    ci = repository.add_ci(settings=CISettings(duration=HOUR, judge=lambda files: next(verdicts)))
    pull = repository.open_pull_request("One", head="one", files={"one": "1"})
    await github.advance(HOUR)
    github.checks.rerequest(pull.check_runs[0], actor=github.actor("bob"))
    await github.advance(HOUR)
    assert [run.conclusion for run in pull.check_runs] == ["success", "failure"]
    assert pull.check_runs[0].suite is pull.check_runs[1].suite
    assert ci.tested == {pull.head_sha: 2}


async def test_ci_newer_push_cancels_the_older_run(github: GitHub, repository: RepositoryHandle) -> None:
    """With `cancels_older` a line of work has one run at a time."""
    repository.add_ci(settings=CISettings(duration=HOUR, cancels_older=True, on=["pull_request"]))
    pull = repository.open_pull_request("One", head="one", files={"one": "1"})
    await github.advance(timedelta(minutes=5))
    old = pull.check_runs[0]
    pull.push({"one": "2"})
    await github.advance(HOUR)
    assert (old.conclusion, pull.check_runs[0].conclusion) == ("cancelled", "success")


async def flakes(seed: int) -> list[str | None]:
    """What a CI that fails every other time says about twenty green commits."""
    world = GitHub(ManualClock(), seed=seed)
    repository = world.create_repository("octo/app", files={"a": "0"})
    repository.add_ci(settings=CISettings(flaky=0.5, jitter=timedelta(minutes=10)))
    for number in range(20):
        repository.push("main", {"a": str(number + 1)})
    await world.advance(HOUR)
    runs = [world.checks.runs(repository.record, commit.sha) for commit in repository.log()[:-1]]
    await world.close()
    return [run[0].conclusion for run in runs]


async def test_ci_flakiness_is_reproducible_by_its_seed() -> None:
    """The same seed fails the same runs, another one others; about half fail."""
    first = await flakes(1)
    assert first == await flakes(1)
    assert first != await flakes(2)
    assert 4 <= first.count("failure") <= 16


@pytest.mark.parametrize("webhook", [True, False])
async def test_ci_learns_of_pushes_whose_webhook_is_lost(
    github: GitHub, repository: RepositoryHandle, webhook: bool
) -> None:
    """CI is part of the state's world: a lost webhook to others does not stop it."""
    repository.add_ci(settings=CISettings(duration=HOUR))
    pull = repository.open_pull_request("One", head="one", files={"one": "1"}, webhook=webhook)
    await github.advance(HOUR)
    assert pull.check_runs[0].conclusion == "success"


async def test_ci_that_judges_pull_requests_ignores_the_tree(github: GitHub, repository: RepositoryHandle) -> None:
    """An App that checks titles: two pull requests with the same kind of tree differ."""
    settings = CISettings(status=True, on=("pull_request",), judges=lambda pull: pull.title.startswith("feat"))
    repository.add_ci("title", settings=settings)
    good = repository.open_pull_request("feat: one", head="one", by="ann", files={"one": "1"})
    bad = repository.open_pull_request("Two", head="two", by="ann", files={"two": "2"})
    await github.advance(HOUR)
    states = [repository.record.statuses[pull.head_sha][-1].state for pull in (good, bad)]
    assert states == ["success", "failure"]
