"""What people asked of IMQ: pages, statuses for scripts and programs, and retries."""

from datetime import timedelta

import aiohttp
import pytest

from github_emulator import RecordedCall
from queue_engine.store.outbox.items import dead_id
from tests.acceptance.callers import Caller, caller
from tests.acceptance.failed_requests import SECRET, dead_label, opaque_ids
from tests.acceptance.page_readers import reader
from tests.acceptance.world import LABEL, World

READ_AND_COMMENT = {"POST /graphql", "POST /repos/{owner}/{repo}/issues/{number}/comments"}


@pytest.mark.thorough
async def test_label_is_a_request_until_it_is_done(world: World, session: aiohttp.ClientSession) -> None:
    """Its status is pending until IMQ has handled it; another label leaves no trace."""
    mona = await caller(world, session)
    pull = world.open("change")
    pull.label(LABEL, by="mona")
    pull.label("documentation", by="mona")
    await world.github.schedule.run_due()
    waiting = await mona.ask("GET", "/requests/status?state=pending")
    (asked,) = [each for each in waiting.body["requests"] if each["asked"] == LABEL]
    assert (asked["status"], asked["state"], asked["number"], asked["asked_by"]) == (
        "pending",
        "waiting",
        pull.number,
        "mona",
    )
    await world.settle()
    done = await mona.ask("GET", f"/requests/{asked['id']}/status")
    assert (done.status, done.body["status"], done.body["state"]) == (200, "done", "done")
    every = (await mona.ask("GET", "/requests/status?limit=200")).body["requests"]
    assert "documentation" not in [each["asked"] for each in every]
    pull.unlabel(LABEL, by="mona")
    await world.settle()
    now = (await mona.ask("GET", "/requests/status?limit=200")).body["requests"]
    assert [each["asked"] for each in now if each["kind"] == "label" and each["asked_by"]] == [LABEL]


async def test_request_that_is_worked_on_is_processing(world: World, session: aiohttp.ClientSession) -> None:
    """A label, its comment and a bulk call are `processing` while IMQ's request to GitHub is on its way (P6)."""
    mona = await caller(world, session)
    await mona.ask("GET", "/requests/status")
    first, second = world.open("first"), world.open("second")
    await world.settle()
    states: dict[str, tuple[str, str]] = {}

    async def list_pending(exchange: RecordedCall) -> None:
        if exchange.phase == "before" and exchange.template in READ_AND_COMMENT:
            listed = (await mona.ask("GET", "/requests/status?state=pending")).body["requests"]
            states.update({each["kind"]: (each["status"], each["state"]) for each in listed})

    world.server.on_request = list_pending
    first.label(LABEL, by="mona")
    await world.pass_time(timedelta(seconds=10))
    assert (states["label"], states["comment"]) == (("pending", "processing"), ("pending", "processing"))
    begun = await mona.ask(
        "POST", "/api/v1/repositories/acme/widgets/queue", body={"pulls": [{"number": second.number}]}
    )
    assert begun.body["results"][0]["reason"] == "not_begun"
    results: list[str] = []

    async def read_result(exchange: RecordedCall) -> None:
        if exchange.phase == "before" and exchange.template == "POST /graphql":
            found = await mona.ask("GET", f"/api/v1/processes/{begun.body['process_id']}")
            results.append(found.body["results"][0]["reason"])

    world.server.on_request = read_result
    await world.pass_time(timedelta(seconds=10))
    assert results[0] == "processing"


async def test_requests_of_a_private_repository_are_hidden(world: World, session: aiohttp.ClientSession) -> None:
    """A hidden request and an unknown one get the same answer; without a token there is none."""
    world.unsettled = "a dead letter waits for an operator"
    request = await dead_label(world, 1)
    world.repository.record.private = True
    world.github.create_user("eve")
    eve, stranger = await caller(world, session, "eve"), Caller(world, session, None)
    hidden, unknown = [await eve.send("GET", f"/requests/{each}/status") for each in (request, "0" * 32)]
    assert hidden == unknown
    assert hidden[0] == 404
    assert (await eve.ask("GET", "/requests/status")).body == {"requests": [], "next": None}
    assert (await eve.ask("GET", "/requests/status?repository=acme/widgets")).status == 404
    assert (await stranger.ask("GET", "/requests/status")).status == 401
    assert (await stranger.ask("GET", f"/requests/{request}/status")).status == 401


