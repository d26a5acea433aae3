"""What a base branch requires: remembered rules and merge methods alone refuse no pull request."""

from dataclasses import replace
from typing import Any, cast

import pytest

from queue_engine.admission.required_facts import requirements_of
from queue_engine.config.model import CheckRules, MergeRules
from queue_engine.core.database.database import Database
from queue_engine.domain.facts import BranchRules, CheckReport, CheckState, MergeMethod, RequiredCheck, Snapshot
from queue_engine.domain.policy import NotReadyPolicy
from queue_engine.domain.port import GitHub
from queue_engine.rules.eligibility import RequiredFacts
from queue_engine.store import Store
from tests.unit.queue_engine.engine_setup import Setup
from tests.unit.queue_engine.examples import POLICY, REPOSITORY, entry, pull, rules

TAKEN = Snapshot(pull())
MERGE, SQUASH, REBASE = MergeMethod.MERGE, MergeMethod.SQUASH, MergeMethod.REBASE


class Rules:
    """Answers the remembered rules until they are forgotten."""

    def __init__(self, remembered: BranchRules, fresh: BranchRules, methods: tuple[MergeMethod, ...] = ()) -> None:
        self.remembered, self.fresh = remembered, fresh
        self.methods = methods
        self.on_base: tuple[CheckReport, ...] = ()
        self.asked: list[str] = []

    async def is_guarded(self, *_: object) -> bool:
        return False

    async def branch_rules(self, *_: object, kept: bool = False) -> BranchRules:
        self.asked.append("rules")
        return self.remembered

    def forget_rules(self, repository_id: int) -> None:
        assert repository_id == REPOSITORY.id
        self.remembered = self.fresh

    expire_rules = forget_rules

    async def snapshot(self, *_: object, login: str | None) -> Snapshot:
        assert login is None
        self.asked.append("snapshot")
        return Snapshot(pull(methods=self.methods))

    async def unsigned_commits(self, *_: object) -> tuple[str, ...]:
        self.asked.append("unsigned")
        return ("head-1",)

    async def check_reports(self, _: object, sha: str, __: object) -> tuple[CheckReport, ...]:
        if sha == "main":
            self.asked.append("base")
            return self.on_base
        self.asked.append("reports")
        failed = [CheckReport(name, None, CheckState.FAILED, "failure", None, None, None) for name in ("unit", "lint")]
        job = CheckReport("job", 15368, CheckState.FAILED, "cancelled", None, None, None, by_actions=True)
        return (*failed, job)


@pytest.fixture
def scene(sqlite_database: Database) -> Setup:
    return Setup(Store(sqlite_database))


async def required(
    scene: Setup, github: Rules, taken: Snapshot = TAKEN, **policy: Any
) -> tuple[Snapshot, RequiredFacts]:
    engine = replace(scene.engine, github=cast(GitHub, github))
    return await requirements_of(engine, REPOSITORY, taken, replace(POLICY, **policy))


async def test_requirements_that_are_met_are_read_once(scene: Setup) -> None:
    """P7: that is the usual case."""
    github = Rules(rules("ci"), rules("other"))
    assert await required(scene, github) == (TAKEN, RequiredFacts(rules("ci")))
    assert github.asked == ["rules"]


async def test_requirement_that_is_not_met_is_read_again(scene: Setup) -> None:
    """The branch was unlocked a minute ago; where it is still locked nothing more is asked."""
    locked = rules("ci", locked=True)
    github = Rules(locked, rules("ci"))
    assert await required(scene, github) == (TAKEN, RequiredFacts(rules("ci")))
    github = Rules(locked, locked)
    assert await required(scene, github) == (TAKEN, RequiredFacts(locked))
    assert github.asked == ["rules", "rules"]


@pytest.mark.parametrize(("is_waiting", "asked"), [(False, 2), (True, 1)])
async def test_missing_approval_is_read_by_fresh_rules_once_and_by_cached_ones_while_the_pull_request_waits(
    scene: Setup, is_waiting: bool, asked: int
) -> None:
    """A pull request does not begin to wait by rules that changed a minute ago; P7: later a webhook reports changes."""
    github, taken = Rules(rules("ci", approvals=1), rules("ci")), Snapshot(pull(), reviews=())
    engine = replace(scene.engine, github=cast(GitHub, github))
    waiting = entry() if is_waiting else None
    _, found = await requirements_of(engine, REPOSITORY, taken, POLICY, waiting=waiting)
    assert (github.asked.count("rules"), found.rules.approvals) == (asked, 1 if is_waiting else 0)


