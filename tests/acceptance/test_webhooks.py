"""Webhooks as GitHub may send them: twice, late, in any order, or never. One merge and one comment come of it."""

import hashlib
import hmac
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import pytest

from github_emulator import ResponseFault, WebhookFaults
from queue_engine.core.timing.clock import Clock
from tests.acceptance.world import CI_TIME, LABEL, SECRET, World, a_world


async def both_land(world: World) -> None:
    """Two good pull requests behind their base are queued, and land once each, with one comment each."""
    pulls = [world.open(f"add-{number}") for number in range(2)]
    await world.pass_time(CI_TIME * 2)
    world.repository.push("main", {"other.py": "other\n"}, "Other", by="rhea")
    for pull in pulls:
        pull.label(LABEL, by="mona")
        await world.pass_time(timedelta(seconds=1))
    await world.until(lambda: all(pull.merged for pull in pulls))
    await world.pass_time(timedelta(minutes=3))
    assert sorted(world.landed()) == [pull.number for pull in pulls]
    for pull in pulls:
        assert "anded" in world.comment(pull)
        assert LABEL not in pull.labels
    assert await world.entries() == ()


@pytest.mark.thorough
async def test_every_webhook_doubled_changes_nothing(world: World) -> None:
    """P2: the second copy of a delivery is known by its id."""
    world.github.webhooks.faults.double(None)
    await both_land(world)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_webhooks_in_any_order_lead_to_the_same_end(tmp_path: Path, seed: int) -> None:
    """GitHub promises no order: each delivery comes up to two minutes late, by chance."""
    async with a_world(tmp_path, seed=seed) as world:
        world.github.webhooks.faults.reorder(timedelta(minutes=2))
        await both_land(world)


async def test_proxy_that_is_not_trusted_is_reported_by_what_github_signed(
    tmp_path: Path, session: aiohttp.ClientSession
) -> None:
    """P5: a stranger who lies about a proxy cannot have IMQ warn of it; `/readyz` says what to set."""
    body = b'{"zen": "Keep it logically awesome."}'
    async with a_world(tmp_path, settings={"IMQ_TRUSTED_PROXIES": "203.0.113.0/24"}) as world:
        url = f"http://127.0.0.1:{world.runner.addresses[0][1]}"
        for key, status, warned in (("a stranger's", 401, False), (SECRET, 202, True)):
            headers = {
                "X-Forwarded-For": "203.0.113.9",
                "X-GitHub-Event": "ping",
                "X-GitHub-Delivery": "d-1",
                "X-Hub-Signature-256": f"sha256={hmac.new(key.encode(), body, hashlib.sha256).hexdigest()}",
                "Content-Type": "application/json",
            }
            async with session.post(f"{url}/webhook", data=body, headers=headers) as answer:
                assert answer.status == status
            async with session.get(f"{url}/readyz") as answer:
                assert ("IMQ_TRUSTED_PROXIES" in await answer.text()) is warned


@pytest.mark.thorough
async def test_webhooks_an_hour_late_lead_to_the_same_end(world: World) -> None:
    """What they tell has long been found by looking; when they come they change nothing."""
    world.github.webhooks.faults.delay(timedelta(hours=1), None)
    await both_land(world)
    asked = world.requests("PUT /repos/{owner}/{repo}/pulls/{number}/merge")
    await world.pass_time(timedelta(hours=2))
    assert world.requests("PUT /repos/{owner}/{repo}/pulls/{number}/merge") == asked


class HeldBack(WebhookFaults):
    """Holds every delivery until an instant, at which all of them come."""

    def __init__(self, clock: Clock, until: datetime) -> None:
        super().__init__(Random(0))
        self.clock, self.until = clock, until
        self.held = 0

    def fate(self, event: str, action: str | None) -> ResponseFault:
        delay = self.until - self.clock.now()
        if delay <= timedelta(0):
            return ResponseFault()
        self.held += 1
        return ResponseFault(delay=delay)


