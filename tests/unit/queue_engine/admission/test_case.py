"""A case is loaded once for each event, and says what it was loaded for."""

from dataclasses import replace

import pytest

from queue_engine.admission.case import load_case
from queue_engine.config.model import Policy
from queue_engine.core.database.database import Database
from queue_engine.domain.model import Repository
from queue_engine.store import Store
from tests.support.policies import StaticPolicies
from tests.unit.queue_engine.engine_setup import Setup
from tests.unit.queue_engine.examples import POLICY, REPOSITORY


class CountedPolicies(StaticPolicies):
    """Says for which branches it was asked."""

    def __init__(self) -> None:
        super().__init__(POLICY)
        self.asked: list[str] = []

    async def of(self, repository: Repository, base_branch: str) -> Policy:
        self.asked.append(base_branch)
        return await super().of(repository, base_branch)


@pytest.fixture
def scene(sqlite_database: Database) -> Setup:
    return Setup(Store(sqlite_database))


async def test_case_of_a_queued_pull_request_has_its_entry_and_names_the_delivery(scene: Setup) -> None:
    """Events are followed by their delivery."""
    await scene.front()
    case = await load_case(scene.engine, REPOSITORY, 1, delivery="hook-1")
    assert case.entry is not None
    assert (case.entry.number, case.delivery, case.pull) == (1, "hook-1", None)
    assert (await load_case(scene.engine, REPOSITORY, 2)).entry is None


async def test_policy_of_a_case_is_asked_for_once_as_long_as_the_base_branch_is_the_same(scene: Setup) -> None:
    """P7: each question may cost a request."""
    policies = CountedPolicies()
    scene.engine = replace(scene.engine, policies=policies)
    case = await load_case(scene.engine, REPOSITORY, 1)
    for branch in ("main", "main", "release", "release"):
        case = await case.with_policy(scene.engine, branch)
        assert case.policy is POLICY
    assert policies.asked == ["main", "release"]


async def test_reloaded_case_has_the_entry_as_it_is_now_and_keeps_its_policy(scene: Setup) -> None:
    """After a comparison failed the entry is another one, or gone."""
    await scene.front()
    before = await (await load_case(scene.engine, REPOSITORY, 1, delivery="hook-1")).with_policy(scene.engine, "main")
    await scene.change_entry(title="Another title")
    after = await before.reload(scene.engine)
    assert before.entry is not None
    assert after.entry is not None
    assert (after.entry.title, after.delivery, after.policy) == ("Another title", "hook-1", POLICY)
    assert after.entry.version > before.entry.version
