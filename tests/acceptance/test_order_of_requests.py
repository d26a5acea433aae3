"""P3: who asks first lands first, by whatever ways two people ask, and whatever delays the answer to the first."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import aiohttp
import pytest
from sqlalchemy import func, select, update

from github_emulator import Fault, PullRequestOptions
from queue_engine.admission.request_order import BULK_CALL, RequestOrder
from queue_engine.core.jobs.job import Job, jobs
from queue_engine.core.jobs.job_store import Jobs
from queue_engine.core.read_model import adapter
from queue_engine.domain.errors import RequestOrderError
from queue_engine.domain.model import EntryOrder
from queue_engine.domain.webhooks import WEBHOOK_JOB, RequestRetry, WebhookEvent
from tests.acceptance.callers import Caller, caller
from tests.acceptance.page_readers import reader
from tests.acceptance.test_bulk_calls import queue_all
from tests.acceptance.test_order_of_labels import claimed_elsewhere
from tests.acceptance.world import CI_TIME, LABEL, World

SECOND = timedelta(seconds=1)
GRAPHQL = Fault(kind="fail", method="POST", route="/graphql", status=502)


async def by_label(world: World, pull: Any) -> None:
    pull.label(LABEL, by="mona")


def by_comment(text: str, by: str = "mona") -> Callable[[World, Any], Awaitable[None]]:
    async def ask(world: World, pull: Any) -> None:
        pull.comment(text, by=by)

    return ask


async def by_review(world: World, pull: Any) -> None:
    pull.review("APPROVED", by="hubot", body="/queue")


async def by_auto_merge(world: World, pull: Any) -> None:
    pull.enable_auto_merge(by="mona")


async def by_ready(world: World, pull: Any) -> None:
    pull.ready_for_review(by="mona")


async def by_bulk_call(world: World, pull: Any) -> None:
    async with aiohttp.ClientSession() as session:
        assert (await queue_all(await caller(world, session, name="bulk"), [pull])).status == 202


async def called(world: World, call: Callable[[], Coroutine[Any, Any, int]]) -> "asyncio.Task[int]":
    """Have somebody call, who waits for the answer, until IMQ has answered or lets the call wait."""
    task = asyncio.ensure_future(call())
    while not task.done() and not world.clock.sleeping[SECOND]:  # noqa: ASYNC110 - a call of a client is no event here
        await asyncio.sleep(0)
    return task


async def status_of(world: World, call: "asyncio.Task[int]") -> int:
    """The answer of a call, as time passes while it waits."""
    while not call.done():
        await (world.pass_time(SECOND) if world.clock.sleeping[SECOND] else asyncio.sleep(0))
    return await call


async def by_call(world: World, pull: Any) -> "asyncio.Task[int]":
    async def call() -> int:
        async with aiohttp.ClientSession() as session:
            mona = await caller(world, session, name=f"call {pull.number}")
            while (answer := await mona.queue(pull)).status == 503:
                await world.clock.sleep(timedelta(seconds=int(answer.headers["Retry-After"])))
        return answer.status

    return await called(world, call)


async def by_page(world: World, pull: Any) -> "asyncio.Task[int]":
    async def call() -> int:
        async with reader(world, "mona") as mona:
            page = await mona.post(f"/repositories/acme/widgets/pulls/{pull.number}/requeue", head_sha=pull.head_sha)
        return 202 if page.status < 400 else page.status

    return await called(world, call)


@dataclass(frozen=True)
class Way:
    """A way to ask, and in what state the pull request is before."""

    ask: Callable[[World, Any], Awaitable["asyncio.Task[int] | None"]]
    draft: bool = False
    green: bool = True
    """Whether its checks have ended."""


STORED = {
    "label": Way(by_label),
    "comment": Way(by_comment("/queue")),
    "comment alone": Way(by_comment("/queue alone")),
    "comment high": Way(by_comment("/queue priority=high", by="rhea")),
    "comment requeue": Way(by_comment("/requeue")),
    "review": Way(by_review),
    "auto-merge": Way(by_auto_merge, green=False),
    "ready for review": Way(by_ready, draft=True),
    "bulk call": Way(by_bulk_call),
}
"""Ways whose requests IMQ stores, and answers as soon as it can."""

EACH = {name: way for name, way in STORED.items() if name != "comment high"} | {
    "call": Way(by_call),
    "page": Way(by_page),
}
"""All ways that give no pull request a priority."""


async def asked(world: World, *ways: Way, auto_merge: str = "queue") -> list[Any]:
    """Pull requests for which people can ask in these ways, and then wait for nothing else."""
    world.repository.record.allow_auto_merge = True
    world.repository.push("main", {".github/imq.yml": f"auto_merge: {auto_merge}\n"}, "Configure IMQ", by="rhea")
    pulls: dict[int, Any] = {}
    for green in (True, False):
        for place, way in enumerate(ways):
            if way.green is green:
                options = PullRequestOptions(draft=way.draft)
                pulls[place] = world.open(f"add-{place}", options=options)
        await world.pass_time(CI_TIME * 2 if green else SECOND)
    for place, way in enumerate(ways):
        if way.draft:
            pulls[place].label(LABEL, by="mona")
    await world.pass_time(SECOND * 20)
    return [pulls[place] for place in range(len(ways))]


async def land(world: World, pulls: list[Any], *calls: "asyncio.Task[int] | None") -> list[int]:
    """Let all land; returns them in the order in which they did."""
    assert all([call is None or await status_of(world, call) == 202 for call in calls])
    await world.until(lambda: all(pull.merged for pull in pulls), within=CI_TIME * 8)
    return world.landed()


async def fails(world: World, ask: Callable[[], Awaitable[object]]) -> None:
    """GitHub answers one read with 502, and IMQ repeats it a second later."""
    world.server.faults.add(GRAPHQL)
    await ask()
    await world.pass_time(SECOND / 10)
    assert 502 in [request.status for request in world.server.requests]


async def lags(world: World, ask: Callable[[], Awaitable[object]]) -> None:
    """The first read shows what was there two seconds ago."""
    world.server.lag.set(2 * SECOND, "graphql")
    await ask()
    await world.pass_time(SECOND / 10)
    world.server.lag.set(timedelta(0), "graphql")


async def refused(world: World, ask: Callable[[], Awaitable[object]]) -> None:
    """Each replica of GitHub learns of a fresh token at another time."""
    world.bot.gateway.forget_token(next(iter(world.github.state.installations)))
    world.server.lag.between(timedelta(0), 4 * SECOND, "token", seed=4)
    await ask()
    await world.pass_time(SECOND / 10)


async def dies(world: World, ask: Callable[[], Awaitable[object]]) -> None:
    """No other process knows before the lease ends that the one was killed which answers."""
    await ask()
    assert await claimed_elsewhere(world)


async def is_not_answered(world: World, way: Way, pull: Any) -> Job:
    """Somebody asks, and for an hour a process that hangs has the job of the request."""
    await way.ask(world, pull)
    (job,) = await claimed_elsewhere(world)
    async with world.bot.database.transaction() as connection:
        await Jobs(connection).renew(job, world.clock.now() + timedelta(hours=1))
    return job


DELAYS = {each.__name__: each for each in (fails, lags, refused, dies)}


def cases() -> list[Any]:
    """Two ways, and what delays the answer to the first: each path of the code once, all others in the long gate."""
    laters = ("label", "comment", "review", "ready for review", "bulk call", "call", "page")
    earliers = ("review", "auto-merge", "ready for review", "bulk call")
    chosen = {("label", later, "fails") for later in laters} | {(earlier, "comment", "fails") for earlier in earliers}
    chosen |= {("comment", "label", delay) for delay in ("lags", "refused", "dies")}
    every = [(earlier, later, delay) for earlier in STORED for later in EACH for delay in DELAYS]
    return [
        pytest.param(*case, id=" ".join(case), marks=[] if case in chosen else [pytest.mark.long]) for case in every
    ]


@pytest.mark.parametrize("are_both", [False, True])
@pytest.mark.parametrize("earlier", ["label", "comment", "bulk call"])
async def test_hotfix_waits_for_an_unanswered_request_only_if_that_may_queue_one_too(
    world: World, earlier: str, are_both: bool
) -> None:
    """P3, P5: a hotfix comes before all others, and two of them land in the order of their requests."""
    first, second = await asked(world, STORED[earlier], STORED["label"])
    text = "priority: {labels: {hotfix: {priority: 1, hotfix: true, preempts: true}}}\n"
    world.repository.push("main", {".github/imq.yml": text}, "Configure IMQ", by="rhea")
    for pull in (first, second) if are_both else (second,):
        pull.label("hotfix", by="mona")
    if not are_both:
        first.label("other", by="mona")
    await world.pass_time(SECOND)
    await dies(world, lambda: STORED[earlier].ask(world, first))
    second.label(LABEL, by="mona")
    await world.pass_time(SECOND)
    assert (await world.status(second) is None) is are_both
    assert await world.status(first) is None, "the other process is dead"
    assert await land(world, [first, second]) == [
        each.number for each in ((first, second) if are_both else (second, first))
    ]


@pytest.mark.parametrize("words", ["/revert", "/imq Revert", "/why"])
async def test_hotfix_waits_for_an_unanswered_revert_however_it_is_spelled(world: World, words: str) -> None:
    """P3: a revert is a hotfix, too; a question queues none."""
    landed, later = await asked(world, STORED["label"], STORED["label"])
    landed.label(LABEL, by="mona")
    await world.until(lambda: landed.merged)
    text = "priority: {labels: {hotfix: {priority: 1, hotfix: true}}}\n"
    world.repository.push("main", {".github/imq.yml": text}, "Configure IMQ", by="rhea")
    later.label("hotfix", by="mona")
    await world.pass_time(SECOND)
    landed.comment(words, by="mona")
    assert await claimed_elsewhere(world)
    later.label(LABEL, by="mona")
    await world.pass_time(SECOND)
    assert (await world.status(later) is None) is (words != "/why")


@pytest.mark.every_variant
@pytest.mark.parametrize(("earlier", "later", "delay"), cases())
async def test_request_whose_answer_is_delayed_lands_before_a_later_one(
    world: World, earlier: str, later: str, delay: str
) -> None:
    first, second = STORED[earlier], EACH[later]
    pulls = await asked(world, first, second)
    await DELAYS[delay](world, lambda: first.ask(world, pulls[0]))
    call = await second.ask(world, pulls[1])
    assert await land(world, pulls, call) == [pull.number for pull in pulls]


async def test_command_that_waits_reads_github_no_oftener_for_that(world: World) -> None:
    """P7: half a minute of waiting for a killed process costs one read."""
    first, second = await asked(world, STORED["comment"], STORED["comment"])
    await dies(world, lambda: STORED["comment"].ask(world, first))
    before = world.requests("POST /graphql")
    await STORED["comment"].ask(world, second)
    await world.pass_time(25 * SECOND)
    assert world.requests("POST /graphql") == before + 1
    assert await land(world, [first, second]) == [first.number, second.number]


@pytest.mark.parametrize("earlier", ["comment", "review", "bulk call"])
async def test_request_whose_processes_die_holds_up_later_ones_for_a_minute(world: World, earlier: str) -> None:
    """P5: also on other base branches, where it names none; a comment is one of those."""
    world.unsettled = "a dead letter waits for an operator"
    world.repository.create_branch("release", "main")
    first, second, _ = await asked(world, STORED[earlier], STORED["label"], STORED["label"])
    elsewhere = world.open("elsewhere", base="release")
    await world.pass_time(CI_TIME * 2)
    await is_not_answered(world, STORED[earlier], first)
    began: datetime = world.clock.now()
    for pull in (elsewhere, second):
        pull.label(LABEL, by="mona")
    names_branch = earlier == "review"
    await world.until(lambda: elsewhere.merged, within=SECOND if names_branch else 65 * SECOND)
    await world.until(lambda: second.merged, within=CI_TIME * 8)
    assert 60 * SECOND <= world.clock.now() - began < 65 * SECOND


async def test_call_behind_a_request_that_is_not_answered_fails_for_its_caller_to_repeat_it(
    world: World, mona: Caller
) -> None:
    """P5: it answers within what hosts allow, and succeeds once the earlier request has had its minute."""
    world.unsettled = "a dead letter waits for an operator"
    first, second = await asked(world, STORED["label"], EACH["call"])
    await is_not_answered(world, STORED["label"], first)

    async def call() -> int:
        return (await mona.queue(second)).status

    began, before = world.clock.now(), world.requests("POST /graphql")
    assert [await status_of(world, asyncio.ensure_future(call())) for _ in range(4)] == [503, 503, 503, 202]
    assert 60 * SECOND <= world.clock.now() - began <= 62 * SECOND
    assert world.requests("POST /graphql") == before + 4


@pytest.mark.parametrize("text", ["/why", "/try", "/pause"])
async def test_command_that_queues_nothing_holds_up_none(world: World, text: str) -> None:
    """Another process answers it for half a minute."""
    first, second = await asked(world, STORED["comment"], STORED["label"])
    await dies(world, lambda: by_comment(text, by="rhea")(world, first))
    await STORED["label"].ask(world, second)
    await world.until(lambda: second.merged, within=SECOND)


async def test_auto_merge_that_queues_nothing_holds_up_none(world: World) -> None:
    """Where the configuration does not say so, GitHub's button is no request to IMQ."""
    first, second = await asked(world, STORED["auto-merge"], STORED["label"], auto_merge="disable")
    await dies(world, lambda: STORED["auto-merge"].ask(world, first))
    await STORED["label"].ask(world, second)
    await world.until(lambda: second.merged, within=SECOND)


