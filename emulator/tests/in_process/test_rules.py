"""Protection and rulesets: what they demand, of whom, and in which words they refuse."""

import pytest

from github_emulator import (
    Actor,
    App,
    CheckRunFields,
    GitHub,
    Invalid,
    NotMergeable,
    PullRequestHandle,
    RepositoryHandle,
    ReviewRule,
)


@pytest.fixture
def pull(repository: RepositoryHandle) -> PullRequestHandle:
    return repository.open_pull_request("One", head="one", by="ann", files={"a": "1"})


@pytest.fixture
def ci(github: GitHub) -> App:
    app = github.create_app("ci", permissions={"checks": "write", "statuses": "write"})
    github.install(app, "octo")
    return app


def report(pull: PullRequestHandle, app: App, conclusion: str | None, name: str = "ci/test") -> None:
    """One run on the pull request's head; None is a run under way."""
    pull.domain.checks.create_run(
        pull.record.repository,
        app=app,
        name=name,
        head_sha=pull.head_sha,
        fields=CheckRunFields(status="completed" if conclusion else "in_progress", conclusion=conclusion),
    )


def refusal(pull: PullRequestHandle, by: str = "ann", method: str = "merge") -> str:
    """GitHub's words when this person tries to merge."""
    with pytest.raises(NotMergeable) as error:
        pull.merge(method, by=by)
    return error.value.message


def test_required_check_is_expected_then_running_then_failing_then_passing(
    repository: RepositoryHandle, pull: PullRequestHandle, ci: App
) -> None:
    """Absent means expected; the newest run decides, whatever an older one said."""
    repository.protect("main", required_checks=["ci/test"])
    assert refusal(pull) == 'Required status check "ci/test" is expected.'
    report(pull, ci, None)
    assert refusal(pull) == 'Required status check "ci/test" is in progress.'
    report(pull, ci, "success")
    report(pull, ci, "failure")
    assert refusal(pull) == 'Required status check "ci/test" is failing.'
    report(pull, ci, "success")
    assert pull.merge(by="ann")


@pytest.mark.parametrize("conclusion", ["success", "skipped", "neutral"])
def test_required_check_passes_with(
    repository: RepositoryHandle, pull: PullRequestHandle, ci: App, conclusion: str
) -> None:
    """Success, skipped and neutral pass."""
    repository.protect("main", required_checks=["ci/test"])
    report(pull, ci, conclusion)
    assert pull.merge(by="ann")


def test_required_checks_missing_are_counted(repository: RepositoryHandle, pull: PullRequestHandle, ci: App) -> None:
    """Several missing checks come as a number."""
    repository.protect("main", required_checks=["one", "two", "three"])
    report(pull, ci, "success", "one")
    assert refusal(pull) == "2 of 3 required status checks are expected."


@pytest.mark.parametrize(
    ("reports", "message"),
    [
        ({}, "3 of 3 required status checks are expected."),
        (
            {"one": "failure", "two": "timed_out"},
            "3 of 3 required status checks have not succeeded: 1 expected and 2 failing.",
        ),
        ({"one": None, "two": None, "three": "success"}, "2 of 3 required status checks are in progress."),
        (
            {"one": None, "two": "failure", "three": "success"},
            "2 of 3 required status checks have not succeeded: 1 failing.",
        ),
        ({"one": "success", "two": "cancelled", "three": "skipped"}, 'Required status check "two" is failing.'),
    ],
)
def test_required_checks_unmet_come_in_one_sentence(
    repository: RepositoryHandle, pull: PullRequestHandle, ci: App, reports: dict[str, str | None], message: str
) -> None:
    """By name when it is one; in numbers of one kind, else of several; runs under way are not counted out."""
    repository.protect("main", required_checks=["one", "two", "three"])
    for name, conclusion in reports.items():
        report(pull, ci, conclusion, name)
    assert refusal(pull) == message


def test_locked_branch_refuses_every_change(repository: RepositoryHandle, pull: PullRequestHandle) -> None:
    """Neither by merge nor by push, as long as administrators are bound too."""
    repository.protect("main", lock=True, enforce_admins=True)
    assert refusal(pull, by="bob") == "Cannot change this locked branch"
    with pytest.raises(Invalid, match="Cannot change this locked branch"):
        repository.push("main", {"b": "1"})


def test_required_check_of_an_app_is_met_by_that_app_only(
    github: GitHub, repository: RepositoryHandle, pull: PullRequestHandle, ci: App
) -> None:
    """Another app's run of the same name does not count."""
    impostor = github.create_app("impostor", permissions={"checks": "write"})
    repository.protect("main", required_checks=[("ci/test", ci.id)])
    report(pull, impostor, "success")
    assert refusal(pull) == 'Required status check "ci/test" is expected.'
    report(pull, ci, "success")
    assert pull.merge(by="ann")


def test_check_run_and_status_of_one_name_are_both_required(
    github: GitHub, repository: RepositoryHandle, pull: PullRequestHandle, ci: App
) -> None:
    """A green run does not outvote a red status of its name."""
    repository.protect("main", required_checks=["ci/test"])
    report(pull, ci, "success")
    actor = Actor(ci.bot, ci)
    github.checks.create_status(repository.record, pull.head_sha, actor=actor, state="failure", context="ci/test")
    assert refusal(pull) == 'Required status check "ci/test" is failing.'
    github.checks.create_status(repository.record, pull.head_sha, actor=actor, state="success", context="ci/test")
    assert pull.merge(by="ann")


