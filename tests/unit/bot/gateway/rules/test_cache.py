"""Classic protection in full, where the App may read it, joined with rulesets; the summary where it may not."""

from datetime import timedelta
from typing import Any

import pytest

from bot.gateway import Gateway
from queue_engine.domain.errors import Unavailable
from queue_engine.domain.facts import BranchRules, RequiredCheck
from queue_engine.domain.model import Repository
from tests.unit.bot.conftest import APP_ID, ManualClock
from tests.unit.bot.github_double import LACKING, GitHubDouble, Says

REPO = "/repos/ada/engine"
BRANCH, RULES = f"{REPO}/branches/main", f"{REPO}/rules/branches/main"
PROTECTION = f"{BRANCH}/protection"
OURS, OTHER = {"id": int(APP_ID), "slug": "imq"}, {"id": 4242, "slug": "other"}
REVIEWS = {"required_approving_review_count": 2, "require_code_owner_reviews": True, "dismiss_stale_reviews": True}


async def rules_of(gateway: Gateway, github: GitHubDouble, repository: Repository, protection: Any) -> BranchRules:
    """What is read of a branch that is protected so, without rulesets."""
    github.on("GET", PROTECTION, Says(protection))
    github.on("GET", RULES, Says([]))
    return await gateway.branch_rules(repository, "main")


async def test_protection_in_full_becomes_rules(gateway: Gateway, github: GitHubDouble, repository: Repository) -> None:
    """The rules have everything that is known before a merge, and cost no request for the branch."""
    holds = {"enabled": True}
    protection = {
        "required_status_checks": {
            "strict": True,
            "contexts": ["test", "lint", "old"],
            "checks": [{"context": "test", "app_id": 15}, {"context": "lint", "app_id": None}],
        },
        "required_pull_request_reviews": REVIEWS,
        **dict.fromkeys(("required_linear_history", "required_conversation_resolution"), holds),
        **dict.fromkeys(("required_signatures", "lock_branch"), holds),
        "restrictions": {"users": [], "teams": [], "apps": [OTHER]},
        "enforce_admins": {"enabled": False},
    }
    assert await rules_of(gateway, github, repository, protection) == BranchRules(
        protected=True,
        required_checks=frozenset({RequiredCheck("test", 15), RequiredCheck("lint", None), RequiredCheck("old", None)}),
        native_queue=False,
        linear_history=True,
        approvals=2,
        code_owners=True,
        conversations=True,
        signatures=True,
        locked=True,
        push_restricted=True,
        up_to_date=True,
        up_to_date_by=frozenset({0}),
    )
    assert github.asked_for("GET", BRANCH) == []


@pytest.mark.parametrize(
    "protection",
    [
        {},
        {"enabled": False, "lock_branch": {"enabled": True}},
        {
            "lock_branch": {"enabled": False},
            "required_linear_history": {},
            "required_signatures": None,
            "required_pull_request_reviews": None,
            "required_status_checks": None,
            "restrictions": None,
        },
    ],
)
async def test_protection_without_a_part_does_not_demand_it(
    gateway: Gateway, github: GitHubDouble, repository: Repository, protection: Any
) -> None:
    """GitHub leaves out what is not demanded, says null, or that it is not enabled."""
    nothing = BranchRules(
        required_checks=frozenset(), native_queue=False, linear_history=False, protected=protection.get("enabled", True)
    )
    assert await rules_of(gateway, github, repository, protection) == nothing


@pytest.mark.parametrize(
    ("apps", "restricted"), [([], True), ([OTHER], True), ([OTHER, OURS], False), ([None, OURS], False), (None, False)]
)
async def test_push_restriction_that_names_the_app_leaves_it_in(
    gateway: Gateway, github: GitHubDouble, repository: Repository, apps: Any, restricted: bool
) -> None:
    """People and teams on the list do not matter: an App is neither. A list without Apps proves nothing."""
    protection = {"restrictions": {"users": [{"login": "ada"}], "teams": [], "apps": apps}}
    assert (await rules_of(gateway, github, repository, protection)).push_restricted is restricted


