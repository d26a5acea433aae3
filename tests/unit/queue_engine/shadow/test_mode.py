"""What a switch between modes changes in the database. `tests/acceptance/test_shadow_switch.py` has GitHub's side."""

from dataclasses import replace

import pytest

from queue_engine.core.database.database import Database
from queue_engine.domain.policy import Mode
from queue_engine.domain.reasons import Reason
from queue_engine.shadow.mode import refresh_mode
from queue_engine.store import Store
from tests.support.policies import StaticPolicies
from tests.unit.queue_engine.engine_setup import Setup
from tests.unit.queue_engine.examples import NOW, POLICY, REPOSITORY


@pytest.mark.parametrize(("before", "after"), [(Mode.QUEUE, Mode.SHADOW), (Mode.SHADOW, Mode.QUEUE)])
async def test_switch_forgets_what_was_to_be_written_and_who_was_rejected(
    sqlite_database: Database, before: Mode, after: Mode
) -> None:
    """No comment of weeks ago appears after shadow mode, and a label that was rejected then is judged again."""
    scene = Setup(Store(sqlite_database))
    async with scene.store.transaction() as tx:
        await tx.shadow.set_mode(REPOSITORY, before)
        await tx.outbox.want_label(REPOSITORY, 4, "merge-queue", on=False, due=NOW)
        await tx.rejections.put(REPOSITORY.id, 4, "head", Reason.CONFLICT, NOW)
    for mode in (before, after):
        engine = replace(scene.engine, policies=StaticPolicies(replace(POLICY, mode=mode)))
        assert await refresh_mode(engine, REPOSITORY) is mode
        async with scene.store.reading() as tx:
            left = await tx.outbox.wanted_labels(REPOSITORY.id, 4), await tx.rejections.find(REPOSITORY.id, 4)
            assert await tx.shadow.mode(REPOSITORY.id) is mode
        assert (left == ({}, None)) is (mode is after)
