"""Programs queue many pull requests by one call, and read the results one by one."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from sqlalchemy import update

from bot.api.bulk import KEPT
from bot.api.permissions import MOST_WAITING, PER_MINUTE
from queue_engine.admission.request_order import BULK_CALL
from queue_engine.core.jobs.job import JobStatus, jobs
from queue_engine.core.observability.progress import ProgressEvent
from queue_engine.domain.facts import Permission
from tests.acceptance.callers import Answer, Caller, caller
from tests.acceptance.pull_request_calls import HOME, order
from tests.acceptance.world import World, a_world

KEY = "0f4c3f0e-6b1e-4d0a-8f0e-2f9f3d9b7c11"


async def queue_all(by: Caller, pulls: list[Any], key: str = KEY, **more: Any) -> Answer:
    items = [{"number": pull if isinstance(pull, int) else pull.number} | more for pull in pulls]
    return await by.ask("POST", f"{HOME}/queue", body={"pulls": items}, key=key)


async def results(by: Caller, begun: Answer) -> Any:
    answer = await by.ask("GET", f"/api/v1/processes/{begun.body['process_id']}")
    assert answer.status == 200, answer.body
    return answer.body


@pytest.mark.thorough
async def test_many_are_queued_in_their_order_with_a_result_for_each(world: World, mona: Caller) -> None:
    """One that is refused stops none behind it; each result has the fields of a single call."""
    first, second = world.open("first"), world.open("second")
    begun = await queue_all(mona, [first, 999, second])
    assert (begun.status, begun.body["progress"], begun.body["state"]) == (202, "0 of 3", "running")
    waiting = begun.body["results"][0]
    assert (waiting["status"], waiting["whose_move"], waiting["next"]["call"]["method"]) == (None, "imq", "GET")
    await world.settle()
    done = await results(mona, begun)
    assert (done["progress"], done["state"]) == ("3 of 3", "done")
    assert [(each["number"], each["status"]) for each in done["results"]] == [
        *((first.number, 202), (999, 404), (second.number, 202)),
    ]
    assert [each["state"] is not None for each in done["results"]] == [True, False, True]
    assert done["results"][1]["error"]
    assert await order(world) == [first.number, second.number]
    await world.until(lambda: first.merged and second.merged)
    assert world.landed() == [first.number, second.number]


@pytest.mark.thorough
async def test_each_result_of_a_call_is_reported_as_progress(world: World, mona: Caller) -> None:
    """Subscribers need not poll: an event for each pull request names the process, refused ones included (P6)."""
    events: list[ProgressEvent] = []
    world.bot.bus.subscribe(lambda each: events.append(each) if isinstance(each, ProgressEvent) else None)
    begun = await queue_all(mona, [world.open("first"), 999, world.open("second")])
    await world.settle()
    its_own = [each for each in events if each.correlation_id == begun.body["process_id"]]
    assert [(each.done, each.total, each.status) for each in its_own] == [
        *((1, 3, "in_progress"), (2, 3, "in_progress"), (3, 3, "completed")),
    ]
    assert its_own[1].message == "2 of 3 pull requests"


@pytest.mark.thorough
async def test_each_pull_request_of_a_call_is_a_request_of_its_caller(world: World, mona: Caller) -> None:
    """The page of requests has one for each, pending until IMQ has come to it."""
    first, second = world.open("first"), world.open("second")
    begun = await queue_all(mona, [first, second])

    async def listed() -> list[Any]:
        asked = (await mona.ask("GET", "/requests/status?limit=200")).body["requests"]
        return [each for each in asked if each["process_id"] == begun.body["process_id"]]

    waiting = await listed()
    assert sorted((each["number"], each["kind"], each["asked_by"], each["status"]) for each in waiting) == [
        (first.number, "call", "mona", "pending"),
        (second.number, "call", "mona", "pending"),
    ]
    await world.settle()
    assert [each["status"] for each in await listed()] == ["done", "done"]


@pytest.mark.thorough
async def test_repeated_call_is_the_same_process_and_queues_nothing_again(world: World, mona: Caller) -> None:
    """By its key; without a second process there is nothing that could be done twice."""
    pull = world.open("add")
    once, again = await queue_all(mona, [pull]), await queue_all(mona, [pull])
    assert (again.status, again.body["process_id"]) == (202, once.body["process_id"])
    assert again.headers["Idempotency-Replayed"] == "true"
    await world.settle()
    async with world.bot.engine.store.reading() as tx:
        events = [event.event for event in await tx.timeline.of_pull_request(world.repository.record.id, pull.number)]
    assert events.count("queued") == 1


async def test_job_whose_worker_died_after_it_queued_queues_nothing_again(world: World, mona: Caller) -> None:
    """The entry may have left by then; the result says what became of it."""
    pull = world.open("add")
    begun = await queue_all(mona, [pull])
    jobs = world.bot.worker._handlers[BULK_CALL]
    async with world.bot.engine.store.reading() as tx:
        (job,) = await tx.jobs.unfinished(begun.body["process_id"])
    await jobs.handler(job)  # type: ignore[union-attr]
    assert await order(world) == [pull.number]
    await mona.leave(pull)
    await world.settle()
    assert await order(world) == []
    (result,) = (await results(mona, begun))["results"]
    assert (result["status"], result["state"], result["reason"]) == (202, "not_queued", "unqueued")


async def test_token_is_judged_again_when_its_job_runs(world: World, session: aiohttp.ClientSession) -> None:
    """Who lost the right, or the token, between the call and the job queues nothing."""
    mona, hubot = await caller(world, session), await caller(world, session, "hubot")
    first, second = world.open("first"), world.open("second")
    begun, others = await queue_all(mona, [first]), await queue_all(hubot, [second])
    world.repository.record.collaborators["mona"] = "triage"
    async with world.bot.engine.store.transaction() as tx:
        assert await tx.tokens.revoke("for hubot")
    await world.settle()
    assert await order(world) == []
    (refused,) = (await results(mona, begun))["results"]
    assert (refused["status"], refused["reason"], refused["retry_safe"]) == (403, "label_without_right", False)
    operator = await caller(world, session, None, name="on call", operator=True, access=Permission.READ)
    (revoked,) = (await results(operator, others))["results"]
    assert (revoked["status"], revoked["whose_move"]) == (401, "caller")


async def test_process_is_hidden_from_every_other_caller(world: World, session: aiohttp.ClientSession) -> None:
    """Its 404 is that of a process that never was; who lost access to the repository sees it no longer."""
    mona, hubot = await caller(world, session), await caller(world, session, "hubot")
    begun = await queue_all(mona, [world.open("add")])
    path = f"/api/v1/processes/{begun.body['process_id']}"
    missing = await hubot.read(f"/api/v1/processes/{'0' * 32}")
    assert missing[0] == 404
    assert await hubot.read(path) == missing
    same_person = await caller(world, session, name="another of mona")
    assert (await same_person.read(path))[0] == 200
    del world.repository.record.collaborators["mona"]
    await world.pass_time(timedelta(minutes=6))
    assert await mona.read(path) == missing


async def test_results_are_kept_as_long_as_the_key(world: World, mona: Caller) -> None:
    """Then nothing of the call remains in the store."""
    begun = await queue_all(mona, [999])
    await world.settle()
    world.clock.set(world.clock.now() + KEPT - timedelta(minutes=1))
    assert (await results(mona, begun))["done"] == 1
    await world.pass_time(timedelta(minutes=2))
    assert (await mona.ask("GET", f"/api/v1/processes/{begun.body['process_id']}")).status == 404
    async with world.bot.engine.store.reading() as tx:
        assert await tx.jobs.get_results(begun.body["process_id"]) == ()


async def test_priority_needs_the_right_to_control_queues(world: World, session: aiohttp.ClientSession) -> None:
    """As for a single call, at the call and for each job."""
    hubot, rhea = await caller(world, session, "hubot"), await caller(world, session, "rhea")
    first, second = world.open("first"), world.open("second")
    assert (await queue_all(hubot, [first], priority="high")).status == 403
    begun = await queue_all(rhea, [first, second], priority=7)
    await world.settle()
    assert [each["status"] for each in (await results(rhea, begun))["results"]] == [202, 202]
    assert [entry.priority for entry in await world.entries()] == [7, 7]
    third = world.open("third")
    late = await queue_all(rhea, [third], key=f"{KEY}-2", priority=9)
    world.repository.record.collaborators["rhea"] = "write"
    await world.settle()
    (lost,) = (await results(rhea, late))["results"]
    assert (lost["status"], await world.entry(third)) == (403, None), "the role counts when the job runs"


@pytest.mark.thorough
@pytest.mark.parametrize(
    "pulls", [[], [{"number": 0}], [{"number": 1}, {"number": 1}], [{}], [{"number": 1, "x": 1}], [{"number": 1}] * 101]
)
async def test_body_that_names_no_pull_requests_is_refused_as_a_whole(
    world: World, mona: Caller, pulls: list[Any]
) -> None:
    """Nothing of it is done: the caller corrects it and sends it again."""
    answer = await mona.ask("POST", f"{HOME}/queue", body={"pulls": pulls})
    assert (answer.status, answer.body["whose_move"]) == (400, "caller")


async def test_one_caller_fills_the_queue_of_jobs_only_so_far(world: World, session: aiohttp.ClientSession) -> None:
    """Everybody with an account on GitHub reads a public repository, and so may call; others are not hindered."""
    stranger, mona = await caller(world, session, "tria"), await caller(world, session, "mona")
    calls = MOST_WAITING // 100
    statuses = [
        (await queue_all(stranger, list(range(1, 101)), key=f"call-{number}")).status for number in range(calls + 1)
    ]
    assert statuses == [202] * calls + [429]
    assert (await queue_all(mona, [1])).status == 202


async def test_full_queue_refuses_some_of_many(tmp_path: Path, session: aiohttp.ClientSession) -> None:
    """Each result says whether to try again."""
    async with a_world(tmp_path, settings={"IMQ_MAX_QUEUE_DEPTH": "1"}) as world:
        mona = await caller(world, session)
        begun = await queue_all(mona, [world.open("first"), world.open("second")])
        async with world.bot.engine.store.reading() as tx:
            assert len(await tx.jobs.unfinished(begun.body["process_id"])) == 2
        while await world.bot.worker.run_due():
            pass
        found = (await results(mona, begun))["results"]
    assert [(each["status"], each["retry_safe"]) for each in found] == [(202, False), (429, True)]
    assert found[1]["reason"] == "queue_full"


async def test_given_up_job_that_had_queued_its_pull_request_is_no_failure(world: World, mona: Caller) -> None:
    """Each process that ran the jobs died: one pull request was queued before, the other one was not."""
    first, second = world.open("first"), world.open("second")
    begun = await queue_all(mona, [first, 999, second])
    await world.settle()
    async with world.bot.engine.store.transaction() as tx:
        given_up = update(jobs).where(jobs.c.kind == BULK_CALL).values(status=JobStatus.FAILED, response_json=None)
        await tx.connection.execute(given_up)
    done = await results(mona, begun)
    assert (done["state"], [each["status"] for each in done["results"]]) == ("done", [202, 503, 202])
    queued, failed, _ = done["results"]
    assert (queued["whose_move"], queued["error"]) == ("ci", None)
    assert (failed["retry_safe"], "the process ended each time" in failed["error"]) == (True, True)


async def test_burst_of_single_calls_meets_the_depth_limit_first_and_its_own_limit_names_the_bulk_call(
    tmp_path: Path, session: aiohttp.ClientSession
) -> None:
    """P7: twenty calls fill a queue of twenty; a client that calls on learns which one call queues them all."""
    async with a_world(tmp_path, settings={"IMQ_MAX_QUEUE_DEPTH": "20"}) as world:
        mona = await caller(world, session)
        pulls = [world.open(f"change-{number}") for number in range(21)]
        answers = [await mona.queue(pull) for pull in pulls]
        assert [each.status for each in answers] == [202] * 20 + [429]
        assert answers[-1].body["reason"] == "queue_full"
        late = answers[-1]
        for _ in range(PER_MINUTE):
            if late.body["reason"] != "queue_full":
                break
            late = await mona.queue(pulls[-1])
        assert (late.status, late.body["retry_safe"]) == (429, True)
        assert "one call queues up to 100 pull requests: POST /api/v1/repositories" in late.body["error"]
        await world.pass_time(timedelta(seconds=int(late.headers["Retry-After"])))
        assert (await queue_all(mona, pulls)).status == 202
