"""What pushes and deletions entail for pull requests is noticed later: until then they show as they were."""

from datetime import timedelta

import pytest

from github_emulator import GitHub, PullRequestHandle, RepositoryHandle

HOUR = timedelta(hours=1)


@pytest.fixture
def pull(repository: RepositoryHandle) -> PullRequestHandle:
    """A pull request of a GitHub that takes an hour to notice."""
    repository.domain.context.timings.notice_after(HOUR)
    return repository.open_pull_request("One", head="one", files={"a": "1"})


async def pass_(repository: RepositoryHandle, seconds: float) -> None:
    await repository.domain.context.schedule.advance(timedelta(seconds=seconds))


async def test_head_pushed_to_its_base_is_merged_when_noticed(
    repository: RepositoryHandle, pull: PullRequestHandle
) -> None:
    """The base has it at once, the pull request stays open for an hour."""
    repository.push_commit("main", pull.head_sha, by="bob")
    await pass_(repository, 3599)
    assert (pull.state, pull.merged) == ("open", False)
    await pass_(repository, 1)
    assert (pull.state, pull.merged) == ("closed", True)


@pytest.mark.parametrize("closes", [True, False])
async def test_head_that_moves_before_its_merge_is_noticed(
    repository: RepositoryHandle, pull: PullRequestHandle, closes: bool
) -> None:
    """Closed unmerged or left open, as the switch says; never merged."""
    repository.domain.context.timings.moved_head_closes = closes
    repository.push_commit("main", pull.head_sha, by="bob")
    pull.push({"b": "2"})
    await pass_(repository, 3600)
    assert (pull.state, pull.merged) == ("closed" if closes else "open", False)


@pytest.mark.parametrize("conflicts", [True, False])
async def test_merge_that_is_not_noticed_may_show_as_a_conflict(
    repository: RepositoryHandle, pull: PullRequestHandle, conflicts: bool
) -> None:
    """What the pull request says of itself until then, by the switch."""
    domain = repository.domain
    domain.context.timings.unnoticed_conflicts = conflicts
    repository.push_commit("main", pull.head_sha, by="bob")
    domain.mergeability.mergeable(pull.record)
    await pass_(repository, 1)
    assert domain.mergeability.mergeable(pull.record) is not conflicts


async def test_deleted_head_closes_its_pull_request_unless_it_is_back_in_time(
    github: GitHub, repository: RepositoryHandle, pull: PullRequestHandle
) -> None:
    """A branch that is there again when GitHub looks closes nothing; its webhook names the former head."""
    head, moves = pull.head_sha, list[tuple[str, str]]()
    github.webhooks.observers.append(
        lambda _, payload: (
            moves.append((payload["before"], payload["after"])) if payload.get("action") == "synchronize" else None
        )
    )
    repository.delete_branch("one", by="bob")
    repository.push_commit("one", head)
    await pass_(repository, 3600)
    assert pull.state == "open"
    assert moves == [(head, head)]
    repository.delete_branch("one", by="bob")
    await pass_(repository, 3599)
    assert pull.state == "open"
    await pass_(repository, 1)
    assert pull.state == "closed"


async def test_stacked_pull_request_is_retargeted_and_the_branch_deleted_later(
    repository: RepositoryHandle, pull: PullRequestHandle
) -> None:
    """The merge is answered at once; who deletes the branch meanwhile does not close what has another base by then."""
    repository.record.delete_branch_on_merge = True
    upper = repository.open_pull_request("Upper", head="upper", base="one", files={"b": "1"})
    pull.merge()
    assert pull.merged
    assert repository.record.git.branch("one")
    await pass_(repository, 3600)
    assert upper.record.base_branch == "main"
    assert repository.record.git.branch("one") is None
    await pass_(repository, 3600)
    assert upper.state == "open"
