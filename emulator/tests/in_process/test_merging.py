"""Merging, by each method and against each refusal; `mergeable`; updating branches."""

from datetime import timedelta

import pytest

from github_emulator import (
    Actor,
    Conflict,
    Forbidden,
    GitHub,
    Invalid,
    NotMergeable,
    PullRequestHandle,
    PullRequestOptions,
    RepositoryHandle,
    payloads,
)
from in_process.conftest import PublishedEvents, edited

ALL = {"contents": "write", "pull_requests": "write"}


@pytest.fixture
def pull(repository: RepositoryHandle) -> PullRequestHandle:
    return repository.open_pull_request("One", head="one", by="ann", files={"lines.txt": edited(1)})


def bot(github: GitHub, permissions: dict[str, str]) -> Actor:
    app = github.create_app("imq", permissions=permissions)
    return Actor(app.bot, app, permissions)


def test_merge_makes_githubs_merge_commit(
    repository: RepositoryHandle, pull: PullRequestHandle, published: PublishedEvents
) -> None:
    """Two parents, base first; GitHub's message; author who merged, committer GitHub; push and closed are published."""
    tip = repository.sha()
    published.events.clear()
    landed = repository.record.git.must(pull.merge(by="bob"))
    assert landed.parents == (tip, pull.head_sha)
    assert landed.message == "Merge pull request #1 from octo/one\n\nOne"
    assert (landed.author.name, landed.committer.name) == ("bob", "GitHub")
    assert repository.sha() == landed.sha == pull.merge_sha
    assert [name for name in published.names() if "check" not in name] == ["push", "pull_request.closed"]
    assert published.last("pull_request", "closed")["pull_request"]["merged"] is True


def test_merge_squash_of_several_commits_lists_them(repository: RepositoryHandle, pull: PullRequestHandle) -> None:
    """One commit on the base's tip with the merged tree, the author's name, and the commits in its message."""
    pull.push({"more": "1"}, "Second", by="bob")
    repository.push("main", {"other": "1"})
    tip = repository.sha()
    landed = repository.record.git.must(pull.merge("squash", by="bob"))
    assert landed.parents == (tip,)
    coauthor = f"Co-authored-by: bob <{pull.domain.accounts.user('bob').email}>"
    assert landed.message == f"One (#1)\n\n* One\n\n* Second\n\n---------\n\n{coauthor}"
    assert landed.author.name == "ann"
    assert repository.files() == {"lines.txt": edited(1), "more": "1", "other": "1", "readme": "Hello\n"}


def test_merge_squash_of_one_commit_keeps_its_message(repository: RepositoryHandle) -> None:
    """A single commit's own title and body are kept."""
    repository.push("one", {"a": "1"}, "Real title\n\nWhy.", by="octo")
    pull = repository.open_pull_request("Another title", head="one")
    assert repository.record.git.must(pull.merge("squash")).message == "Real title (#1)\n\nWhy."


async def test_merge_rebase_replays_commits_without_merges(
    github: GitHub, repository: RepositoryHandle, pull: PullRequestHandle
) -> None:
    """Each commit is rebased on the tip, its author kept; merge commits fall away; the tree is that of a merge."""
    repository.push("main", {"lines.txt": edited(9)})
    merged = repository.record.git.merge_trees(repository.sha(), pull.head_sha)
    pull.update_branch()
    await github.advance(timedelta(seconds=1))
    pull.push({"more": "1"}, "Second")
    tip = repository.push("main", {"other": "1"})
    landed = pull.merge("rebase", by="bob")
    new = repository.record.git.log(landed, tip)
    assert [(commit.title, commit.author.name, commit.committer.name) for commit in new] == [
        ("Second", "ann", "bob"),
        ("One", "ann", "bob"),
    ]
    assert merged is not None
    assert repository.files(new[1].sha) == repository.record.git.files(merged) | {"other": "1"}
    assert pull.merged


def test_merge_conflict_draft_closed_are_not_mergeable(repository: RepositoryHandle, pull: PullRequestHandle) -> None:
    """405, with GitHub's words."""
    pull.convert_to_draft()
    with pytest.raises(NotMergeable, match="Pull Request is still a draft"):
        pull.merge()
    pull.ready_for_review()
    repository.push("main", {"lines.txt": edited(1, "otherwise")})
    with pytest.raises(NotMergeable, match="Pull Request is not mergeable"):
        pull.merge()
    pull.close()
    with pytest.raises(NotMergeable, match="Pull Request is not mergeable"):
        pull.merge()
    assert not pull.merged