async def test_no_webhook_for_hours_and_then_all_at_once_loses_and_doubles_nothing(world: World) -> None:
    """P2: GitHub holds webhooks back for two and a half hours; a minute after the flood the queue has moved."""
    pulls = [world.open(f"add-{number}") for number in range(12)]
    early, late, (unlabeled, pushed) = pulls[:5], pulls[5:10], pulls[10:]
    await world.pass_time(CI_TIME * 2)
    world.repository.push("main", {"other.py": "other\n"}, "Other", by="rhea")
    await world.settle()
    back = world.clock.now() + timedelta(hours=2, minutes=30)
    faults = world.github.webhooks.faults = HeldBack(world.clock, back)
    for pull in early:
        pull.label(LABEL, by="mona")
        await world.pass_time(timedelta(minutes=25))
    assert world.landed() == [pull.number for pull in early]
    await world.pass_time(back - world.clock.now() - timedelta(seconds=30))
    for pull in (*late, unlabeled, pushed):
        pull.label(LABEL, by="mona")
        await world.pass_time(timedelta(seconds=1))
    unlabeled.unlabel(LABEL, by="mona")
    head = pushed.push({"more.py": "more\n"}, by="mona")
    await world.pass_time(back - world.clock.now() - timedelta(seconds=1))
    assert await world.entries() == ()
    assert faults.held > 100
    await world.pass_time(timedelta(minutes=1))
    assert [entry.number for entry in await world.entries()] == [pull.number for pull in late]
    assert await world.status(late[0]) == "checking"
    await world.until(lambda: all(pull.merged for pull in late))
    await world.pass_time(timedelta(minutes=30))
    assert world.landed() == [pull.number for pull in (*early, *late)]
    assert world.requests("PUT /repos/{owner}/{repo}/pulls/{number}/merge") == len(world.landed())
    assert [world.spoken(pull) for pull in (*early, *late)] == [1] * 10
    assert (unlabeled.merged, pushed.merged, pushed.head_sha) == (False, False, head)
    assert LABEL not in unlabeled.labels


class DropNth(WebhookFaults):
    """Loses one delivery: the one that comes after `skip` others."""

    def __init__(self, skip: int) -> None:
        super().__init__(Random(0))
        self.left = skip
        self.dropped = ""

    def fate(self, event: str, action: str | None) -> ResponseFault:
        self.left -= 1
        if self.left != -1:
            return ResponseFault()
        self.dropped = f"{event} {action or ''}".strip()
        return ResponseFault(drop=True)


@pytest.mark.thorough
@pytest.mark.slow
async def test_any_one_webhook_lost_costs_time_and_nothing_else(world: World) -> None:
    """P2: pull request by pull request, its next delivery is lost; each lands once with one comment."""
    pulls = [world.open(f"add-{number}") for number in range(15)]
    await world.pass_time(CI_TIME * 2)
    world.repository.push("main", {"other.py": "other\n"}, "Other", by="rhea")
    await world.settle()
    dropped = set()
    for skip, pull in enumerate(pulls):
        fault = world.github.webhooks.faults = DropNth(skip)
        pull.label(LABEL, by="mona")
        await world.until(lambda pull=pull: pull.merged, within=timedelta(hours=1))  # type: ignore[misc]
        await world.settle()
        assert "anded" in world.comment(pull), fault.dropped
        assert LABEL not in pull.labels, fault.dropped
        dropped.add(fault.dropped)
    assert len(world.landed()) == 15
    assert {"pull_request labeled", "pull_request synchronize", "check_run completed", "push"} <= dropped


async def test_redelivery_of_everything_does_nothing_twice(world: World) -> None:
    """P2: an operator has GitHub send every delivery of a test again: no request, no comment, no entry."""
    pull = await world.behind("add")
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged)
    await world.settle()
    text, asked = world.comment(pull), world.requests()
    deliveries = list(world.github.state.deliveries)
    assert len(deliveries) > 10
    for delivery in deliveries:
        world.github.webhooks.redeliver(delivery.id)
    await world.settle()
    assert world.requests() == asked
    assert world.comment(pull) == text
    assert await world.entries() == ()


@pytest.mark.thorough
async def test_label_deleted_in_the_repository_takes_its_pull_requests_out(world: World) -> None:
    """`unlabeled` comes without a label then; consent is withdrawn all the same."""
    pull = await world.behind("add")
    pull.label(LABEL, by="mona")
    await world.until_status(pull, "checking")
    world.repository.delete_label(LABEL, by="rhea")
    await world.until(lambda: "deleted the label in the repository" in world.comment(pull))
    assert "rhea" in world.comment(pull)
    assert await world.reasons(pull) == ["label_deleted"]
    await world.pass_time(timedelta(hours=1))
    assert not pull.merged


@pytest.mark.thorough
async def test_own_removal_of_the_label_is_no_command(world: World) -> None:
    """IMQ's own `unlabeled`, arriving late, does not take out what a person has queued again meanwhile."""
    pull: Any = world.open("red", files={"red.txt": "70\n"})
    world.github.webhooks.faults.delay(timedelta(minutes=1), event="pull_request", action="unlabeled")
    pull.label(LABEL, by="mona")
    await world.until(lambda: LABEL not in pull.labels)
    pull.push({"red.txt": "1\n"}, by="mona")
    await world.settle()
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged)
    assert await world.reasons(pull) == ["checks_failed"]
