"""Head branches to which rulesets let only IMQ push: whether a branch is one, and the requests that this costs."""

import asyncio
from datetime import timedelta

import pytest

from bot.gateway import Gateway
from queue_engine.domain.model import Repository
from tests.unit.bot.conftest import ManualClock
from tests.unit.bot.gateway.http.pacing_examples import soon
from tests.unit.bot.github_double import GitHubDouble, Says

REPO = "/repos/ada/engine"
LISTED, RULESET = f"{REPO}/rulesets", f"{REPO}/rulesets/7"


@pytest.mark.parametrize(
    ("can_bypass", "listed", "rule", "guarded"),
    [
        ("always", {}, "pull_request", True),
        ("exempt", {}, "update", True),
        ("always", {}, "required_status_checks", True),
        ("always", {}, "non_fast_forward", False),
        ("always", {"enforcement": "disabled"}, "update", False),
        ("always", {"target": "tag"}, "update", False),
        ("pull_requests_only", {}, "update", False),
        ("never", {}, "update", False),
        (None, {}, "update", False),
    ],
)
async def test_head_branch_is_guarded_by_rulesets_that_keep_out_others_but_not_imq(
    gateway: Gateway,
    github: GitHubDouble,
    repository: Repository,
    can_bypass: str | None,
    listed: dict[str, str],
    rule: str,
    guarded: bool,
) -> None:
    """P4: a mode that only lets IMQ merge pull requests forbids the direct push of an update all the same."""
    ruleset = {"id": 7, "target": "branch", "enforcement": "active"}
    github.on("GET", LISTED, Says([ruleset | listed]))
    github.on("GET", RULESET, Says({"name": "Guard", "current_user_can_bypass": can_bypass}))
    github.on("GET", f"{REPO}/rules/branches/release", Says([{"type": rule, "ruleset_id": 7}]))
    assert await gateway.is_guarded(repository, "release", "main") is guarded


async def test_head_branches_cost_no_request_where_imq_may_bypass_nothing(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """P7: IMQ caches the list of rulesets until a webhook announces a change."""
    github.on("GET", LISTED, Says([]))
    for branch in ("one", "two"):
        assert await gateway.is_guarded(repository, branch, "main") is False
    assert len(github.asked_for("GET", LISTED)) == 1
    gateway.forget_rules(repository.id)
    await gateway.is_guarded(repository, "one", "main")
    assert len(github.asked_for("GET", LISTED)) == 2


def bypassable(github: GitHubDouble, include: list[str], *kinds: str, exclude: tuple[str, ...] = ()) -> None:
    """The repository has one ruleset, which IMQ may bypass, and GitHub shows its conditions and rules."""
    conditions = {"ref_name": {"include": include, "exclude": list(exclude)}}
    shown = {"name": "Guard", "current_user_can_bypass": "always", "conditions": conditions}
    github.on("GET", LISTED, Says([{"id": 7, "target": "branch", "enforcement": "active"}]))
    github.on("GET", RULESET, Says(shown | {"rules": [{"type": kind} for kind in kinds]}))


@pytest.mark.parametrize(
    ("include", "kind", "exclude", "guarded"),
    [
        (["~DEFAULT_BRANCH"], "update", (), False),
        (["refs/heads/main", "refs/heads/stable/*"], "update", (), False),
        (["~ALL"], "non_fast_forward", (), False),
        (["~ALL"], "update", ("refs/heads/fix/**/*",), False),
        (["~ALL"], "update", ("refs/heads/main",), True),
        (["refs/heads/fix/*"], "pull_request", (), True),
    ],
)
async def test_head_branch_costs_no_request_where_the_ruleset_shows_whether_it_applies(
    gateway: Gateway,
    github: GitHubDouble,
    repository: Repository,
    include: list[str],
    kind: str,
    exclude: tuple[str, ...],
    guarded: bool,
) -> None:
    """P7: IMQ caches conditions and rules of rulesets until a webhook announces a change."""
    bypassable(github, include, kind, exclude=exclude)
    for _ in range(2):
        assert await gateway.is_guarded(repository, "fix/one", "main") is guarded
    assert len(github.asked_for("GET", RULESET)) == 1
    assert github.asked_for("GET", f"{REPO}/rules/branches/fix%2Fone") == []
    bypassable(github, ["~ALL"], "deletion" if guarded else "update")
    assert await gateway.is_guarded(repository, "fix/one", "main") is guarded
    gateway.forget_rules(repository.id)
    assert await gateway.is_guarded(repository, "fix/one", "main") is not guarded


async def test_rulesets_are_read_once_for_head_and_base_branch_and_again_two_hours_later(
    gateway: Gateway, github: GitHubDouble, repository: Repository, clock: ManualClock
) -> None:
    """P7: also by pull requests that are queued at once; a lost webhook has an effect for two hours."""
    bypassable(github, ["~DEFAULT_BRANCH"], "update")
    github.on("GET", f"{REPO}/branches/main", Says({}))
    github.on("GET", f"{REPO}/rules/branches/main", Says([{"type": "update", "ruleset_id": 7}]))
    await asyncio.gather(*(gateway.is_guarded(repository, branch, "main") for branch in ("one", "two")))
    assert not (await gateway.branch_rules(repository, "main")).locked
    assert [len(github.asked_for("GET", path)) for path in (LISTED, RULESET)] == [1, 1]
    clock.instant += timedelta(hours=2)
    bypassable(github, ["~ALL"], "update")
    assert await gateway.is_guarded(repository, "one", "main")


async def test_rulesets_that_change_while_they_are_read_are_read_again(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """P4: an answer from before the webhook is not cached."""
    bypassable(github, ["~DEFAULT_BRANCH"], "update")
    github.on("GET", RULESET, Says({"name": "Guard", "current_user_can_bypass": "never"}, hang=True))
    reading = asyncio.create_task(gateway.is_guarded(repository, "one", "main"))
    await soon(lambda: bool(github.asked_for("GET", RULESET)))
    gateway.forget_rules(repository.id)
    github.let_go()
    assert not await reading
    bypassable(github, ["~ALL"], "update")
    assert await gateway.is_guarded(repository, "one", "main")