async def test_ids_that_imq_did_not_make_are_unknown_and_cost_github_nothing(
    world: World, session: aiohttp.ClientSession
) -> None:
    """A stranger cannot try repositories and numbers: neither answer nor requests to GitHub tell a hidden one."""
    world.open("change").label(LABEL, by="mona")
    await world.settle()
    repository = world.repository.record
    repository.private = True
    world.github.create_user("eve")
    eve, opaque = await caller(world, session, "eve"), opaque_ids(world)
    items = [f"{kind}-{repository.id}-{number}" for kind in ("comment", "check_run") for number in (1, 999)]
    ids = [*items, dead_id("comment", repository.id, 1), "0" * 32, opaque.seal(items[0])[:-4] + "AAAA"]
    before = world.requests()
    answers = [await eve.send("GET", f"/requests/{each}/status") for each in ids]
    assert world.requests() == before
    assert {status for status, _, _ in answers} == {404}
    assert len({text for _, text, _ in answers[len(items) :]}) == 1
    assert (await eve.ask("GET", f"/requests/{opaque.seal(items[0])}/status")).status == 404
    mona = await caller(world, session)
    found = await mona.ask("GET", f"/requests/{opaque.seal(items[0])}/status")
    assert (found.status, found.body["number"], found.body["kind"]) == (200, 1, "comment")


async def test_maintainer_retries_a_failed_request_and_others_may_not(world: World) -> None:
    """The retry needs the session's secret, and is counted as a person's."""
    request = await dead_label(world, 1)
    world.repository.record.collaborators["rhea"] = "maintain"
    world.repository.record.collaborators["mona"] = "write"
    retry, discard = f"/requests/{request}/retry", f"/requests/{request}/discard"
    async with reader(world, "mona") as mona, reader(world, "rhea") as rhea:
        page = await mona.get("/requests")
        assert (page.status, "A maintainer of the repository can retry it." in page.text) == (200, True)
        assert (SECRET in page.html, retry in page.forms) == (False, False)
        assert (await mona.post(retry)).status == 403
        assert retry in (await rhea.get("/dead-letters")).forms
        assert (await rhea.post(retry, csrf="wrong")).status == 403
        assert (await rhea.post(discard)).status == 403
        assert (await rhea.post(retry)).status == 200
        assert (await rhea.post(retry)).status == 409
    await world.settle()
    assert (await world.entries())[0].queued_by == "mona"
    counted = [
        sample.value
        for family in world.bot.metrics.read()
        for sample in family.samples
        if sample.name == "imq_user_retries_total"
    ]
    assert counted == [1]


async def test_operator_sees_all_and_discards(world: World) -> None:
    """Work of no repository is for operators alone."""
    async with world.bot.engine.change() as change:
        await change.tx.jobs.enqueue(kind="purge", request={}, process_id="purge", now=change.now)
        (job,) = await change.tx.jobs.claim_some(1, owner="w", now=change.now, lease=world.bot.engine.lease)
        await change.tx.dead_letters.add(job, "<script>alert(1)</script>", change.now, attempts=1, retryable=False)
    opaque_id = opaque_ids(world).seal(job.id)
    async with reader(world, "mona") as mona:
        assert opaque_id not in (await mona.get("/dead-letters")).html
        assert (await mona.post(f"/requests/{opaque_id}/retry")).status == 404
    async with reader(world, "rhea", operator=True) as rhea:
        page = await rhea.get("/dead-letters")
        assert f"/requests/{opaque_id}/discard" in page.forms
        assert "<script>alert" not in page.html
        assert (await rhea.post(f"/requests/{opaque_id}/discard")).status == 200
        assert opaque_id not in (await rhea.get("/dead-letters")).html


async def test_person_without_a_session_is_asked_to_log_in(world: World) -> None:
    """Scripts get an error instead of a page."""
    async with reader(world, None) as stranger, reader(world, "mona") as mona:
        assert (await stranger.get("/requests")).status == 303
        refused = await stranger.get("/requests/status")
        assert (refused.status, "log in" in refused.html) == (401, True)
        for name, value in {"cursor": "x", "limit": "0", "state": "odd"}.items():
            assert (await mona.get(f"/requests/status?{name}={value}")).status in (400, 404)
