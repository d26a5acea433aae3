"""P4: which labels without a webhook wait for it, for how long, and who judges them then."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from queue_engine.admission.lost_webhooks import UNSEEN_LABEL_JOB, await_webhook, judge_unseen, may_have_changed
from queue_engine.core.database.database import Database
from queue_engine.core.jobs.job_store import Job
from queue_engine.domain.facts import LabelEvent
from queue_engine.store import Store
from tests.store.examples import LEASE, TICK
from tests.unit.queue_engine.engine_setup import Setup
from tests.unit.queue_engine.examples import MINUTE, NOW, REPOSITORY, SECOND, pull


@pytest.mark.parametrize(
    ("changed", "maybe"), [(None, True), (NOW - MINUTE, False), (NOW + SECOND, False), (NOW + SECOND + TICK, True)]
)
def test_pull_request_that_changed_after_its_label_may_have_another_head(changed: datetime | None, maybe: bool) -> None:
    """GitHub's two times of the label itself may differ by a second; without a time nothing is certain."""
    assert may_have_changed(pull(updated_at=changed), LabelEvent("mona", NOW)) is maybe


@pytest.fixture
def scene(sqlite_database: Database) -> Setup:
    return Setup(Store(sqlite_database))


async def claimed(scene: Setup, after: timedelta) -> tuple[Job, ...]:
    async with scene.store.transaction() as tx:
        return await tx.jobs.claim_some(9, owner="t", now=NOW + after, lease=LEASE)


async def test_unseen_label_is_judged_once_after_five_minutes_in_the_order_of_its_pull_requests_hints(
    scene: Setup,
) -> None:
    """A lost delivery has that time to come; two sweeps within it wish for one judgement of each pull request."""
    for number in (1, 1, 2):
        await await_webhook(scene.engine, REPOSITORY, number)
    await await_webhook(scene.engine, replace(REPOSITORY, id=8), 1)
    assert await claimed(scene, 5 * MINUTE - TICK) == ()
    late = await claimed(scene, 5 * MINUTE)
    assert {job.kind for job in late} == {UNSEEN_LABEL_JOB}
    assert [(job.request["repository"]["id"], job.request["number"]) for job in late] == [(7, 1), (7, 2), (8, 1)]
    await judge_unseen(scene.engine, late[1], kind="judge")
    (judged,) = await claimed(scene, timedelta(0))
    assert (judged.kind, judged.process_id) == ("judge", "7:2"), "that of the hints about it"
    assert (judged.request["number"], judged.request["new"], judged.request["webhook_is_late"]) == (2, True, True)