async def test_request_that_has_joined_holds_up_none_while_its_job_is_not_done(world: World) -> None:
    """Its entry names its delivery; GitHub refuses the reaction to the comment for seconds."""
    first, second = await asked(world, STORED["comment"], STORED["label"])
    world.repository.push("main", {"moved.py": "moved\n"}, "Move the base", by="rhea")
    await world.settle()
    world.server.faults.add(Fault(kind="fail", method="POST", route=re.compile("reactions"), status=502, skip=1))
    await STORED["comment"].ask(world, first)
    await world.pass_time(SECOND / 10)
    await STORED["label"].ask(world, second)
    await world.pass_time(SECOND / 10)
    assert 502 in [request.status for request in world.server.requests]
    assert [entry.number for entry in await world.entries()] == [first.number, second.number]


async def test_bulk_call_that_waits_for_its_callers_budget_holds_up_none(world: World) -> None:
    """P5: its first job is tried again later, and all others of the call wait behind it, however long that takes."""
    pulls = await asked(world, *[EACH["label"]] * 3)
    async with aiohttp.ClientSession() as session:
        assert (await queue_all(await caller(world, session, name="bulk"), pulls[:2])).status == 202
    async with world.bot.database.transaction() as connection:
        first = select(func.min(jobs.c.seq)).where(jobs.c.kind == BULK_CALL).scalar_subquery()
        later = update(jobs).where(jobs.c.seq == first)
        await connection.execute(later.values(not_before=world.clock.now() + timedelta(minutes=20)))
    pulls[2].label(LABEL, by="mona")
    await world.until(lambda: pulls[2].merged, within=SECOND)
    await world.until(lambda: all(pull.merged for pull in pulls), within=timedelta(hours=1))
    assert world.landed()[0] == pulls[2].number


