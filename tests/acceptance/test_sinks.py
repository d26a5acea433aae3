"""Messages to sinks, as receivers over HTTP get them while pull requests pass through a queue."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from notifications.sinks.sender import DISABLED
from queue_engine.core.jobs.job import Dead, Job
from queue_engine.handlers.branch_events import record_push
from tests.acceptance.commenting import ready, say
from tests.acceptance.shadow_mode import FILE, SHADOW
from tests.acceptance.test_check_outcomes import with_unit
from tests.acceptance.train_world import CANDIDATES
from tests.acceptance.world import CI_TIME, LABEL, LAG, REPOSITORY, World, a_world
from tests.support.captured import captured
from tests.support.sink_receiver import SECRET, SinkReceiver, answers, closes, hangs, sink_receiver, sinks_setting
from tests.support.webhooks import a_webhook

EVERY = [
    *("ejected", "landed_outside", "base_red", "base_green", "landed", "queued", "dequeued", "paused", "resumed"),
    *("frozen", "tree_mismatch", "dead_letter"),
]


def hook(receiver: SinkReceiver, **more: Any) -> dict[str, Any]:
    """A webhook for this repository."""
    return {
        "name": "hook",
        "webhook": f"{receiver.url}/hook",
        "secret": SECRET,
        "repositories": [REPOSITORY],
        **more,
    }


def settings(*entries: dict[str, Any]) -> dict[str, str]:
    """The operator's settings with these sinks."""
    return {"IMQ_SINKS": sinks_setting(*entries), "IMQ_PUBLIC_URL": "https://imq.example"}


async def land(world: World, name: str) -> Any:
    """Land a pull request."""
    pull = world.open(name)
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged)
    await world.settle()
    return pull


@pytest.mark.thorough
async def test_sinks_get_ejections_and_landings_around_the_queue_by_default(tmp_path: Path) -> None:
    """A team learns what it must act on, and nothing of the landings that went as they should."""
    async with sink_receiver() as receiver, a_world(tmp_path, settings=settings(hook(receiver))) as world:
        await land(world, "good")
        world.repository.push("main", {"around.py": "1\n"}, "Past the queue", by="rhea")
        await world.settle()
        bad = world.open("bad", files={"bad.txt": "100\n"})
        bad.label(LABEL, by="mona")
        await world.pass_time(CI_TIME * 4)
    assert receiver.types() == ["landed_outside", "ejected"]
    outside, ejected = (each.json["data"] for each in receiver.received)
    assert outside["by"] == "rhea"
    assert outside["link"].endswith(f"/compare/{outside['before']}...{outside['sha']}")
    assert outside["queue"] == "https://imq.example/repositories/acme/widgets/branches/main"
    assert (ejected["reason"], ejected["whose_move"]) == ("checks_failed", "author")
    assert ejected["pull_request"]["title"] == bad.record.title
    assert [each["check"] for each in ejected["failing"]] == ["ci/test"]


async def test_sinks_get_every_kind_that_they_ask_for(tmp_path: Path) -> None:
    """A program follows a queue from its first entry to its pauses."""
    async with (
        sink_receiver() as receiver,
        a_world(tmp_path, settings=settings(hook(receiver, events=EVERY))) as world,
    ):
        pull = await ready(world)
        await say(world, pull, "/pause A release", by="rhea")
        pull.label(LABEL, by="mona")
        await world.settle()
        await say(world, pull, "/freeze until 2h", by="rhea")
        await say(world, pull, "/resume", by="rhea")
        pull.unlabel(LABEL, by="mona")
        await world.settle()
        await say(world, pull, "/resume", by="rhea")
        await land(world, "two")
        await world.pass_time(CI_TIME)
    assert receiver.types() == ["paused", "queued", "frozen", "resumed", "dequeued", "resumed", "queued", "landed"]
    paused = receiver.received[0].json["data"]
    assert (paused["by"], paused["detail"], paused["pull_request"]) == ("rhea", "A release", None)
    assert len({each.headers["webhook-id"] for each in receiver.received}) == len(receiver.received)
    assert len({each.json["data"]["sha"] for each in receiver.received}) == 2


