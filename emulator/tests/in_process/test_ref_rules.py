"""Rules for branches that are created, moved and deleted without a pull request, and who may bypass them."""

from collections.abc import Callable
from typing import Any

import pytest

from github_emulator import (
    Actor,
    CheckRunFields,
    Conflict,
    Forbidden,
    GitHub,
    Invalid,
    NotMergeable,
    RepositoryHandle,
    ReviewRule,
)
from github_emulator.domain.rules.ruleset_scope import matches

HEADING = "Repository rule violations found\n\n"
WORKFLOW = {".github/workflows/ci.yml": "on: push\n"}


@pytest.fixture
def queue(github: GitHub) -> Actor:
    """An app that may write contents, not workflows."""
    permissions = {"contents": "write", "pull_requests": "write", "metadata": "read"}
    app = github.create_app("queue", permissions=permissions)
    github.install(app, "octo")
    return Actor(app.bot, app, permissions)


@pytest.mark.parametrize(
    ("pattern", "branch", "expected"),
    [
        ("release/*", "release/1", True),
        ("release/*", "release/1/hotfix", False),
        ("release/**/*", "release/1/hotfix", True),
        ("release/**/*", "release/1", True),
        ("*", "feature/one", False),
        ("rel?", "rel1", True),
        ("[!m]ain", "main", False),
        ("v1.x", "v1-x", False),
        ("refs/heads/main", "main", True),
    ],
)
def test_pattern_of_branches_does_not_match_slashes_with_one_star(pattern: str, branch: str, expected: bool) -> None:
    """docs: "Creating rulesets for a repository": `File.fnmatch` with `FNM_PATHNAME`."""
    assert matches(branch, pattern) is expected


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"creation": True}, "Cannot create ref due to creations being restricted."),
        ({"branch_name": "^fix/"}, "Branch name must match a given regex pattern: ^fix/"),
        ({"required_checks": ["ci/test"]}, 'Required status check "ci/test" is expected.'),
        ({"required_approvals": 1}, "Changes must be made through a pull request."),
        ({"workflows": [".github/workflows/scan.yml"]}, 'Required status check "scan" is expected.'),
        ({"required_checks": ["ci/test"], "checks_on_create": False}, None),
        ({"update": True, "deletion": True, "non_fast_forward": True, "merge_queue": True}, None),
        ({"creation": True, "excluded": ["feature/**/*"]}, None),
        ({"creation": True, "organisation": True, "repositories": ["other"]}, None),
        ({"creation": True, "organisation": True}, "Cannot create ref due to creations being restricted."),
    ],
)
def test_creation_of_a_branch_obeys_rulesets(
    repository: RepositoryHandle, rules: dict[str, Any], message: str | None
) -> None:
    """Also those of the organisation; `do_not_enforce_on_create` and exclusions leave it alone."""
    repository.add_ruleset("all", branches=["~ALL"], **rules)
    if message is None:
        repository.create_branch("feature/one")
        return
    with pytest.raises(Invalid) as refused:
        repository.create_branch("feature/one")
    assert refused.value.message == f"{HEADING}{message}\n\n"


def test_all_violations_of_a_branch_are_listed(repository: RepositoryHandle) -> None:
    """One answer names them all, each commit that violates a rule among them (Kong/kong-operator #4536)."""
    repository.push("side", {"a": "1"})
    sha = repository.commit({"b": "1"}, repository.sha("side"))
    checks = ["one", "two"]
    repository.add_ruleset("all", branches=["~ALL"], creation=True, signatures=True, required_checks=checks)
    with pytest.raises(Invalid) as refused:
        repository.push_commit("new", sha)
    assert refused.value.message == (
        f"{HEADING}Cannot create ref due to creations being restricted.\n\n"
        "2 of 2 required status checks are expected.\n\n"
        f"Commits must have verified signatures.\n\nFound 1 violation:\n\n{sha}\n\n"
    )


def test_pull_request_rule_on_creation_is_a_switch(github: GitHub, repository: RepositoryHandle) -> None:
    """Sources differ on whether that rule forbids a new branch; it always forbids a push to it."""
    repository.add_ruleset("all", branches=["~ALL"], required_approvals=1)
    github.behaviour.pull_request_rule_on_create = False
    repository.create_branch("new")
    with pytest.raises(Invalid, match="Changes must be made through a pull request"):
        repository.push("new", {"b": "1"})


def test_branch_protected_by_a_pattern_may_be_created_but_not_deleted(repository: RepositoryHandle) -> None:
    """Classic protection binds branches that exist (open-telemetry/community #2696)."""
    repository.protect("release/*", required_checks=["ci/test"], enforce_admins=True)
    repository.create_branch("release/1")
    with pytest.raises(Invalid, match=r"^Cannot delete this protected branch$"):
        repository.delete_branch("release/1")


@pytest.mark.parametrize(
    ("mode", "apps_bypass", "moves"),
    [
        ("always", True, True),
        ("always", False, False),
        ("pull_request", True, False),
        ("exempt", False, True),
        (None, True, False),
    ],
)
def test_bypass_mode_decides_about_merges_and_branch_updates(
    github: GitHub, repository: RepositoryHandle, queue: Actor, mode: str | None, apps_bypass: bool, moves: bool
) -> None:
    """Every mode merges past the rules; `pull_request` pushes nothing, and of `always` vendors disagree for apps."""
    github.behaviour.apps_bypass_updates = apps_bypass
    bypass = {} if mode is None else {"queue": mode}
    repository.add_ruleset("rules", required_approvals=1, required_checks=["ci/test"], bypass=bypass)
    pull = repository.open_pull_request("One", head="one", files={"a": "1"}).record
    if mode is None:
        with pytest.raises(NotMergeable):
            github.merging.merge(pull, actor=queue)
    else:
        assert github.merging.merge(pull, actor=queue)
    sha = repository.commit({"b": "1"}, repository.sha("main"))
    if moves:
        github.refs.update(repository.record, "main", sha, actor=queue)
    else:
        with pytest.raises(Invalid, match="Changes must be made through a pull request"):
            github.refs.update(repository.record, "main", sha, actor=queue)


