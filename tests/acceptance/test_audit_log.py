"""Who did what and when, as an auditor gets it: from the command line's export and from the API."""

from datetime import timedelta
from typing import Any

import aiohttp
import pytest

from bot.cli.queue_files import audit_lines
from queue_engine.domain.webhooks import WEBHOOK_JOB, BranchPush
from queue_engine.handlers.branch_events import Branches
from queue_engine.store.tokens import TokenPolicy
from tests.acceptance.callers import Caller, caller
from tests.acceptance.test_configuration import FILE, configure
from tests.acceptance.test_device_login import LOGIN, PAUSE, Device
from tests.acceptance.world import LABEL, World

AUDIT = "/api/v1/audit-log"


@pytest.fixture
def device(world: World, session: aiohttp.ClientSession) -> Device:
    world.app.device_flow = True
    return Device(world, session)


async def operator(world: World, session: aiohttp.ClientSession) -> Caller:
    async with world.bot.engine.change() as change:
        token = await change.tx.tokens.create("ops", TokenPolicy(operator=True), now=change.now)
    return Caller(world, session, token)


async def log(ops: Caller, **asked: Any) -> list[dict[str, Any]]:
    """The whole log by the API, two actions a page."""
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        query = "&".join(f"{name}={value}" for name, value in {**asked, "limit": 2, "cursor": cursor}.items() if value)
        answer = await ops.ask("GET", f"{AUDIT}?{query}")
        assert answer.status == 200, answer.body
        found += answer.body["actions"]
        if (cursor := answer.body["next"]) is None:
            return found


def who_did(actions: list[dict[str, Any]], *kinds: str) -> list[tuple[str, str | None, str | None]]:
    return [(each["action"], each["by"], each["via"]) for each in actions if each["action"] in kinds]


async def test_people_are_named_with_what_they_did(
    world: World, device: Device, session: aiohttp.ClientSession
) -> None:
    """Logins, queue and dequeue, pause and resume by the API and by labels; the export has the same lines."""
    ops, rhea = await operator(world, session), await device.logged_in("rhea", access="maintain")
    first, second = world.open("one"), world.open("two")
    first.label(LABEL, by="mona")
    await world.settle()
    await rhea.queue(second)
    await rhea.ask("POST", PAUSE, body={"reason": "Release"})
    first.unlabel(LABEL, by="mona")
    await world.settle()
    await rhea.ask("DELETE", PAUSE)
    device.wait(1)
    assert (await rhea.send("DELETE", LOGIN))[0] == 204
    actions = await log(ops)
    people = ("token_created", "token_revoked", "queued", "cancelled", "paused", "resumed")
    assert who_did(actions, *people) == [
        ("token_created", "rhea", "login"),
        ("queued", "mona", None),
        ("queued", "rhea", None),
        ("paused", "rhea", None),
        ("cancelled", "mona", None),
        ("resumed", "rhea", None),
        ("token_revoked", "rhea", "api"),
    ]
    lines = [line async for line in audit_lines(world.bot.engine.store, None)]
    assert [each["id"] for each in actions] == [line.split('"id":"')[1].rstrip('"}') for line in lines]
    (cancelled,) = (each for each in actions if each["action"] == "cancelled")
    assert (cancelled["number"], cancelled["reason"]) == (first.number, "label_removed")
    assert (cancelled["repository"], cancelled["base_branch"]) == ("acme/widgets", "main")


@pytest.mark.thorough
async def test_changed_configuration_names_the_commit_and_who_pushed_it(
    world: World, session: aiohttp.ClientSession
) -> None:
    """A push of other files, or to a branch that IMQ does not serve, is none; a forced one may be, for it lists not
    all."""
    ops = await operator(world, session)
    first = world.open("one")
    first.label(LABEL, by="mona")
    await world.settle()
    await configure(world, "trigger_labels: ship\n")
    world.repository.push("main", {"README.md": "Other words.\n"}, "Another file", by="rhea")
    world.repository.push("topic", {FILE: "trigger_labels: topic\n"}, "Not there yet", by="mona")
    await world.settle()
    (changed,) = [each for each in await log(ops) if each["action"] == "configuration_changed"]
    assert (changed["by"], changed["via"], changed["subject"]) == ("rhea", "github", "main")
    assert changed["data"]["certain"] is True
    tip = world.repository.commit({"README.md": "Rewritten.\n"}, changed["data"]["before"], "Rewrite", by="rhea")
    world.repository.push_commit("main", tip, by="rhea", force=True)
    await world.settle()
    (_, forced) = [each for each in await log(ops) if each["action"] == "configuration_changed"]
    assert (forced["data"]["sha"], forced["data"]["certain"]) == (tip, False)


@pytest.mark.thorough
async def test_push_whose_job_runs_again_is_one_action(world: World, session: aiohttp.ClientSession) -> None:
    """P2: a process may die after the action, and before its job is done."""
    push = BranchPush(
        delivery="guid-1",
        installation_id=1,
        owner="acme",
        name="widgets",
        repository_id=world.repository.record.id,
        sender="rhea",
        branch="main",
        before="old",
        config_named=True,
        config=True,
        default_branch=True,
    )
    for _ in range(2):
        await Branches(world.bot.engine).moved(push)
    assert who_did(await log(await operator(world, session)), "configuration_changed") == [
        ("configuration_changed", "rhea", "github")
    ]


@pytest.mark.thorough
async def test_dead_letter_names_who_retried_and_who_discarded_it(world: World, session: aiohttp.ClientSession) -> None:
    """A token of no person is named by its own name; an answer of 404 is no action."""
    ops = await operator(world, session)
    async with world.bot.engine.change() as change:
        job = await change.tx.jobs.enqueue(kind=WEBHOOK_JOB, request={}, process_id="7:1", now=change.now)
    await world.settle()
    one = f"/api/v1/dead-letters/{job}"
    assert (await ops.ask("POST", f"{one}/reprocess")).status == 202
    assert (await ops.ask("POST", "/api/v1/dead-letters/reprocess")).body == {"reprocessed": 0}
    await world.settle()
    assert (await ops.send("DELETE", one))[0] == 204
    assert (await ops.send("DELETE", one))[0] == 404
    assert [(each["action"], each["by"], each["subject"]) for each in await log(ops)] == [
        ("dead_letter_retried", "ops", job),
        ("dead_letter_discarded", "ops", job),
    ]


async def test_log_is_for_operators_from_an_instant_on(world: World, session: aiohttp.ClientSession) -> None:
    """A person's token is refused, whatever its person may; a made-up cursor is no page."""
    ops, mona = await operator(world, session), await caller(world, session, "rhea")
    assert (await mona.ask("GET", AUDIT)).status == 403
    await mona.queue(world.open("one"))
    assert who_did(await log(ops), "queued") == [("queued", "rhea", None)]
    later = (world.clock.now() + timedelta(seconds=1)).isoformat().replace("+", "%2B")
    assert await log(ops, since=later) == []
    for cursor in ("x", "MjAyNi0wMS0wMVQwMDowMDowMCswMDowMCBqb2ItMQ=="):
        assert (await ops.ask("GET", f"{AUDIT}?cursor={cursor}")).status == 404
