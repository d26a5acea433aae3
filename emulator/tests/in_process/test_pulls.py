"""Pull requests: how they open, change, close, and follow their branches."""

import pytest

from github_emulator import Forbidden, GitHub, Invalid, NotFound, RepositoryHandle
from in_process.conftest import PublishedEvents, edited


def test_pull_opened_is_published_and_keeps_its_ref(repository: RepositoryHandle, published: PublishedEvents) -> None:
    """Opening pushes the branch, publishes both, and keeps `refs/pull/N/head`."""
    pull = repository.open_pull_request("One", head="one", by="ann", files={"lines.txt": edited(1)})
    assert [name for name in published.names() if "check" not in name] == ["push", "create", "pull_request.opened"]
    assert repository.record.git.ref(f"pull/{pull.number}/head") == pull.head_sha
    assert published.last("pull_request", "opened")["sender"]["login"] == "ann"


def test_pull_open_twice_or_empty_is_refused(repository: RepositoryHandle) -> None:
    """One open pull request per head and base, and something to merge."""
    repository.open_pull_request("One", head="one", files={"a": "1"})
    with pytest.raises(Invalid) as twice:
        repository.open_pull_request("Again", head="one")
    assert twice.value.errors[0]["message"] == "A pull request already exists for octo:one."
    repository.create_branch("empty")
    with pytest.raises(Invalid) as empty:
        repository.open_pull_request("Nothing", head="empty")
    assert empty.value.errors[0]["message"] == "No commits between main and empty"


def test_pull_push_moves_head_and_synchronizes(repository: RepositoryHandle, published: PublishedEvents) -> None:
    """A push to the head branch is a push and a synchronize with before and after."""
    pull = repository.open_pull_request("One", head="one", by="ann", files={"a": "1"})
    before = pull.head_sha
    after = pull.push({"a": "2"})
    synchronize = published.last("pull_request", "synchronize")
    assert pull.head_sha == after == synchronize["after"] == synchronize["pull_request"]["head"]["sha"]
    assert synchronize["before"] == before
    assert published.last("push")["forced"] is False


def test_pull_follows_its_renamed_base_and_is_closed_with_its_renamed_head(repository: RepositoryHandle) -> None:
    """Writers rename branches; only administrators the default branch and protected ones."""
    repository.create_branch("dev")
    pull = repository.open_pull_request("One", head="one", base="dev", by="ann", files={"a": "1"})
    repository.rename_branch("dev", "next", by="ann")
    assert (pull.record.base_branch, pull.state) == ("next", "open")
    repository.protect("next", required_checks=["test"])
    for name in ("next", "main"):
        with pytest.raises(Forbidden):
            repository.rename_branch(name, "trunk", by="ann")
    repository.rename_branch("one", "other", by="ann")
    assert pull.state == "closed"


def test_pull_force_push_is_published_as_forced(repository: RepositoryHandle, published: PublishedEvents) -> None:
    """A rewritten head has the base as parent, is marked forced, and leaves a line in the timeline."""
    pull = repository.open_pull_request("One", head="one", by="ann", files={"a": "1"})
    pull.force_push({"a": "2"})
    assert published.last("push")["forced"] is True
    assert repository.record.git.must(pull.head_sha).parents == (repository.sha(),)
    assert pull.events[-1].event == "head_ref_force_pushed"


def test_pull_webhook_false_changes_state_in_silence(repository: RepositoryHandle, published: PublishedEvents) -> None:
    """A lost webhook: the state is new, and no webhook was sent."""
    pull = repository.open_pull_request("One", head="one", files={"a": "1"})
    published.events.clear()
    pull.push({"a": "2"}, webhook=False)
    pull.label("merge-queue", webhook=False)
    pull.close(webhook=False)
    assert published.events == []
    assert (pull.state, pull.labels) == ("closed", ["merge-queue"])


def test_pull_head_reaching_base_by_push_is_merged(repository: RepositoryHandle, published: PublishedEvents) -> None:
    """A push of the head into the base merges the pull request, with the merge commit as its landing."""
    pull = repository.open_pull_request("One", head="one", files={"a": "1"})
    landed = repository.domain.merging.merge_branch(
        repository.record, base="main", head="one", actor=repository.domain.accounts.actor("ann")
    )
    assert pull.merged
    assert pull.merge_sha == landed
    assert published.last("pull_request", "closed")["pull_request"]["merged_by"]["login"] == "ann"


def test_pull_fast_forwarded_into_base_is_merged_as_its_head(repository: RepositoryHandle) -> None:
    """A fast-forward over several heads merges each pull request as its own head."""
    one = repository.open_pull_request("One", head="one", files={"a": "1"})
    repository.create_branch("two", "one")
    two = repository.open_pull_request("Two", head="two", files={"b": "2"})
    repository.push_commit("main", two.head_sha)
    assert (one.merge_sha, two.merge_sha) == (one.head_sha, two.head_sha)


