"""Queueing by the API: judged as a label is, answered at once, and shown on GitHub by the label."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bot.api.permissions import PER_MINUTE, WRITE_COST
from github_emulator import Fault, PullRequestOptions, RecordedCall
from tests.acceptance.callers import Answer, Caller, caller, path_of
from tests.acceptance.choosing import configure
from tests.acceptance.test_held import held
from tests.acceptance.world import CI_TIME, LABEL, World, a_world

LABELS = "POST /repos/{owner}/{repo}/issues/{number}/labels"


@pytest.mark.thorough
async def test_queued_by_the_api_is_labeled_and_lands_for_that_person(world: World, mona: Caller) -> None:
    """The label is the visible truth, set by IMQ; the comment names who asked; one comment, one merge."""
    pull = world.open("add")
    answer = await mona.queue(pull, head_sha=pull.head_sha)
    assert (answer.status, answer.body["position"], answer.body["base_branch"]) == (202, 0, "main")
    assert answer.body["queued_by"] == "mona"
    await world.settle()
    assert LABEL in pull.labels
    await world.until(lambda: pull.merged)
    await world.settle()
    assert (world.requests(LABELS), LABEL in pull.labels) == (1, False)
    assert world.spoken(pull) == 1
    assert await world.reasons(pull) == []
    assert await held(world) == []


@pytest.mark.thorough
async def test_queued_twice_is_answered_with_its_place(world: World, mona: Caller) -> None:
    """The second call changes nothing; with the same key it gets the very answer of the first."""
    pull = world.open("add")
    first = await mona.queue(pull, key="one")
    again, other = await mona.queue(pull, key="one"), await mona.queue(pull, key="two")
    assert (first.status, again.status, other.status) == (202, 202, 200)
    assert again.body == first.body == other.body
    assert again.headers["Idempotency-Replayed"] == "true"
    await world.settle()
    assert len(await world.entries()) == 1
    assert world.requests(LABELS) == 1


async def test_push_after_queueing_by_the_api_ends_consent(world: World, mona: Caller) -> None:
    """P4: what was queued is the head of that moment, and no other."""
    pull = world.open("add")
    await mona.queue(pull)
    pull.push({"more.py": "more\n"}, by="mona")
    await world.until_status(pull, None)
    assert await world.reasons(pull) == ["head_changed"]


@pytest.mark.thorough
async def test_label_taken_off_after_queueing_by_the_api_ends_consent(world: World, mona: Caller) -> None:
    """P4: anyone who may remove labels can dequeue it by hand."""
    pull = world.open("add")
    await mona.queue(pull)
    await world.settle()
    pull.unlabel(LABEL, by="tria")
    await world.until_status(pull, None)
    assert await world.reasons(pull) == ["label_removed"]


@pytest.mark.thorough
async def test_full_queue_refuses_the_api_and_holds_nothing(tmp_path: Path, session: aiohttp.ClientSession) -> None:
    """Eight calls on a queue of five: three get 429, and join in order when they call again."""
    async with a_world(tmp_path, settings={"IMQ_MAX_QUEUE_DEPTH": "5"}) as world:
        mona = await caller(world, session)
        pulls = [world.open(f"add-{number}") for number in range(8)]
        await world.settle()
        answers = [await mona.queue(pull, key=f"key-{pull.number}") for pull in pulls]
        assert [answer.status for answer in answers] == [202] * 5 + [429] * 3
        last = answers[-1].body
        assert (last["error"], last["reason"], last["retry_safe"]) == ("queue full", "queue_full", True)
        assert "did not queue" in last["sentence"]
        assert "queue it again" in last["next"]["sentence"]
        assert answers[-1].headers["Retry-After"] == "30"
        assert [entry.number for entry in await world.entries()] == [pull.number for pull in pulls[:5]]
        assert await held(world) == []
        await world.settle()
        assert [pull.number for pull in pulls if LABEL in pull.labels] == [pull.number for pull in pulls[:5]]
        assert 'imq_queue_full_total{process="run",where="api"} 3.0' in await world.bot.reporter.page()
        waiting = pulls[5:]
        while waiting:
            await world.pass_time(timedelta(seconds=30))
            if (await mona.queue(waiting[0], key=f"key-{waiting[0].number}")).status == 202:
                waiting.pop(0)
        assert world.landed() + [entry.number for entry in await world.entries()] == [pull.number for pull in pulls]


@pytest.mark.thorough
async def test_burst_of_single_calls_meets_the_depth_limit_before_the_budget(
    world: World, session: aiohttp.ClientSession
) -> None:
    """Each call is charged what it sends, so the queue is full first; beyond the budget the bulk call is named (P7)."""
    mona = await caller(world, session)
    pulls = [world.open(f"add-{number}") for number in range(22)]
    await world.settle()
    answers = [await mona.queue(pull) for pull in pulls[:1]]
    await world.pass_time(timedelta(seconds=10))
    before = world.requests()
    answers += [await mona.queue(pull) for pull in pulls[1:2]]
    await world.pass_time(timedelta(seconds=10))
    assert world.requests() - before == WRITE_COST, "a read, the label, the comment"
    answers += [await mona.queue(pull) for pull in pulls[2:]]
    assert [answer.status for answer in answers] == [202] * 20 + [429] * 2
    assert answers[-1].body["reason"] == "queue_full"
    while (answer := await mona.queue(pulls[-1], key=f"more-{len(answers)}")).body["reason"] == "queue_full":
        answers.append(answer)
    assert "POST /api/v1/repositories/{owner}/{repo}/queue" in answer.body["sentence"]
    assert len(answers) == PER_MINUTE // WRITE_COST


@pytest.mark.thorough
async def test_calls_at_the_same_time_get_no_more_places_than_there_are(
    tmp_path: Path, session: aiohttp.ClientSession
) -> None:
    """A refused call sets no label."""
    async with a_world(tmp_path, settings={"IMQ_MAX_QUEUE_DEPTH": "3"}) as world:
        mona = await caller(world, session)
        pulls = [world.open(f"add-{number}") for number in range(6)]
        await world.settle()
        answers = await asyncio.gather(*(mona.queue(pull) for pull in pulls))
        assert sorted(answer.status for answer in answers) == [202] * 3 + [429] * 3
        await world.settle()
        queued = {entry.number for entry in await world.entries()}
        assert {pull.number for pull in pulls if LABEL in pull.labels} == queued
        assert len(queued) == world.requests(LABELS) == 3
        assert await held(world) == []


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["reset", "apply_then_reset"])
async def test_call_is_answered_once_it_is_stored_and_its_label_survives_the_process(
    world: World, session: aiohttp.ClientSession, kind: Any
) -> None:
    """P2: killed before the label is set, or after it, the next start finishes the call for mona."""
    mona = await caller(world, session)
    pull = world.open("add")
    await world.pass_time(CI_TIME * 2)
    world.server.faults.add(Fault(kind=kind, method="POST", route=LABELS))
    assert (await mona.queue(pull)).status == 202
    await world.kill()
    await world.restart()
    await world.until(lambda: pull.merged)
    await world.settle()
    assert world.spoken(pull) == 1


async def test_admission_refuses_the_api_with_its_reason_and_no_comment(
    world: World, mona: Caller, session: aiohttp.ClientSession
) -> None:
    """Who called reads the answer; the pull request is left as it is."""
    await configure(world, "when_not_ready: refuse\n")
    draft, closed, moved = (
        world.open("draft", options=PullRequestOptions(draft=True)),
        world.open("closed"),
        world.open("moved"),
    )
    closed.close(by="mona")
    await world.settle()
    tria = await caller(world, session, "tria")
    answers = [
        await mona.queue(draft),
        await mona.queue(closed),
        await mona.queue(moved, head_sha="0" * 40),
        await tria.queue(moved),
    ]
    assert [(answer.status, answer.body["reason"]) for answer in answers] == [
        (422, "draft"),
        (409, "closed"),
        (409, "head_changed"),
        (403, "label_without_right"),
    ]
    assert all(answer.body["error"].endswith(".") for answer in answers)
    await world.pass_time(timedelta(minutes=11))
    assert [world.spoken(pull) for pull in (draft, closed, moved)] == [0, 0, 0]
    assert [pull.labels for pull in (draft, closed, moved)] == [[], [], []]
    assert world.requests(LABELS) == 0
    assert await world.entries() == ()


async def test_call_about_a_missing_repository_or_pull_request_is_a_404(
    world: World, mona: Caller, session: aiohttp.ClientSession
) -> None:
    """404 for a repository or pull request that IMQ does not see; 403 for a token without a person."""
    pull = world.open("add")
    somebody = await caller(world, session, None)
    missing = await mona.ask("POST", path_of(pull, "acme/nothing"))
    assert (missing.status, "no such repository" in missing.body["error"]) == (404, True)
    assert (await mona.ask("POST", path_of(4711))).status == 404
    assert (await mona.leave(pull)).status == 404
    assert (await somebody.queue(pull)).status == 403
    assert (await mona.ask("POST", path_of(pull, "ACME/Widgets"))).status == 202
    assert (await mona.queue(pull, head_sha="main")).status == 400


@pytest.mark.thorough
async def test_outage_of_github_is_a_503_that_the_caller_may_retry(world: World, mona: Caller) -> None:
    """A 503 with Retry-After stores nothing under the key, and queues no pull request."""
    pull = world.open("add")
    world.server.faults.add(Fault(kind="fail", status=502, times=None))
    answer = await mona.queue(pull, key="k")
    assert (answer.status, answer.headers["Retry-After"]) == (503, "30")
    await world.pass_time(timedelta(minutes=2))
    assert (await world.entries(), await held(world), pull.labels) == ((), [], [])
    world.server.faults.clear()
    assert (await mona.queue(pull, key="k")).status == 202


@pytest.mark.thorough
async def test_label_that_github_refuses_for_a_while_keeps_its_entry_and_is_set_later(
    world: World, mona: Caller
) -> None:
    """P2: the stored label state counts until GitHub shows the label."""
    pull = world.open("add")
    fault = world.server.faults.add(Fault(kind="fail", method="POST", route=LABELS, status=502, times=None))
    assert (await mona.queue(pull, key="k")).status == 202
    await world.pass_time(timedelta(minutes=1))
    assert ([entry.number for entry in await world.entries()], pull.labels) == ([pull.number], [])
    assert fault.hits
    world.server.faults.clear()
    await world.until(lambda: LABEL in pull.labels or bool(pull.merged))


@pytest.mark.thorough
async def test_dequeued_by_the_api_loses_its_label_and_is_explained(
    world: World, mona: Caller, session: aiohttp.ClientSession
) -> None:
    """By hand: its label comes off, and automation that sets it again starts nothing; only for who may queue."""
    pull = world.open("add")
    await mona.queue(pull)
    assert (await (await caller(world, session, "tria")).leave(pull)).status == 403
    answer = await mona.leave(pull)
    assert (answer.status, answer.body["left"]) == (200, True)
    assert await world.entries() == ()
    await world.pass_time(timedelta(minutes=1))
    assert LABEL not in pull.labels
    assert await world.reasons(pull) == ["unqueued"]
    assert (await mona.leave(pull)).status == 404
    assert (await mona.queue(pull)).status == 202


@pytest.mark.thorough
async def test_held_leaves_the_line_by_the_api(tmp_path: Path, session: aiohttp.ClientSession) -> None:
    """A held pull request can be dequeued in the same way."""
    async with a_world(tmp_path, settings={"IMQ_MAX_QUEUE_DEPTH": "1"}) as world:
        mona = await caller(world, session)
        first, second = world.open("first"), world.open("second")
        await mona.queue(first)
        second.label(LABEL, by="mona")
        await world.pass_time(timedelta(seconds=5))
        assert await held(world) == [second.number]
        again, third = await mona.queue(second), await mona.queue(world.open("third"))
        assert (again.status, again.body["status"], again.body["position"], third.status) == (200, "held", None, 429)
        assert (await mona.leave(second)).status == 200
        assert await held(world) == []
        await world.settle()
        assert second.labels == []
        assert await world.reasons(second) == ["queue_full", "unqueued"]


@pytest.mark.thorough
async def test_merge_under_way_is_not_called_off(world: World, mona: Caller) -> None:
    """P2: once IMQ asked for the merge only GitHub decides; the answer says so."""
    pull = world.open("add")
    await world.pass_time(CI_TIME * 2)
    await mona.queue(pull)
    answers: list[Answer] = []

    async def call_off(exchange: RecordedCall) -> None:
        if (exchange.template, exchange.phase) == ("PUT /repos/{owner}/{repo}/pulls/{number}/merge", "before"):
            world.server.on_request = None
            answers.append(await mona.leave(pull))

    world.server.on_request = call_off
    await world.until(lambda: pull.merged)
    await world.settle()
    assert [(answer.status, answer.body["left"]) for answer in answers] == [(202, False)]
    assert "Landed" in world.comment(pull)


async def test_merge_that_fails_after_it_was_called_off_is_not_tried_again(world: World, mona: Caller) -> None:
    """P4: a dequeue request in the last moment is followed as soon as GitHub has refused the merge."""
    pull = world.open("add")
    await world.pass_time(CI_TIME * 2)
    await mona.queue(pull)
    merge = "PUT /repos/{owner}/{repo}/pulls/{number}/merge"
    world.server.faults.add(Fault(kind="fail", method="PUT", route=merge, status=502))
    answers: list[Answer] = []

    async def call_off(exchange: RecordedCall) -> None:
        if (exchange.template, exchange.phase) == (merge, "before"):
            world.server.on_request = None
            answers.append(await mona.leave(pull))

    world.server.on_request = call_off
    await world.until_status(pull, None)
    await world.pass_time(timedelta(minutes=1))
    assert [(answer.status, answer.body["left"]) for answer in answers] == [(202, False)]
    assert (pull.merged, pull.labels, world.requests(merge)) == (False, [], 1)
    assert await world.reasons(pull) == ["label_removed"]
