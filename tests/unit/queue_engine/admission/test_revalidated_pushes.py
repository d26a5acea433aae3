"""A push to a queued pull request where `on_push: requeue` queues the new head at the end."""

from dataclasses import replace
from typing import Any

import pytest

from queue_engine.admission.case import load_case
from queue_engine.admission.revalidate import revalidate
from queue_engine.core.database.database import Database
from queue_engine.domain.model import Entry
from queue_engine.domain.policy import PushPolicy
from queue_engine.domain.reasons import Reason
from queue_engine.rules.consent import NewHead
from queue_engine.store import Store
from tests.support.policies import StaticPolicies
from tests.unit.queue_engine.engine_setup import Setup
from tests.unit.queue_engine.examples import POLICY, REPOSITORY, UPDATING, comparison, pull

REQUEUE = replace(POLICY, on_push=replace(POLICY.on_push, queued=PushPolicy.REQUEUE))


@pytest.fixture
def scene(sqlite_database: Database) -> Setup:
    return Setup(Store(sqlite_database))


async def pushed(scene: Setup) -> Entry | None:
    """Judge the entry after a webhook of mona's push of head-2."""
    engine = replace(scene.engine, policies=StaticPolicies(REQUEUE))
    push = NewHead("head-2", "mona", "head-1")
    return (await revalidate(engine, await load_case(engine, REPOSITORY, 1), push=push)).entry


async def reasons(scene: Setup) -> list[Reason]:
    """Why entries left."""
    async with scene.store.reading() as tx:
        return [event.reason for event in await tx.timeline.latest(20) if event.reason is not None]


async def test_push_queues_the_new_head(scene: Setup) -> None:
    """P4: the push of somebody who may queue is consent to the new head."""
    await scene.front()
    scene.github.pull = pull(head_sha="head-2")
    found = await pushed(scene)
    assert found is not None
    assert (found.head_sha, await reasons(scene)) == ("head-2", [Reason.HEAD_CHANGED])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"draft": True}, Reason.DRAFT),
        ({"open": False}, Reason.CLOSED),
        ({"labels": frozenset()}, Reason.LABEL_REMOVED),
    ],
)
async def test_push_does_not_renew_consent_that_is_withdrawn_otherwise(
    scene: Setup, changes: dict[str, Any], reason: Reason
) -> None:
    """P4: a pull request that lost its label as well leaves its queue, and its new head is not queued."""
    await scene.front()
    scene.github.pull = pull(head_sha="head-2", **changes)
    assert await pushed(scene) is None
    assert await reasons(scene) == [reason]


async def test_push_that_is_imqs_update_keeps_the_position(scene: Setup) -> None:
    """The webhook of IMQ's own update may name another person, for example where IMQ acts for them."""
    await scene.front(status=UPDATING, base_tip="base-1")
    before = (await load_case(scene.engine, REPOSITORY, 1)).entry
    assert before is not None
    scene.github.pull = pull(head_sha="head-2")
    scene.github.compared = comparison(parents=("head-1", "base-1"))
    found = await pushed(scene)
    assert found is not None
    assert (found.id, await reasons(scene)) == (before.id, [])
