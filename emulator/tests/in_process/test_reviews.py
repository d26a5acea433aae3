"""What rules ask of people, and in which words the merge is refused until they did it."""

import pytest

from github_emulator import Actor, GitHub, NotMergeable, PullRequestHandle, RepositoryHandle, ReviewRule
from in_process.conftest import LINES, PublishedEvents, edited

OWNERS = {".github/CODEOWNERS": "* @bob\n/docs/ @cleo @dora @rea\n*.lock\n"}


@pytest.fixture
def repository(github: GitHub) -> RepositoryHandle:
    people = {"ann": "write", "bob": "write", "cleo": "write", "dora": "write", "rea": "read"}
    files = {"lines.txt": LINES, **OWNERS}
    return github.create_repository("octo/app", files=files, collaborators=people)


@pytest.fixture
def pull(repository: RepositoryHandle) -> PullRequestHandle:
    return repository.open_pull_request("One", head="one", by="ann", files={"lines.txt": edited(1)})


def refusal(pull: PullRequestHandle, method: str = "merge", by: str = "ann") -> str:
    """GitHub's words when this person tries to merge."""
    with pytest.raises(NotMergeable) as error:
        pull.merge(method, by=by)
    return error.value.message


def test_changes_requested_stand_even_without_required_approvals(
    repository: RepositoryHandle, pull: PullRequestHandle
) -> None:
    """A request for changes by a person who may write blocks the merge until the review is dismissed."""
    repository.protect("main", reviews=ReviewRule())
    pull.review("CHANGES_REQUESTED", by="rea")
    first = pull.review("CHANGES_REQUESTED", by="bob")
    pull.review("CHANGES_REQUESTED", by="cleo")
    assert refusal(pull) == "2 reviews requesting changes by reviewers with write access."
    pull.dismiss_review(first)
    assert refusal(pull) == "1 review requesting changes by reviewers with write access."
    pull.review("APPROVED", by="cleo")
    assert pull.merge(by="ann")


def test_code_owner_of_each_file_must_agree(repository: RepositoryHandle) -> None:
    """The last matching line of the base's CODEOWNERS decides; owners without write access do not count."""
    repository.protect("main", reviews=ReviewRule(1, code_owners=True))
    pull = repository.open_pull_request("Two", head="two", by="ann", files={"docs/a.md": "1", "x": "1", "y.lock": "1"})
    assert refusal(pull) == "Waiting on code owner review from cleo, dora, and/or bob."
    pull.review("APPROVED", by="bob")
    assert refusal(pull) == "Waiting on code owner review from cleo and/or dora."
    pull.review("APPROVED", by="dora")
    assert pull.merge(by="ann")


def test_code_owners_of_the_pull_request_itself_do_not_count(repository: RepositoryHandle) -> None:
    """Ownership is read from the base: a change cannot give its own files away."""
    repository.protect("main", reviews=ReviewRule(code_owners=True))
    files = {".github/CODEOWNERS": "* @ann\n", "x": "1"}
    pull = repository.open_pull_request("Mine", head="mine", by="ann", files=files)
    assert refusal(pull) == "Waiting on code owner review from bob."


async def test_stale_approval_is_dismissed_by_a_push_and_not_by_an_update(
    github: GitHub, repository: RepositoryHandle, pull: PullRequestHandle, published: PublishedEvents
) -> None:
    """Merging the base in changes nothing of the pull request's own; a commit does, and the apps get webhooks."""
    repository.protect("main", reviews=ReviewRule(1, dismiss_stale=True))
    pull.review("APPROVED", by="bob")
    repository.unprotect("main")
    repository.push("main", {"lines.txt": edited(9)})
    repository.protect("main", reviews=ReviewRule(1, dismiss_stale=True))
    pull.update_branch(by="bob")
    await github.advance(github.timings.update_branch)
    assert len(github.pulls.commits(pull.record)) == 2
    assert [review.state for review in pull.record.reviews] == ["APPROVED"]
    pull.push({"more": "1"}, by="ann")
    assert refusal(pull) == "At least 1 approving review is required by reviewers with write access."
    assert published.last("pull_request_review", "dismissed")["review"]["state"] == "dismissed"