def test_strict_protection_refuses_a_head_that_is_behind(
    github: GitHub, repository: RepositoryHandle, pull: PullRequestHandle, ci: App
) -> None:
    """However green, a head that lacks base commits has its checks expected, and shows as behind."""
    repository.protect("main", required_checks=["ci/test"], strict=True)
    report(pull, ci, "success")
    repository.push("main", {"b": "1"})
    assert refusal(pull) == 'Required status check "ci/test" is expected.'
    assert github.rules.is_behind(pull.record)


def test_required_approval_counts_people_with_write_access(
    repository: RepositoryHandle, pull: PullRequestHandle
) -> None:
    """A reader's approval does not count, a writer's does, and a request for changes blocks."""
    repository.protect("main", required_approvals=1)
    pull.review("APPROVED", by="rea")
    assert refusal(pull) == "At least 1 approving review is required by reviewers with write access."
    pull.review("CHANGES_REQUESTED", by="bob")
    assert refusal(pull) == "1 review requesting changes by reviewers with write access."
    pull.review("APPROVED", by="bob")
    assert pull.merge(by="ann")


def test_administrators_pass_unless_they_are_bound_too(repository: RepositoryHandle, pull: PullRequestHandle) -> None:
    """`enforce_admins` decides whether protection holds for administrators."""
    repository.protect("main", required_checks=["ci/test"], enforce_admins=True)
    assert refusal(pull, by="bob")
    repository.protect("main", required_checks=["ci/test"])
    assert pull.merge(by="bob")


def test_ruleset_binds_administrators_and_says_so(repository: RepositoryHandle, pull: PullRequestHandle) -> None:
    """A ruleset's refusal has GitHub's heading; disabled or elsewhere it does not hold."""
    repository.add_ruleset("elsewhere", branches=["release/*"], required_checks=["never"])
    repository.add_ruleset("off", required_checks=["never"], enforcement="disabled")
    rules = repository.add_ruleset("on", required_checks=["ci/test"])
    expected = 'Repository rule violations found\n\nRequired status check "ci/test" is expected.\n\n'
    assert refusal(pull, by="bob") == expected
    repository.remove_ruleset(rules)
    assert pull.merge(by="bob")


def test_native_merge_queue_refuses_every_other_way(repository: RepositoryHandle, pull: PullRequestHandle) -> None:
    """A branch with GitHub's own queue is merged by that queue alone, and not pushed to."""
    repository.add_ruleset("queue", merge_queue=True)
    assert "Changes must be made through the merge queue" in refusal(pull, by="bob")
    with pytest.raises(Invalid, match="Changes must be made through the merge queue"):
        repository.push("main", {"b": "1"})


def test_linear_history_refuses_merge_commits_only(repository: RepositoryHandle, pull: PullRequestHandle) -> None:
    """Squashing is fine."""
    repository.protect("main", required_linear_history=True)
    assert refusal(pull) == "This branch must not contain merge commits."
    assert pull.merge("squash", by="ann")


def test_push_to_protected_branch_needs_its_checks(
    repository: RepositoryHandle, pull: PullRequestHandle, ci: App
) -> None:
    """A direct push is refused until the very commit is green; then a fast-forward lands it."""
    repository.protect("main", required_checks=["ci/test"], strict=True)
    with pytest.raises(Invalid, match='Required status check "ci/test" is expected'):
        repository.push_commit("main", pull.head_sha, by="ann")
    report(pull, ci, "success")
    repository.push_commit("main", pull.head_sha, by="ann")
    assert pull.merged


def test_push_restrictions_hold_for_pushes_and_merges(repository: RepositoryHandle, pull: PullRequestHandle) -> None:
    """Only who is listed may move the branch."""
    repository.protect("main", restrict_pushes=["bob"], enforce_admins=True)
    with pytest.raises(Invalid, match="not authorized"):
        repository.push("main", {"b": "1"}, by="ann")
    assert "not authorized" in refusal(pull, by="ann")
    assert pull.merge(by="bob")


def test_force_push_and_deletion_of_protected_branch_are_refused(repository: RepositoryHandle) -> None:
    """Protection keeps history, for administrators too when it binds them."""
    repository.create_branch("release")
    repository.push("release", {"b": "1"})
    repository.protect("rel*", enforce_admins=True)
    with pytest.raises(Invalid, match="Cannot force-push"):
        repository.force_push("release", {"b": "2"})
    with pytest.raises(Invalid, match="Cannot delete"):
        repository.delete_branch("release")


async def test_mergeable_state_follows_the_rules(
    github: GitHub, repository: RepositoryHandle, pull: PullRequestHandle, ci: App
) -> None:
    """Blocked, behind, unstable and clean, as GitHub shows them."""
    github.mergeability.mergeable(pull.record)
    await github.advance(github.timings.mergeable)
    states = [github.mergeability.mergeable_state(pull.record)]
    report(pull, ci, "failure", "optional")
    states.append(github.mergeability.mergeable_state(pull.record))
    repository.protect("main", required_checks=["ci/test"], strict=True)
    states.append(github.mergeability.mergeable_state(pull.record))
    repository.push("main", {"b": "1"})
    github.mergeability.mergeable(pull.record)
    await github.advance(github.timings.mergeable)
    states.append(github.mergeability.mergeable_state(pull.record))
    assert states == ["clean", "unstable", "blocked", "behind"]


def test_classic_reviews_spare_those_whom_they_name(repository: RepositoryHandle, pull: PullRequestHandle) -> None:
    """GitHub calls it "Allow specified actors to bypass required pull requests": others still need approvals."""
    repository.protect("main", reviews=ReviewRule(1, spared=["app"]))
    assert "approving review" in refusal(pull, by="ann")
    repository.protect("main", reviews=ReviewRule(1, spared=["app", "ann"]))
    assert pull.merge(by="ann")