@pytest.mark.parametrize("allowed", [(SQUASH,), (REBASE,)])
async def test_method_that_is_not_allowed_is_read_again(scene: Setup, allowed: tuple[MergeMethod, ...]) -> None:
    """A repository's merge settings may have changed too; they are read with the pull request that IMQ judges."""
    github, taken = Rules(rules(), rules(), allowed), Snapshot(pull(methods=(REBASE,)))
    found, demands = await required(scene, github, taken, merge=MergeRules(SQUASH))
    assert (found.pull.methods, demands.rules) == (allowed, rules())
    assert github.asked == ["rules", "rules", "snapshot"]


async def test_signatures_are_judged_by_the_methods_that_are_allowed_now(scene: Setup) -> None:
    """GitHub signs a squash; a merge keeps commits without a signature."""
    signed = rules(signatures=True)
    github, taken = Rules(signed, signed, (MERGE,)), Snapshot(pull(methods=()))
    found, demands = await required(scene, github, taken)
    assert (found.pull.methods, demands.unsigned) == ((MERGE,), ("head-1",))
    github = Rules(signed, signed)
    assert (await required(scene, github, merge=MergeRules(SQUASH)))[1].unsigned == ()
    assert "unsigned" not in github.asked


@pytest.mark.parametrize(
    ("failing", "required_check", "policy", "failed"),
    [
        (True, "unit", {}, ["unit"]),
        (True, "other", {}, []),
        (True, "job", {}, []),
        (True, "job", {"checks": CheckRules(reruns=0)}, ["job"]),
        (False, "unit", {}, None),
        (None, "unit", {}, None),
        (True, "unit", {"when_not_ready": NotReadyPolicy.REFUSE}, None),
        (True, "unit", {"checks": CheckRules(queue_only=frozenset({RequiredCheck("unit", None)}))}, None),
    ],
)
async def test_reports_are_read_once_and_only_of_a_head_on_which_a_check_failed(
    scene: Setup, failing: bool | None, required_check: str, policy: dict[str, Any], failed: list[str] | None
) -> None:
    """P7: a healthy pull request costs no request; a failed check that is not required is no reason."""
    known = rules(required_check)
    github = Rules(known, known)
    _, found = await required(scene, github, Snapshot(pull(), failing=failing), **policy)
    assert [each.check for each in found.failing] == (failed or [])
    assert github.asked.count("reports") == (0 if failed is None else 1)
    assert github.asked.count("base") == (1 if failed else 0)


@pytest.mark.parametrize(
    ("on_base", "labels", "failed"),
    [
        (CheckReport("unit", None, CheckState.FAILED, "failure", None, None, None), (), []),
        (CheckReport("unit", None, CheckState.FAILED, "cancelled", None, None, None), (), ["unit"]),
        (CheckReport("unit", None, CheckState.PASSED, "success", None, None, None), (), ["unit"]),
        (CheckReport("unit", 7, CheckState.FAILED, "failure", None, None, None), (), ["unit"]),
        (CheckReport("unit", None, CheckState.FAILED, "failure", None, None, None), ("merge-queue-fix",), ["unit"]),
    ],
    ids=["red", "cancelled", "green", "other App", "fix of the base"],
)
async def test_check_that_fails_on_the_base_too_is_no_reason_to_wait_unless_the_change_repairs_the_base(
    scene: Setup, on_base: CheckReport, labels: tuple[str, ...], failed: list[str]
) -> None:
    """The queue pauses for a red base; a change that shall repair the base has to pass its own checks first."""
    github = Rules(rules("unit"), rules("unit"))
    github.on_base = (on_base,)
    _, found = await required(scene, github, Snapshot(pull(labels=frozenset({"merge-queue", *labels})), failing=True))
    assert [each.check for each in found.failing] == failed