async def test_merge_right_after_base_moved_asks_to_try_again(
    github: GitHub, repository: RepositoryHandle, pull: PullRequestHandle
) -> None:
    """405 in passing while GitHub has not caught up with the base; when that is over it merges."""
    github.timings.base_settles = timedelta(seconds=2)
    github.mergeability.mergeable(pull.record)
    await github.advance(timedelta(seconds=5))
    repository.push("main", {"other": "1"})
    with pytest.raises(NotMergeable, match=r"Base branch was modified\. Review and try the merge again\."):
        pull.merge()
    await github.advance(timedelta(seconds=2))
    assert pull.merge()


async def test_merge_of_a_head_that_strict_protection_finds_behind_may_be_refused_as_outdated(
    github: GitHub, repository: RepositoryHandle, pull: PullRequestHandle
) -> None:
    """409, where this GitHub words it so; with rules that are not strict it merges."""
    github.behaviour.outdated_heads_named = True
    repository.push("main", {"other": "1"})
    repository.protect("main", required_checks=["ci"], strict=True)
    with pytest.raises(Conflict, match=r"Head branch is out of date\. Review and try the merge again\."):
        pull.merge()
    repository.protect("main")
    assert pull.merge()


def test_merge_method_not_allowed_is_refused(github: GitHub) -> None:
    """A repository may allow squashing only."""
    repository = github.create_repository("octo/strict", files={"a": "1"}, allow_merge_commit=False)
    pull = repository.open_pull_request("One", head="one", files={"b": "1"})
    with pytest.raises(NotMergeable, match="Merge commits are not allowed"):
        pull.merge()
    assert pull.merge("squash")


def test_merge_by_app_without_contents_is_forbidden(github: GitHub, pull: PullRequestHandle) -> None:
    """403 for an app that may not write contents."""
    actor = bot(github, {"contents": "read", "pull_requests": "write"})
    with pytest.raises(Forbidden, match="Resource not accessible by integration"):
        github.merging.merge(pull.record, actor=actor)


def test_merge_of_workflow_needs_workflows_permission(github: GitHub, repository: RepositoryHandle) -> None:
    """403 for an app that lands a workflow without `workflows`; with it, it lands."""
    pull = repository.open_pull_request("CI", head="ci", files={".github/workflows/ci.yml": "on: push\n"})
    actor = bot(github, ALL)
    with pytest.raises(Forbidden, match=r"workflow `.github/workflows/ci.yml` without `workflows` permission"):
        github.merging.merge(pull.record, actor=actor)
    assert github.merging.merge(pull.record, actor=Actor(actor.user, actor.app, ALL | {"workflows": "write"}))


async def test_mergeable_is_unknown_until_asked_and_computed(github: GitHub, pull: PullRequestHandle) -> None:
    """Null at first; asking starts the computation; without asking it stays null for ever."""
    await github.advance(timedelta(hours=1))
    assert payloads.pull_request(github.source, pull.record, ask=False)["mergeable"] is None
    await github.advance(timedelta(hours=1))
    first = payloads.pull_request(github.source, pull.record)
    assert (first["mergeable"], first["mergeable_state"]) == (None, "unknown")
    await github.advance(github.timings.mergeable)
    second = payloads.pull_request(github.source, pull.record)
    assert (second["mergeable"], second["rebaseable"], second["mergeable_state"]) == (True, True, "clean")


async def test_mergeable_is_unknown_again_when_base_or_head_moves(
    github: GitHub, repository: RepositoryHandle, pull: PullRequestHandle
) -> None:
    """Each move makes the answer null again, and a conflict is found."""
    for branch, files in (("one", {"a": "1"}), ("main", {"lines.txt": edited(1, "clash")})):
        github.mergeability.mergeable(pull.record)
        await github.advance(timedelta(seconds=1))
        assert github.mergeability.mergeable(pull.record) is True
        repository.push(branch, files)
        assert github.mergeability.mergeable(pull.record) is None
    await github.advance(timedelta(seconds=1))
    assert github.mergeability.mergeable(pull.record) is False
    assert github.mergeability.mergeable_state(pull.record) == "dirty"