@pytest.mark.parametrize("lag", [timedelta(0), pytest.param(LAG, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("trains", ["", "trains: {candidates: push, runs: 1}\n"], ids=["one_by_one", "trains"])
async def test_each_kind_of_sink_gets_a_flake_once(tmp_path: Path, trains: str, lag: timedelta) -> None:
    """P6: with the check and the page of the pull request, whose title the event of a queue has not."""
    async with sink_receiver() as receiver:
        chat = {"name": "chat", "slack": f"{receiver.url}/chat", "repositories": ["acme/*"], "events": ["flake_seen"]}
        given = settings(hook(receiver, events=["flake_seen"]), chat)
        async with a_world(tmp_path, ci=False, protect=False, lag=lag, settings=given) as world:
            unit = with_unit(world, branches=CANDIDATES)
            world.repository.push("main", {".github/imq.yml": trains}, "Configure IMQ", by="rhea")
            pulls = [await world.behind(name) for name in ("one", "two")]
            await world.pass_time(CI_TIME * 2)
            unit.plan = ("failure",)
            await say(world, pulls[0], "/pause", by="rhea")
            for pull in pulls:
                pull.label(LABEL, by="mona")
            await world.settle()
            await say(world, pulls[0], "/resume", by="rhea")
            await world.until_status(pulls[0], "checking")
            await world.pass_time(CI_TIME * 1.5)
            unit.plan = ()
            await world.until(lambda: all(pull.merged for pull in pulls))
            await world.pass_time(CI_TIME * 4)
    [data] = [each.json["data"] for each in receiver.received if each.path == "/hook"]
    [text] = [each.json["blocks"][0]["text"]["text"] for each in receiver.received if each.path == "/chat"]
    # A train found it by the second one alone, on the tree on which both had failed together.
    number = 2 if trains else 1
    assert data["link"].endswith(f"/{REPOSITORY}/pull/{number}")
    assert [check["check"] for check in data["failing"]] == ["unit"]
    assert text.splitlines()[1:] == [
        f"<{data['link']}|#{number}>",
        "These checks failed, then passed on the same tree. No pull request left the queue for it.",
        "• `unit`",
    ]


async def test_sink_of_another_tenant_gets_nothing(tmp_path: Path) -> None:
    """A private repository's titles reach only the channels whose patterns match it."""
    async with sink_receiver() as receiver:
        other = hook(receiver, name="other", repositories=["globex/*", "acme/widget"], events=EVERY)
        async with a_world(tmp_path, settings=settings(other)) as world:
            await land(world, "secret")
            async with world.bot.engine.store.reading() as tx:
                assert await tx.jobs.unfinished("sink:other") == ()
    assert receiver.received == []


@pytest.mark.thorough
async def test_sink_that_fails_delays_no_landing_and_gets_each_message_afterwards(tmp_path: Path) -> None:
    """P2 and P5: while the receiver is away, pull requests land; then it gets all, each with one id."""
    async with (
        sink_receiver() as receiver,
        a_world(tmp_path, settings=settings(hook(receiver, events=["queued", "landed"]))) as world,
    ):
        receiver.replies = [closes, answers(500), answers(404), answers(429, Retry_After="90"), closes]
        pulls = [world.open("one"), world.open("two")]
        for pull in pulls:
            pull.label(LABEL, by="mona")
        await world.until(lambda: all(pull.merged for pull in pulls), within=CI_TIME * 4)
        await world.pass_time(CI_TIME * 10)
        async with world.bot.engine.store.reading() as tx:
            assert await tx.dead_letters.count() == 0
    accepted = {each.headers["webhook-id"]: each for each in receiver.received}
    assert sorted(each.json["type"] for each in accepted.values()) == ["landed", "landed", "queued", "queued"]
    assert len(receiver.received) == 9, "five tries failed, and were made again"


@pytest.mark.thorough
async def test_message_survives_a_kill_before_and_during_its_request(tmp_path: Path) -> None:
    """P2: it is stored with its event, and what a dead process had sent is sent again with the same id."""
    async with sink_receiver() as receiver, a_world(tmp_path, settings=settings(hook(receiver))) as world:
        await land(world, "one")
        async with world.bot.engine.change() as change:
            queue = (await change.tx.queues.all())[0]
            await change.record("landed_outside", queue, data={"by": "rhea"})
        await world.kill()
        assert receiver.received == []
        await world.restart()
        receiver.replies = [hangs]
        running = asyncio.create_task(world.settle())
        await receiver.until(1)
        await world.kill()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await world.restart()
        await world.settle()
        await world.settle()
    first, second = receiver.received
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.body == second.body


@pytest.mark.thorough
async def test_dead_message_is_sent_again_with_its_id(tmp_path: Path) -> None:
    """An operator corrects the receiver, and retries the dead letter."""
    async with sink_receiver() as receiver, a_world(tmp_path, settings=settings(hook(receiver))) as world:
        await land(world, "one")
        receiver.replies = [answers(302, Location="/moved")]
        world.repository.push("main", {"around.py": "1\n"}, "Past the queue", by="rhea")
        await world.settle()
        async with world.bot.engine.change() as change:
            (letter,) = await change.tx.dead_letters.list(9)
            assert "redirect" in letter.error_message
            assert receiver.url not in str(letter)
            assert await change.tx.dead_letters.reprocess(letter.id, change.now)
        await world.settle()
        async with world.bot.engine.store.reading() as tx:
            assert await tx.dead_letters.count() == 0
    assert receiver.types() == ["landed_outside", "landed_outside"]
    assert len({each.headers["webhook-id"] for each in receiver.received}) == 1


async def test_dead_letter_is_a_message_to_operators(tmp_path: Path) -> None:
    """What IMQ gave up reaches a person, in the transaction that stores it."""
    async with sink_receiver() as receiver:
        ops = hook(receiver, name="ops", repositories=["*/*"], events=["dead_letter"])
        async with a_world(tmp_path, settings=settings(ops)) as world:
            async with world.bot.engine.change() as change:
                await change.tx.jobs.enqueue(kind="purge", request={}, process_id="x", now=change.now)
            dead = Dead("no luck", retryable=False)

            async def fail(job: Job) -> Dead:
                return dead

            world.bot.worker._handlers = {**world.bot.worker._handlers, "purge": fail}
            await world.settle()
    assert receiver.types() == ["dead_letter"]
    assert "no luck" in receiver.received[0].json["data"]["detail"]


@pytest.mark.thorough
async def test_shadow_mode_sends_nothing_about_pushes(tmp_path: Path) -> None:
    """There people merge everything: a channel would get each of their merges."""
    async with (
        sink_receiver() as receiver,
        a_world(tmp_path, settings=settings(hook(receiver, events=EVERY))) as world,
    ):
        await land(world, "one")
        await world.pass_time(CI_TIME)
        world.repository.push("main", {FILE: SHADOW}, "Only watch", by="rhea")
        await world.pass_time(CI_TIME)
        before = len(receiver.received)
        world.repository.push("main", {"more.py": "1\n"}, "By a person", by="rhea")
        world.open("two").label(LABEL, by="mona")
        await world.pass_time(CI_TIME * 4)
        assert len(receiver.received) == before


@pytest.mark.thorough
async def test_slack_that_is_gone_is_disabled_and_logged_without_its_address(tmp_path: Path) -> None:
    """No further request goes there; the log names the sink, and neither log nor database has the address."""
    async with sink_receiver() as receiver:
        slack = {"name": "team", "slack": f"{receiver.url}/s3cretpath", "repositories": [REPOSITORY]}
        async with a_world(tmp_path, settings=settings(slack)) as world:
            await land(world, "one")
            receiver.always = answers(404, "no_service")
            with captured() as log:
                for number in range(3):
                    world.repository.push("main", {f"{number}.py": "1\n"}, "Past the queue", by="rhea")
                    await world.pass_time(CI_TIME)
            async with world.bot.engine.store.reading() as tx:
                letters = await tx.dead_letters.list(9)
    assert [line["sink"] for line in log.lines(event="sink_disabled")] == ["team"]
    assert (len(receiver.received), len(letters)) == (1, 3)
    assert "s3cretpath" not in log.text + str(letters)
    assert all(each.retryable and each.error_message.startswith(DISABLED) for each in letters)


async def test_push_is_recorded_once_and_never_for_a_landing_of_imq(tmp_path: Path) -> None:
    """GitHub may leave the sender of a merge out: then the commit decides. A job that runs again records nothing."""
    async with a_world(tmp_path) as world:
        pull = await land(world, "one")
        async with world.bot.engine.store.reading() as tx:
            queue = (await tx.queues.all())[0]
            landed = (await tx.timeline.of_pull_request(queue.repository.id, pull.number))[-1].data["sha"]
        for sha, sender in ((landed, None), (landed, "imq[bot]"), ("c" * 40, None), ("c" * 40, None)):
            webhook = a_webhook(
                "base_moved",
                delivery="d",
                installation_id=1,
                sender=sender,
                branch="main",
                before="b" * 40,
                head_sha=sha,
            )
            await record_push(world.bot.engine, queue, webhook)
        async with world.bot.engine.store.reading() as tx:
            events = await tx.timeline.history(queue.repository.id, "main", pull.number, limit=99)
        await world.settle()
    assert [event.data["sha"] for event in events if event.event == "landed_outside"] == ["c" * 40]
