"""A delivery is followed through the log by its id: from the webhook to the merge and to what people read of it."""

from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import aiohttp
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from queue_engine.core.observability import trace
from queue_engine.store.tokens import TokenPolicy
from tests.acceptance.world import LABEL, REPOSITORY, World, a_world
from tests.support.captured import Log, captured

MERGE = "PUT /repos/{owner}/{repo}/pulls/{pull_number}/merge"


def delivery_of_the_label(world: World) -> str:
    """The id of the trigger label's delivery, as GitHub's page shows it."""
    (guid,) = {d.guid for d in world.github.state.deliveries if d.app is world.app and d.action == "labeled"}
    return str(guid)


def lines_of(log: Log, guid: str) -> list[dict[str, Any]]:
    """The lines of the trace that belongs to a delivery."""
    return log.lines(trace_id=UUID(guid).hex)


def one(lines: list[dict[str, Any]], event: str, **fields: Any) -> dict[str, Any]:
    """The one line of an event."""
    (line,) = [line for line in lines if {"event": event, **fields}.items() <= line.items()]
    return line


async def lands(world: World, pull: Any) -> None:
    """The pull request merges, and its outbox items are sent."""
    await world.until(lambda: pull.merged)
    await world.pass_time(timedelta(minutes=1))


@pytest.mark.thorough
async def test_delivery_is_followed_from_the_webhook_to_the_merge_and_the_letters(world: World) -> None:
    """One id finds every step, and the delivery's own id stands beside it wherever the queue speaks."""
    pull = await world.behind("add")
    with captured() as log:
        pull.label(LABEL, by="mona")
        await lands(world, pull)
    guid = delivery_of_the_label(world)
    lines = lines_of(log, guid)
    steps = ["delivery stored", "queued", "updating", "checking", "ready", "landed"]
    followed = [one(lines, step) for step in steps]
    assert [line["timestamp"] for line in followed] == sorted(line["timestamp"] for line in followed)
    assert {line["delivery"] for line in (*followed, one(lines, "github", call=MERGE))} == {guid}
    assert [line["component"] for line in followed] == ["receiver", "admission", *["entries"] * 3, "landing"]
    assert {line["kind"] for line in lines if line["event"] == "outbox_item_sent"} == {
        "comment",
        "check_run",
        "label",
    }
    assert all(line["span_id"] for line in lines)
    methods = {line["component"] for line in log.lines() if line["event"].startswith("ENTER ")}
    assert methods >= {"dead_letters", "jobs", "keys", "slots", "worker"}
    # The spans are of different work: the webhook, its job, each pass.
    assert len({line["span_id"] for line in followed}) >= 4


@pytest.mark.thorough
async def test_trace_goes_on_after_the_process_died(world: World) -> None:
    """P2: the trace is in the database, not in a process: with the entry, outbox items and jobs."""
    pull = await world.behind("add")
    with captured() as log:
        pull.label(LABEL, by="mona")
        await world.until_status(pull, "checking")
        await world.kill()
        await world.restart()
        before = len(log.lines())
        await lands(world, pull)
        lines = log.lines()[before:]
    guid = delivery_of_the_label(world)
    after = [line for line in lines if line.get("trace_id") == UUID(guid).hex]
    assert one(after, "landed")["delivery"] == guid
    assert one(after, "github", call=MERGE)["delivery"] == guid
    assert {line["kind"] for line in after if line["event"] == "outbox_item_sent"} >= {"comment", "label"}


@pytest.mark.thorough
async def test_pull_request_that_waited_for_room_keeps_its_own_trace(tmp_path: Path) -> None:
    """Who makes room for another is not the cause of what happens to it."""
    async with a_world(tmp_path, settings={"IMQ_MAX_QUEUE_DEPTH": "1"}) as world:
        pulls = [await world.behind(name) for name in ("first", "second")]
        with captured() as log:
            for pull in pulls:
                pull.label(LABEL, by="mona")
                await world.settle()
            await world.until(lambda: all(pull.merged for pull in pulls))
        guids = {d.guid for d in world.github.state.deliveries if d.app is world.app and d.action == "labeled"}
    assert len(guids) == 2
    assert {one(lines_of(log, guid), "landed")["delivery"] for guid in guids} == guids
    assert [line["number"] for line in log.lines(event="queued")] == [pull.number for pull in pulls]