async def test_mergeable_keeps_a_test_merge(
    github: GitHub, repository: RepositoryHandle, pull: PullRequestHandle
) -> None:
    """`refs/pull/N/merge` is the head merged into the base."""
    github.mergeability.mergeable(pull.record)
    await github.advance(timedelta(seconds=1))
    test_merge = repository.record.git.ref("pull/1/merge")
    assert test_merge is not None
    assert repository.record.git.must(test_merge).parents == (repository.sha(), pull.head_sha)


async def test_update_branch_merges_base_into_head_later(
    github: GitHub, repository: RepositoryHandle, pull: PullRequestHandle, published: PublishedEvents
) -> None:
    """Accepted at once, done later: parents old head and base tip, the actor as author and sender."""
    old, tip = pull.head_sha, repository.push("main", {"other": "1"})
    github.merging.update_branch(pull.record, actor=bot(github, ALL), expected_head_sha=old)
    assert pull.head_sha == old
    await github.advance(github.timings.update_branch)
    commit = repository.record.git.must(pull.head_sha)
    assert commit.parents == (old, tip)
    assert (commit.author.name, commit.committer.name) == ("imq[bot]", "GitHub")
    assert commit.message == "Merge branch 'main' into one"
    assert published.last("pull_request", "synchronize")["sender"]["login"] == "imq[bot]"


async def test_update_branch_pushed_meanwhile_does_nothing(
    github: GitHub, repository: RepositoryHandle, pull: PullRequestHandle
) -> None:
    """A push between acceptance and the work wins."""
    repository.push("main", {"other": "1"})
    github.merging.update_branch(pull.record, actor=github.actor("bob"))
    pushed = pull.push({"a": "1"})
    await github.advance(timedelta(minutes=1))
    assert pull.head_sha == pushed


def test_update_branch_refusals(github: GitHub, repository: RepositoryHandle, pull: PullRequestHandle) -> None:
    """422 for nothing to update, another head, a conflict."""
    actor = github.actor("bob")
    with pytest.raises(Invalid, match=r"There are no new commits on the base branch\."):
        github.merging.update_branch(pull.record, actor=actor)
    repository.push("main", {"lines.txt": edited(1, "clash")})
    with pytest.raises(Invalid, match=r"expected head sha didn.t match current head ref"):
        github.merging.update_branch(pull.record, actor=actor, expected_head_sha="0" * 40)
    with pytest.raises(Invalid, match="merge conflict between base and head"):
        github.merging.update_branch(pull.record, actor=actor, expected_head_sha=pull.head_sha)


@pytest.mark.parametrize("allowed", [True, False])
async def test_update_branch_of_fork_needs_the_authors_leave(
    github: GitHub, repository: RepositoryHandle, allowed: bool
) -> None:
    """A fork's branch is written only when its author lets maintainers modify it."""
    pull = repository.open_pull_request(
        "Fork",
        head="f",
        fork_of="zoe",
        files={"a": "1"},
        by="rea",
        options=PullRequestOptions(maintainer_can_modify=allowed),
    )
    old, tip = pull.head_sha, repository.push("main", {"other": "1"})
    actor = bot(github, ALL)
    if not allowed:
        with pytest.raises(Forbidden):
            github.merging.update_branch(pull.record, actor=actor)
        return
    github.merging.update_branch(pull.record, actor=actor)
    await github.advance(timedelta(seconds=1))
    assert repository.record.git.must(pull.head_sha).parents == (old, tip)


def test_update_branch_of_fork_with_workflows_on_base_is_forbidden(
    github: GitHub, repository: RepositoryHandle
) -> None:
    """For forks it fails even when only the base changed workflow files."""
    pull = repository.open_pull_request("Fork", head="f", fork_of="zoe", files={"a": "1"}, by="rea")
    repository.push("main", {".github/workflows/ci.yml": "on: push\n"})
    with pytest.raises(Forbidden, match="without `workflows` permission"):
        github.merging.update_branch(pull.record, actor=bot(github, ALL))
