"""The rules of a branch: classic protection and rulesets together, remembered until they are old."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from bot.gateway import Gateway
from queue_engine.domain.errors import Forbidden, NotFound
from queue_engine.domain.facts import RequiredCheck
from queue_engine.domain.model import Repository
from tests.unit.bot.conftest import ManualClock
from tests.unit.bot.github_double import LACKING, GitHubDouble, Says

REPO = "/repos/ada/engine"


BRANCH, RULES = f"{REPO}/branches/main", f"{REPO}/rules/branches/main"


def _protected(**parts: Any) -> dict[str, Any]:
    checks = [{"context": "test", "app_id": 15}, {"context": "lint", "app_id": -1}, {"context": "docs", "app_id": None}]
    required = {"enforcement_level": "everyone", "contexts": ["test", "lint", "docs", "old"], "checks": checks, **parts}
    return {"protected": True, "protection": {"enabled": True, "required_status_checks": required}}


async def test_branch_rules_are_classic_protection_and_rulesets_together(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """Every page of rules counts; null and -1 mean any source; a bare context is a check from any source."""
    ruled = {"required_status_checks": [{"context": "test"}, {"context": "deep", "integration_id": 16}]}
    link = {"link": f'<{github.url}/more-rules>; rel="next"'}
    github.on("GET", BRANCH, Says(_protected()))
    github.on("GET", RULES, Says([{"type": "required_status_checks", "parameters": ruled}], headers=link))
    github.on("GET", "/more-rules", Says([{"type": "merge_queue"}, {"type": "required_linear_history"}]))
    rules = await gateway.branch_rules(repository, "main")
    assert rules.required_checks == {
        RequiredCheck("test", 15),
        RequiredCheck("lint", None),
        RequiredCheck("docs", None),
        RequiredCheck("old", None),
        RequiredCheck("test", None),
        RequiredCheck("deep", 16),
    }
    assert (rules.native_queue, rules.linear_history) == (True, True)


@pytest.mark.parametrize(
    "branch",
    [
        {"protected": False},
        {"protection": {"enabled": False}},
        {"protection": {"enabled": True, "required_status_checks": None}},
        _protected(enforcement_level="off"),
    ],
)
async def test_branch_without_protection_demands_nothing(
    gateway: Gateway, github: GitHubDouble, repository: Repository, branch: dict[str, Any]
) -> None:
    """Protection that is off is none."""
    github.on("GET", BRANCH, Says(branch))
    github.on("GET", RULES, Says([{"type": "deletion"}]))
    rules = await gateway.branch_rules(repository, "main")
    assert (rules.required_checks, rules.native_queue, rules.linear_history) == (frozenset(), False, False)


async def test_branch_unknown_raises_not_found(gateway: Gateway, repository: Repository) -> None:
    """A base branch that was deleted is no branch without rules."""
    with pytest.raises(NotFound):
        await gateway.branch_rules(repository, "main")


@pytest.mark.parametrize(
    "says",
    [
        Says({"message": "Not Found"}, 404),
        Says({"message": "Upgrade to GitHub Pro or make this repository public to enable this feature."}, 403),
    ],
)
async def test_branch_where_rulesets_do_not_exist_has_classic_rules_only(
    gateway: Gateway, github: GitHubDouble, repository: Repository, says: Says
) -> None:
    """Older Enterprise Servers know no rulesets; private repositories on the free plan are refused them."""
    github.on("GET", BRANCH, Says(_protected()))
    github.on("GET", RULES, says)
    assert RequiredCheck("test", 15) in (await gateway.branch_rules(repository, "main")).required_checks


async def test_rulesets_forbidden_for_another_reason_raises_forbidden(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """Rules that cannot be read must not count as rules that do not exist."""
    github.on("GET", BRANCH, Says({}))
    github.on("GET", RULES, Says({"message": "Resource not accessible by integration"}, 403, LACKING))
    with pytest.raises(Forbidden):
        await gateway.branch_rules(repository, "main")


async def test_branch_rules_are_remembered_until_old_or_forgotten(
    gateway: Gateway, github: GitHubDouble, repository: Repository, clock: ManualClock
) -> None:
    """Two requests in two hours however many pull requests land; a webhook ends it at once."""
    github.on("GET", BRANCH, Says({}))
    github.on("GET", RULES, Says([]))

    async def reads() -> int:
        await asyncio.gather(*(gateway.branch_rules(repository, "main") for _ in range(3)))
        return len(github.asked_for("GET", BRANCH))

    assert [await reads(), await reads()] == [1, 1]
    clock.instant += timedelta(hours=2, seconds=1)
    assert [await reads(), await reads()] == [2, 2]
    gateway.forget_rules(repository.id)
    assert [await reads(), await reads()] == [3, 3]
    gateway.forget_rules(repository.id + 1)
    assert await reads() == 3