async def test_wait_for_an_earlier_request_ends_after_a_minute_however_seldom_it_is_read(world: World) -> None:
    """P5: behind a thousand requests each round takes a process many seconds."""
    world.unsettled = "a dead letter waits for an operator"
    (first,) = await asked(world, STORED["label"])
    job = await is_not_answered(world, STORED["label"], first)
    engine, webhook = world.bot.engine, adapter(WebhookEvent).validate_python(job.request)
    order, policy = RequestOrder(engine), await engine.policies.of(webhook.repository, "main")
    attempt = RequestRetry(order=job.seq + 1)
    in_order = order.of(webhook.repository, attempt)
    for waits, seconds in enumerate((0, 30, 29)):
        world.clock.set(world.clock.now() + seconds * SECOND)
        with pytest.raises(RequestOrderError):
            await (order.await_again(attempt) if waits else in_order("main", policy, EntryOrder()))
    world.clock.set(world.clock.now() + SECOND)
    await order.await_again(attempt)


async def test_request_waits_for_one_behind_many_that_ask_for_nothing(world: World) -> None:
    """IMQ reads the earlier ones some at a time."""
    world.unsettled = "a dead letter waits for an operator"
    (first,) = await asked(world, STORED["label"])
    await STORED["label"].ask(world, first)
    (job,) = await claimed_elsewhere(world)
    engine, webhook = world.bot.engine, adapter(WebhookEvent).validate_python(job.request)
    policy = await engine.policies.of(webhook.repository, "main")
    request, asking = dict(job.request), []
    for label in ("bug", LABEL):
        requests = [
            (f"{webhook.repository_id}:{label} {n}", request | {"label": label, "number": 999}) for n in range(50)
        ]
        async with world.bot.database.transaction() as connection:
            await Jobs(connection).finish([job])
            await Jobs(connection).enqueue_all(kind=WEBHOOK_JOB, requests=requests, now=world.clock.now())
            attempt = RequestRetry(order=1 + await Jobs(connection).newest())
        try:
            await RequestOrder(engine).of(webhook.repository, attempt)("main", policy, EntryOrder())
        except RequestOrderError:
            asking.append(label)
    assert asking == [LABEL]
