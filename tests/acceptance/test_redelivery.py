"""IMQ asks again for deliveries that failed: GitHub itself never tries twice."""

from datetime import timedelta

import pytest

from bot.webhooks.normalize import may_matter
from tests.acceptance.world import CI_TIME, LABEL, World


@pytest.mark.thorough
async def test_delivery_that_failed_is_sent_again_by_the_sweep(world: World) -> None:
    """P2: labels set while the bot answers nothing arrive after the next sweep had them sent again."""
    pull = world.repository.open_pull_request("Add", head="add", by="mona", files={"new.py": "new\n"})
    first = world.repository.open_pull_request("First", head="first", by="mona", files={"first.py": "1\n"})
    await world.pass_time(CI_TIME * 2)
    world.repository.push("main", {"moved.py": "moved\n"}, "Move", by="rhea")
    await world.settle()
    address, world.app.webhook_url = world.app.webhook_url, "http://127.0.0.1:9/webhook"
    for each in (first, pull):
        each.label(LABEL, by="mona")
    await world.github.schedule.run_due()
    world.app.webhook_url = address
    await world.until(lambda: first.merged and pull.merged, within=timedelta(minutes=40))
    assert world.requests("POST /app/hook/deliveries/{delivery_id}/attempts") >= 2
    assert world.spoken(pull) == 1


@pytest.mark.thorough
async def test_delivery_that_always_fails_is_left_alone_after_some_tries(world: World) -> None:
    """P7: IMQ is down for hours; each lost delivery that may matter is asked for six times, not at every sweep."""
    world.app.webhook_url = "http://127.0.0.1:9/webhook"
    world.repository.push("main", {"moved.py": "moved\n"}, "Move", by="rhea")
    await world.github.schedule.run_due()
    await world.pass_time(timedelta(hours=3))
    failed = [d for d in world.github.state.deliveries if d.app is world.app and d.status_code != 202]
    lost = len({d.guid for d in failed if may_matter(d.event, d.action)})
    assert lost
    assert world.requests("POST /app/hook/deliveries/{delivery_id}/attempts") == 6 * lost


async def test_delivery_that_arrived_is_not_asked_for_again(world: World) -> None:
    """P7: what was stored although its answer was lost costs one look at the list and nothing more."""
    await world.pass_time(timedelta(minutes=30))
    assert world.requests("POST /app/hook/deliveries/{delivery_id}/attempts") == 0