async def test_pass_that_breaks_down_names_the_delivery(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line of an error of our own is the one that is looked for first."""

    async def broken(*_: Any) -> None:
        raise RuntimeError("out of order")

    pull = await world.behind("add")
    monkeypatch.setattr(world.bot.gateway, "update_branch", broken)
    with captured() as log:
        pull.label(LABEL, by="mona")
        await world.settle()
    (line,) = log.lines(event="pass_failed")
    assert delivery_of_the_label(world) in line["exception"]
    assert f"#{pull.number}" in line["exception"]


async def test_call_of_the_api_is_followed_by_the_callers_own_trace(world: World) -> None:
    """Who queues from a pipeline finds the merge in the pipeline's trace."""
    its_id = UUID(int=7).hex
    pull = await world.behind("add")
    async with world.bot.engine.store.transaction() as tx:
        token = await tx.tokens.create("pipeline", TokenPolicy(login="mona", operator=False), now=world.clock.now())
    headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": "k", "traceparent": f"00-{its_id}-{'1' * 16}-01"}
    url = world.app.webhook_url.replace("/webhook", f"/api/v1/repositories/{REPOSITORY}/pulls/{pull.number}/queue")
    with captured() as log:
        async with aiohttp.ClientSession() as session, session.post(url, headers=headers) as answer:
            assert answer.status == 202
        await lands(world, pull)
    lines = log.lines(trace_id=its_id)
    assert one(lines, "landed")["number"] == pull.number
    assert one(lines, "github", call=MERGE)
    assert {line["kind"] for line in lines if line["event"] == "outbox_item_sent"} >= {"comment", "label"}


@pytest.mark.thorough
async def test_timeline_keeps_the_delivery_of_every_step(world: World) -> None:
    """What happened can be traced back to the delivery long after the log is gone."""
    pull = await world.behind("add")
    pull.label(LABEL, by="mona")
    await lands(world, pull)
    async with world.bot.engine.store.reading() as tx:
        events = await tx.timeline.of_pull_request(pull.record.repository.id, pull.number)
    assert {event.delivery for event in events} == {delivery_of_the_label(world)}
    assert [event.event for event in events] == ["queued", "updating", "checking", "ready", "landed"]


@pytest.mark.thorough
async def test_operators_sdk_sees_delivery_job_pass_and_requests_in_one_trace(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each span is caused by the one before it, over all that was stored in between; nothing else goes along."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER", provider.get_tracer("imq"))
    pull = await world.behind("add")
    pull.label(LABEL, by="mona")
    await lands(world, pull)
    its_id = UUID(delivery_of_the_label(world)).int
    spans = {span.context.span_id: span for span in exporter.get_finished_spans() if span.context.trace_id == its_id}
    merge = next(span for span in spans.values() if span.name == MERGE)
    assert causes(merge, spans) == ["pass", "job webhook", "delivery"]
    letter = next(span for span in spans.values() if span.name == "outbox label")
    assert causes(letter, spans) == ["pass", "job webhook", "delivery"]
    comment = next(s for s in spans.values() if s.name == "POST /repos/{owner}/{repo}/issues/{issue_number}/comments")
    assert causes(comment, spans)[0] == "outbox comment"
    assert not any(span.attributes or span.events for span in spans.values())


def causes(span: ReadableSpan, spans: dict[int, ReadableSpan]) -> list[str]:
    """The names of the spans that led to this one, nearest first."""
    names: list[str] = []
    while span.parent is not None and span.parent.span_id in spans:
        span = spans[span.parent.span_id]
        names.append(span.name)
    return names