def test_pull_squashed_copy_on_base_does_not_merge_it(repository: RepositoryHandle) -> None:
    """The same change as another commit does not contain the head."""
    pull = repository.open_pull_request("One", head="one", files={"a": "1"})
    repository.push("main", {"a": "1"})
    assert pull.state == "open"


def test_pull_head_branch_deleted_closes_it(repository: RepositoryHandle) -> None:
    """Without its branch a pull request is closed, and can only reopen when the branch is back."""
    pull = repository.open_pull_request("One", head="one", files={"a": "1"})
    sha = pull.head_sha
    repository.delete_branch("one")
    assert (pull.state, pull.merged) == ("closed", False)
    with pytest.raises(Invalid):
        pull.reopen()
    repository.push_commit("one", sha)
    pull.reopen()
    assert pull.state == "open"


def test_pull_base_branch_deleted_closes_it(repository: RepositoryHandle) -> None:
    """Pull requests stacked on a branch close with it."""
    repository.open_pull_request("One", head="one", files={"a": "1"})
    stacked = repository.open_pull_request("Two", head="two", base="one", files={"b": "1"})
    repository.delete_branch("one")
    assert stacked.state == "closed"


def test_pull_base_edited_names_the_former_base(repository: RepositoryHandle, published: PublishedEvents) -> None:
    """The webhook of an edited base has the old name and SHA."""
    repository.create_branch("release")
    pull = repository.open_pull_request("One", head="one", files={"a": "1"})
    pull.edit_base("release")
    assert published.last("pull_request", "edited")["changes"]["base"]["ref"] == {"from": "main"}
    assert pull.record.base_branch == "release"


def test_pull_draft_and_ready_are_published_once(repository: RepositoryHandle, published: PublishedEvents) -> None:
    """Drafting is an event; drafting a draft is not."""
    pull = repository.open_pull_request("One", head="one", files={"a": "1"})
    pull.convert_to_draft()
    pull.convert_to_draft()
    pull.ready_for_review()
    actions = [name for name in published.names() if name.endswith(("draft", "review"))]
    assert actions == ["pull_request.converted_to_draft", "pull_request.ready_for_review"]


def test_pull_of_deleted_fork_has_no_head_repository(repository: RepositoryHandle, published: PublishedEvents) -> None:
    """A deleted fork leaves the pull request with an unknown repository and its commits."""
    pull = repository.open_pull_request("One", head="one", fork_of="zoe", by="rea", files={"a": "1"})
    assert pull.record.from_fork
    pull.delete_fork()
    pull.label("x")
    assert published.last("pull_request", "labeled")["pull_request"]["head"]["repo"] is None
    assert repository.record.git.ref(f"pull/{pull.number}/head") == pull.head_sha


def test_label_deleted_is_published_without_its_label(repository: RepositoryHandle, published: PublishedEvents) -> None:
    """Deleting a label takes it off everywhere; those events name no label."""
    pull = repository.open_pull_request("One", head="one", files={"a": "1"})
    pull.label("merge-queue")
    repository.delete_label("merge-queue")
    assert "label" not in published.last("pull_request", "unlabeled")
    assert pull.labels == []


def test_label_names_ignore_case_and_repeat_silently(repository: RepositoryHandle, published: PublishedEvents) -> None:
    """GitHub's labels are the same in any case; a label that is on is no event."""
    pull = repository.open_pull_request("One", head="one", files={"a": "1"})
    pull.label("Merge-Queue")
    pull.label("merge-queue")
    assert published.names().count("pull_request.labeled") == 1
    pull.unlabel("MERGE-QUEUE")
    with pytest.raises(NotFound, match="Label does not exist"):
        pull.unlabel("merge-queue")


def test_people_without_the_role_are_refused(github: GitHub, repository: RepositoryHandle) -> None:
    """Readers do not label, triagers do not merge or push, strangers see nothing of what is private."""
    pull = repository.open_pull_request("One", head="one", by="ann", files={"a": "1"})
    github.create_user("eve")
    with pytest.raises(Forbidden):
        pull.label("x", by="rea")
    with pytest.raises(NotFound):
        pull.comment("hi", by="eve")
    pull.label("x", by="tim")
    with pytest.raises(Forbidden):
        pull.merge(by="tim")
    with pytest.raises(Forbidden):
        repository.push("main", {"a": "1"}, by="tim")


@pytest.mark.parametrize("automatic", [True, False])
def test_deleted_head_branch_closes_what_is_stacked_on_it(repository: RepositoryHandle, automatic: bool) -> None:
    """Deleted by somebody: closed. Deleted by GitHub itself after the merge: aimed at the merged one's base."""
    repository.record.delete_branch_on_merge = automatic
    lower = repository.open_pull_request("Lower", head="lower", files={"a": "1"})
    upper = repository.open_pull_request("Upper", head="upper", base="lower", files={"b": "1"})
    lower.merge()
    if not automatic:
        repository.delete_branch("lower")
    assert repository.record.git.branch("lower") is None
    assert (upper.state, upper.record.base_branch) == (("open", "main") if automatic else ("closed", "lower"))
