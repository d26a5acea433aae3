"""What IMQ stores after it read a pull request that waits outside its queue."""

from dataclasses import replace
from datetime import timedelta

import pytest

from queue_engine.admission.case import load_case
from queue_engine.admission.revalidate import revalidate
from queue_engine.config.model import Policy
from queue_engine.core.database.database import Database
from queue_engine.domain.model import UnmetRequirement
from queue_engine.domain.reasons import Reason
from queue_engine.rules.consent import NewHead
from queue_engine.store import Store
from tests.support.policies import StaticPolicies
from tests.unit.queue_engine.engine_setup import Setup
from tests.unit.queue_engine.examples import NOW, POLICY, REPOSITORY, pull

DRAFT = UnmetRequirement(Reason.DRAFT)


@pytest.mark.parametrize(
    ("policy", "joins"),
    [(POLICY, True), (replace(POLICY, fault="line 2"), False), (replace(POLICY, fault="x", enabled=False), False)],
    ids=["valid", "invalid", "of which defaults would refuse"],
)
async def test_ready_pull_request_joins_and_waits_while_the_configuration_is_invalid(
    sqlite_database: Database, policy: Policy, joins: bool
) -> None:
    """P5: no wait ends, and IMQ removes no label, while it cannot use the file."""
    scene = Setup(Store(sqlite_database))
    await scene.front(unmet=(DRAFT,))
    scene.github.pull = pull(labels=frozenset({"merge-queue"}))
    engine = replace(scene.engine, policies=StaticPolicies(policy))
    case = await revalidate(engine, await load_case(engine, REPOSITORY, 1))
    assert case.entry is not None
    assert case.entry.unmet == (() if joins else (DRAFT,))
    async with scene.store.reading() as tx:
        stored = await tx.entries.find(REPOSITORY.id, 1)
    assert stored is not None
    assert stored.is_ready is joins


@pytest.mark.parametrize(("named", "waits"), [(True, True), (False, False)])
async def test_push_by_a_named_bot_without_the_right_to_queue_binds_its_new_head_while_it_waits(
    sqlite_database: Database, named: bool, waits: bool
) -> None:
    """P4: the configuration names it; any other login without the right ends the wait."""
    scene = Setup(Store(sqlite_database))
    await scene.front(unmet=(DRAFT,), author="eve")
    scene.github.pull = pull(labels=frozenset({"merge-queue"}), draft=True, head_sha="head-9", author="eve")
    policy = replace(POLICY, on_push=replace(POLICY.on_push, requeue_for=frozenset({"eve"} if named else ())))
    engine = replace(scene.engine, policies=StaticPolicies(policy))
    push = NewHead("head-9", "eve", "head-1")
    case = await revalidate(engine, await load_case(engine, REPOSITORY, 1), push=push)
    assert (None if case.entry is None else case.entry.head_sha) == ("head-9" if waits else None)


@pytest.mark.parametrize(("updated", "waits"), [(timedelta(0), True), (timedelta(minutes=2), False)])
async def test_push_by_an_unknown_person_ends_the_wait_once_github_had_time_to_name_the_pusher(
    sqlite_database: Database, updated: timedelta, waits: bool
) -> None:
    """P4: an unknown person pushed. P5: the wait for the name has a limit."""
    scene = Setup(Store(sqlite_database))
    await scene.front(unmet=(DRAFT,))
    scene.github.pushes = ()
    labels = frozenset({"merge-queue"})
    scene.github.pull = pull(labels=labels, draft=True, head_sha="head-9", updated_at=NOW - updated)
    case = await revalidate(scene.engine, await load_case(scene.engine, REPOSITORY, 1))
    assert (case.entry is not None) is waits
