"""Pushes of a named bot to its own queued pull request, as GitHub's activity of the branch shows them."""

from dataclasses import replace

import pytest

from queue_engine.admission.case import load_case
from queue_engine.admission.revalidate import revalidate
from queue_engine.core.database.database import Database
from queue_engine.domain.facts import HeadPush
from queue_engine.domain.policy import PushPolicy
from queue_engine.store import Store
from tests.support.policies import StaticPolicies
from tests.unit.queue_engine.engine_setup import Setup
from tests.unit.queue_engine.examples import NOW, POLICY, REPOSITORY, pull


@pytest.mark.parametrize(("pusher", "head"), [("ada", "head-9"), ("tria", None)])
async def test_push_whose_webhook_was_lost_counts_as_the_named_bots_only_if_github_says_so(
    sqlite_database: Database, pusher: str, head: str | None
) -> None:
    """P4: also with `on_push: requeue`, which asks who pushed, and never assumes that the author did."""
    scene = Setup(Store(sqlite_database))
    await scene.front()
    scene.github.pull = pull(labels=frozenset({"merge-queue"}), head_sha="head-9")
    scene.github.pushes = (HeadPush("head-1", "head-9", NOW, pusher),)
    policy = replace(POLICY, on_push=replace(POLICY.on_push, requeue_for=frozenset({"ada"}), queued=PushPolicy.REQUEUE))
    engine = replace(scene.engine, policies=StaticPolicies(policy))
    case = await revalidate(engine, await load_case(engine, REPOSITORY, 1))
    assert (None if case.entry is None else case.entry.head_sha) == head
