"""Rulesets that IMQ may bypass: what GitHub then does not check is checked by IMQ, or named."""

from typing import Any

import pytest

from bot.gateway import Gateway
from queue_engine.domain.facts import MergeMethod, RequiredCheck
from queue_engine.domain.model import Repository
from tests.unit.bot.github_double import GitHubDouble, Says

REPO = "/repos/ada/engine"
BRANCH, RULES, RULESET = f"{REPO}/branches/main", f"{REPO}/rules/branches/main", f"{REPO}/rulesets/7"


def rule(kind: str, **parameters: Any) -> dict[str, Any]:
    return {"type": kind, "ruleset_id": 7, "parameters": parameters or None}


@pytest.fixture(autouse=True)
def unprotected(github: GitHubDouble) -> None:
    github.on("GET", BRANCH, Says({}))
    github.on("GET", RULESET, Says({"name": "main", "current_user_can_bypass": "always"}))


@pytest.mark.parametrize(
    ("demanded", "named"),
    [
        (rule("required_deployments", required_deployment_environments=["staging"]), "required deployments"),
        (rule("workflows", workflows=[]), "workflows"),
        (rule("commit_message_pattern", operator="contains", pattern="x"), "commit message pattern"),
        (rule("pull_request", require_code_owner_review=True), "code owner review"),
        (rule("pull_request", require_last_push_approval=True), "approval of the last push"),
        (rule("pull_request", required_review_thread_resolution=True), "resolved conversations"),
        (rule("pull_request", required_reviewers=[{"minimum_approvals": 1}]), "required reviewers"),
        (rule("invented_next_year"), "invented next year"),
    ],
)
@pytest.mark.parametrize("can", ["always", "pull_requests_only", "exempt", "never"])
async def test_bypassed_demand_that_imq_cannot_check_is_named(
    gateway: Gateway, github: GitHubDouble, repository: Repository, demanded: dict[str, Any], named: str, can: str
) -> None:
    """Whatever the mode, a merge call is not checked for it; where IMQ may not bypass it, GitHub checks it."""
    github.on("GET", RULES, Says([demanded]))
    github.on("GET", RULESET, Says({"name": "main", "current_user_can_bypass": can}))
    rules = await gateway.branch_rules(repository, "main")
    assert rules.bypassed == (() if can == "never" else (f"main: {named}",))


async def test_bypassed_demands_that_imq_checks_itself_hold(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """Checks, scans, approvals, methods, history and signatures hold; who may update the branch is IMQ's privilege."""
    github.on(
        "GET",
        RULES,
        Says(
            [
                *map(rule, ("update", "deletion", "non_fast_forward", "required_linear_history")),
                rule("required_signatures"),
                rule("required_status_checks", required_status_checks=[{"context": "ci", "integration_id": 15}]),
                rule("code_scanning", code_scanning_tools=[{"tool": "CodeQL", "alerts_threshold": "errors"}]),
                rule("pull_request", required_approving_review_count=2, allowed_merge_methods=["squash"]),
            ]
        ),
    )
    rules = await gateway.branch_rules(repository, "main")
    assert rules.required_checks == {RequiredCheck("ci", 15), RequiredCheck("CodeQL", None)}
    assert (rules.approvals, rules.approvals_bypassed) == (2, True)
    assert rules.methods == frozenset({MergeMethod.SQUASH})
    assert (rules.linear_history, rules.signatures, rules.locked, rules.bypassed) == (True, True, False, ())
    assert len(github.asked_for("GET", RULESET)) == 1


@pytest.mark.parametrize(
    "demanded",
    [
        rule("required_status_checks", required_status_checks=[{"context": "ci"}]),
        rule("required_linear_history"),
        rule("pull_request", required_approving_review_count=0),
    ],
)
async def test_ruleset_that_imq_checks_anyway_is_not_asked_for(
    gateway: Gateway, github: GitHubDouble, repository: Repository, demanded: dict[str, Any]
) -> None:
    """P7: who may bypass such a ruleset makes no difference."""
    github.on("GET", RULES, Says([demanded]))
    assert not (await gateway.branch_rules(repository, "main")).bypassed
    assert github.asked_for("GET", RULESET) == []


async def test_code_scanning_that_github_enforces_needs_no_check(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """GitHub itself waits for the results; a tool may report in no check."""
    github.on("GET", RULES, Says([rule("code_scanning", code_scanning_tools=[{"tool": "CodeQL"}])]))
    github.on("GET", RULESET, Says({"current_user_can_bypass": "never"}))
    assert (await gateway.branch_rules(repository, "main")).required_checks == frozenset()


@pytest.mark.parametrize("answer", [Says({"name": "main"}), Says({"message": "Not Found"}, status=404)])
async def test_approvals_are_counted_where_it_is_unknown_whether_imq_may_bypass_them(
    gateway: Gateway, github: GitHubDouble, repository: Repository, answer: Says
) -> None:
    """P4: IMQ counts approvals itself; what IMQ cannot check is left to GitHub, and ejects no pull request."""
    demanded = rule("pull_request", required_approving_review_count=1, require_code_owner_review=True)
    github.on("GET", RULES, Says([demanded]))
    github.on("GET", RULESET, answer)
    rules = await gateway.branch_rules(repository, "main")
    assert (rules.approvals, rules.approvals_bypassed, rules.bypassed) == (1, True, ())


@pytest.mark.parametrize(("can", "locked"), [("always", False), ("exempt", False), ("never", True)])
async def test_branch_that_only_others_may_update_is_locked_for_imq(
    gateway: Gateway, github: GitHubDouble, repository: Repository, can: str, locked: bool
) -> None:
    """Beside a ruleset that IMQ may bypass there may be one that it may not: only the former's rule is dropped."""
    github.on("GET", RULES, Says([rule("update"), {**rule("update"), "ruleset_id": 8}]))
    github.on("GET", f"{REPO}/rulesets/8", Says({"name": "other", "current_user_can_bypass": can}))
    assert (await gateway.branch_rules(repository, "main")).locked is locked


@pytest.mark.parametrize(("can", "bypassed"), [("always", True), ("never", False)])
async def test_approvals_that_github_enforces_count_as_not_bypassed(
    gateway: Gateway, github: GitHubDouble, repository: Repository, can: str, bypassed: bool
) -> None:
    """Being on the list of another ruleset changes nothing of this one."""
    demanded = {**rule("pull_request", required_approving_review_count=1), "ruleset_id": 8}
    github.on("GET", RULES, Says([rule("update"), demanded]))
    github.on("GET", f"{REPO}/rulesets/8", Says({"name": "other", "current_user_can_bypass": can}))
    assert (await gateway.branch_rules(repository, "main")).approvals_bypassed is bypassed