def test_last_push_must_be_approved_by_somebody_else(repository: RepositoryHandle, pull: PullRequestHandle) -> None:
    """Who pushed last cannot be the one who agreed, and an approval of an earlier head does not count."""
    repository.protect("main", reviews=ReviewRule(1, last_push=True))
    pull.review("APPROVED", by="bob")
    pull.push({"more": "1"}, by="cleo")
    assert refusal(pull) == "New changes require approval from someone other than the last pusher."
    pull.review("APPROVED", by="cleo")
    assert refusal(pull) == "New changes require approval from someone other than the last pusher."
    pull.review("APPROVED", by="dora")
    assert pull.merge(by="ann")


@pytest.mark.parametrize("where", ["classic", "ruleset"])
def test_unresolved_conversation_stands_in_the_way(
    repository: RepositoryHandle, pull: PullRequestHandle, where: str
) -> None:
    """Each one must be resolved, by the author or somebody who may write."""
    if where == "classic":
        repository.protect("main", required_conversation_resolution=True)
    else:
        repository.add_ruleset("talk", reviews=ReviewRule(resolve_threads=True))
    thread = pull.open_thread("Why?", by="rea")
    assert "A conversation must be resolved before this pull request can be merged." in refusal(pull)
    pull.resolve_thread(thread)
    assert pull.merge(by="ann")


def test_unsigned_commits_land_by_squash_only(repository: RepositoryHandle, pull: PullRequestHandle) -> None:
    """A squash is GitHub's own commit, which it signs; the author's commits must be signed themselves."""
    repository.protect("main", signatures=True)
    assert refusal(pull) == "Commits must have verified signatures."
    pull.sign()
    assert refusal(pull, "rebase") == "Commits must have verified signatures."
    assert pull.merge(by="ann")
    other = repository.open_pull_request("Two", head="two", by="ann", files={"x": "1"})
    assert other.merge("squash", by="ann")


def test_deployments_are_asked_of_the_head(repository: RepositoryHandle, pull: PullRequestHandle) -> None:
    """Each environment, on the very commit."""
    repository.add_ruleset("deployed", deployments=["staging", "canary"])
    assert "Missing successful active staging and canary deployments." in refusal(pull)
    pull.deploy("canary")
    assert "Missing successful active staging deployment." in refusal(pull)
    pull.deploy("staging")
    assert pull.merge(by="ann")


def test_ruleset_leaves_some_merge_methods(repository: RepositoryHandle, pull: PullRequestHandle) -> None:
    """A method that a ruleset does not allow is refused in the words of the repository's settings."""
    repository.add_ruleset("squash only", reviews=ReviewRule(methods=("squash",)))
    assert refusal(pull) == "Merge commits are not allowed on this repository."
    assert refusal(pull, "rebase") == "Rebase merges are not allowed on this repository."
    assert pull.merge("squash", by="ann")


def test_update_rule_freezes_the_branch(repository: RepositoryHandle, pull: PullRequestHandle) -> None:
    """No one may move it, not even by a merge."""
    repository.add_ruleset("frozen", update=True)
    assert refusal(pull, by="octo") == "Repository rule violations found\n\nCannot update this protected ref.\n\n"


def test_organisation_ruleset_holds_in_the_repositories_it_names(github: GitHub, repository: RepositoryHandle) -> None:
    """It is the owner's: other repositories that it names are bound too, others are not."""
    repository.add_ruleset("ours", organisation=True, repositories=["app", "lib-*"], required_checks=["ci/test"])
    other = github.create_repository("octo/lib-a", files={"a": "1"})
    free = github.create_repository("octo/site", files={"a": "1"})
    bound = [bool(github.rules.rulesets(one.record, "main")) for one in (repository, other, free)]
    assert bound == [True, True, False]


def test_ruleset_does_not_bind_those_on_its_list(github: GitHub, repository: RepositoryHandle) -> None:
    """An app may be the only one that moves a branch: everybody else is refused, pushing and merging."""
    app = github.create_app("queue", permissions={"contents": "write", "pull_requests": "write"})
    repository.add_ruleset("the queue's", update=True, merge_queue=True, bypass=["queue"])
    pull = repository.open_pull_request("One", head="one", by="ann", files={"x": "1"})
    assert "Cannot update this protected ref." in refusal(pull, by="octo")
    actor = Actor(app.bot, app, {"contents": "write"})
    assert github.merging.merge(pull.record, actor=actor)
    github.refs.update(repository.record, "main", repository.commit({"y": "1"}, repository.sha()), actor=actor)