async def test_merge_of_a_branch_that_may_not_be_deleted_lands_and_leaves_it(repository: RepositoryHandle) -> None:
    """WordPress/WordPress-Coding-Standards #2751: the deletion is skipped without a word."""
    repository.record.delete_branch_on_merge = True
    repository.add_ruleset("keep", branches=["one"], deletion=True)
    kept, deleted = (repository.open_pull_request(name, head=name, files={name: "1"}) for name in ("one", "two"))
    assert kept.merge()
    assert deleted.merge()
    await repository.domain.context.schedule.advance(repository.domain.context.timings.retarget)
    assert repository.record.git.branch("one") == kept.head_sha
    assert repository.record.git.branch("two") is None
    with pytest.raises(Invalid, match="Cannot delete this branch"):
        repository.delete_branch("one")


def test_update_of_a_head_branch_obeys_its_rules(github: GitHub, repository: RepositoryHandle, queue: Actor) -> None:
    """A ruleset for all branches refuses what `update-branch` would push to the head."""
    pull = repository.open_pull_request("One", head="one", files={"a": "1"})
    repository.push("main", {"b": "1"})
    rules = repository.add_ruleset("all", branches=["~ALL"], required_checks=["ci/test"])
    with pytest.raises(Invalid, match='Required status check "ci/test" is expected'):
        github.merging.update_branch(pull.record, actor=queue)
    repository.remove_ruleset(rules)
    github.merging.update_branch(pull.record, actor=queue)


@pytest.mark.parametrize("way", ["create", "update", "merge", "merge, conflict"])
def test_branch_with_changed_workflows_needs_the_permission(
    github: GitHub, repository: RepositoryHandle, queue: Actor, way: str
) -> None:
    """Whichever call makes the commit a branch's tip; of `POST /merges` sources know 403 and 409."""
    sha = repository.push("one", WORKFLOW)
    refs, record = github.refs, repository.record
    repository.create_branch("other")
    github.behaviour.merges_refuse_workflows_with_409 = "conflict" in way
    calls: dict[str, Callable[[], object]] = {
        "create": lambda: refs.create(record, "new", sha, actor=queue),
        "update": lambda: refs.update(record, "other", sha, actor=queue),
        "merge": lambda: github.merging.merge_branch(record, base="other", head="one", actor=queue),
    }
    with pytest.raises((Forbidden, Conflict), match=r"ci.yml` without `workflows` permission") as refused:
        calls[way.partition(",")[0]]()
    assert refused.value.status == (409 if "conflict" in way else 403)
    refs.create(record, "new", repository.sha("main"), actor=queue)


def test_merge_of_branches_is_refused_by_rules_with_a_conflict(repository: RepositoryHandle, queue: Actor) -> None:
    """mantidproject/mantid #41541: `POST /merges` answers 409 for rule violations."""
    repository.push("one", {"a": "1"})
    repository.add_ruleset("rules", required_approvals=1)
    with pytest.raises(Conflict, match=r"^Repository rule violations found\s+Changes must be made through a pull"):
        repository.domain.merging.merge_branch(repository.record, base="main", head="one", actor=queue)


def test_code_scanning_is_waited_for_and_refuses_alerts(github: GitHub, repository: RepositoryHandle) -> None:
    """Never reported, not reported on this head, under way, with alerts, without."""
    repository.add_ruleset("scan", code_scanning=["CodeQL"])
    pull = repository.open_pull_request("One", head="one", files={"a": "1"})
    app = github.create_app("scanner", permissions={"checks": "write"})

    def report(sha: str, conclusion: str | None) -> None:
        status = "completed" if conclusion else "in_progress"
        github.checks.create_run(
            repository.record,
            app=app,
            name="CodeQL",
            head_sha=sha,
            fields=CheckRunFields(status=status, conclusion=conclusion),
        )

    def refusal() -> str:
        with pytest.raises(NotMergeable) as refused:
            pull.merge(by="bob")
        return refused.value.message.removeprefix(HEADING).strip()

    missing = "Waiting for Code Scanning results. Code Scanning may not be configured for the target branch."
    waiting = f"Code scanning is waiting for results from CodeQL for the commit {pull.head_sha[:7]}."
    assert refusal() == missing
    report(repository.sha("main"), "success")
    assert refusal() == waiting
    report(pull.head_sha, None)
    assert refusal() == waiting
    report(pull.head_sha, "failure")
    assert refusal().startswith("Code scanning results from CodeQL")
    report(pull.head_sha, "success")
    assert pull.merge(by="bob")


def test_method_that_a_ruleset_forbids_has_two_wordings(github: GitHub, repository: RepositoryHandle) -> None:
    """That of the repository's settings, or that of a rule (termux/termux-packages #23456)."""
    repository.add_ruleset("squash only", reviews=ReviewRule(methods=("squash",)))
    pull = repository.open_pull_request("One", head="one", files={"a": "1"})
    with pytest.raises(NotMergeable, match=r"^Merge commits are not allowed on this repository\.$"):
        pull.merge()
    github.behaviour.methods_worded_as_settings = False
    with pytest.raises(NotMergeable, match="Merge is not an allowed merge method in this repository"):
        pull.merge()
    assert pull.merge("squash")