@pytest.mark.parametrize(("apps", "demanded"), [([OTHER], (2, True)), ([OTHER, OURS], (0, False)), (None, (2, True))])
async def test_reviews_that_the_app_is_spared_are_not_demanded(
    gateway: Gateway, github: GitHubDouble, repository: Repository, apps: Any, demanded: tuple[int, bool]
) -> None:
    """GitHub merges without them when an App on this list asks for it."""
    protection = {"required_pull_request_reviews": {**REVIEWS, "bypass_pull_request_allowances": {"apps": apps}}}
    rules = await rules_of(gateway, github, repository, protection)
    assert (rules.approvals, rules.code_owners) == demanded


@pytest.mark.parametrize(("classic", "ruled"), [(1, 2), (2, 1)])
async def test_of_protection_and_rulesets_the_strictest_counts(
    gateway: Gateway, github: GitHubDouble, repository: Repository, classic: int, ruled: int
) -> None:
    """Neither lifts what the other demands."""
    reviews = {"required_approving_review_count": classic}
    github.on("GET", PROTECTION, Says({"required_pull_request_reviews": reviews}))
    github.on("GET", RULES, Says([{"type": "pull_request", "parameters": {"required_approving_review_count": ruled}}]))
    assert (await gateway.branch_rules(repository, "main")).approvals == 2


@pytest.mark.parametrize(
    "says",
    [
        Says({"message": "Resource not accessible by integration"}, 403, LACKING),
        Says({"message": "Upgrade to GitHub Pro or make this repository public to enable this feature."}, 403),
        Says({"message": "Branch not protected"}, 404),
    ],
)
async def test_protection_that_is_not_shown_is_what_the_branch_shows_of_it(
    gateway: Gateway, github: GitHubDouble, repository: Repository, says: Says
) -> None:
    """P1: an installation may not have granted the permission, and no 404 is believed to mean that nothing is
    required. The answer is remembered as long as any other."""
    required = {"enforcement_level": "everyone", "contexts": ["test"], "checks": [{"context": "test", "app_id": 15}]}
    github.on("GET", PROTECTION, says)
    github.on("GET", BRANCH, Says({"protection": {"enabled": True, "required_status_checks": required}}))
    github.on("GET", RULES, Says([]))
    for _ in range(2):
        assert (await gateway.branch_rules(repository, "main")).required_checks == {RequiredCheck("test", 15)}
    assert [len(github.asked_for("GET", path)) for path in (PROTECTION, BRANCH, RULES)] == [1, 1, 1]


async def test_protection_while_github_is_in_trouble_is_not_taken_for_the_summary(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """Rules that could not be read for a moment are asked for again, not remembered without half of them."""
    github.on("GET", PROTECTION, Says({"message": "Server Error"}, 502))
    github.on("GET", BRANCH, Says({}))
    github.on("GET", RULES, Says([]))
    with pytest.raises(Unavailable):
        await gateway.branch_rules(repository, "main")


async def test_cached_rules_are_those_that_were_read_until_they_are_forgotten(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """P7: where many queues are judged at once, none of them costs a request."""
    assert gateway.cached_rules(repository, "main") is None
    rules = await rules_of(gateway, github, repository, {"required_linear_history": {"enabled": True}})
    assert gateway.cached_rules(repository, "main") == rules
    assert gateway.cached_rules(repository, "next") is None
    gateway.forget_rules(repository.id)
    assert gateway.cached_rules(repository, "main") is None


async def test_rules_that_expire_are_kept_for_seconds_after_their_read(
    gateway: Gateway, github: GitHubDouble, repository: Repository, clock: ManualClock
) -> None:
    """P1, P7: labels that come together share a read, and no later decision rests on it."""
    rules = await rules_of(gateway, github, repository, {"required_linear_history": {"enabled": True}})
    clock.instant += timedelta(seconds=4)
    gateway.expire_rules(repository.id)
    assert gateway.cached_rules(repository, "main") == rules
    clock.instant += timedelta(seconds=1)
    assert gateway.cached_rules(repository, "main") is None
    await gateway.branch_rules(repository, "main")
    clock.instant += timedelta(minutes=1)
    assert gateway.cached_rules(repository, "main") == rules
    gateway.expire_rules(repository.id)
    assert gateway.cached_rules(repository, "main") is None
