"""Traces by OTLP, as a collector gets them over HTTP: one trace a landing, and no landing waits for a collector."""

import logging
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

import aiohttp
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.proto.trace.v1.trace_pb2 import Status as SpanStatus
from structlog.testing import capture_logs

from bot import __version__
from bot.process import traces
from bot.process.traces import Export
from queue_engine.core.observability import trace
from queue_engine.core.observability.trace import is_recorded, recording
from queue_engine.store.tokens import TokenPolicy
from tests.acceptance.test_traces import MERGE, delivery_of_the_label
from tests.acceptance.world import LABEL, REPOSITORY, World
from tests.support.otlp_receiver import OtlpReceiver, otlp_receiver
from tests.support.real_time import LIMIT

STATUSES = ["queued", "updating", "checking", "ready"]


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[OtlpReceiver]:
    """A receiver that the SDK sends to within milliseconds."""
    quiet = logging.getLogger("opentelemetry").level
    with otlp_receiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
        yield receiver
    logging.getLogger("opentelemetry").setLevel(quiet)


@contextmanager
def exporting(monkeypatch: pytest.MonkeyPatch) -> Iterator[Export]:
    """What `exported` does for a process, without its global provider, which is set once and for all."""
    export = Export({})
    monkeypatch.setattr(trace, "_TRACER", export.provider.get_tracer("imq"))
    with recording(export.record):
        try:
            yield export
        finally:
            export.close()


def root_of(spans: list[Span]) -> Span:
    """The one span that has no parent."""
    (root,) = [span for span in spans if not span.parent_span_id]
    return root


def below(parent: Span, spans: list[Span]) -> list[str]:
    """The names of the spans directly below this one, by their start."""
    found = [span for span in spans if span.parent_span_id == parent.span_id]
    return [span.name for span in sorted(found, key=lambda span: span.start_time_unix_nano)]


def attributes(span: Span) -> dict[str, str]:
    return {each.key: each.value.string_value for each in span.attributes}


@pytest.mark.thorough
async def test_landing_is_one_trace_from_the_label_to_the_merge(
    world: World, receiver: OtlpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over a killed process: the root is written at the end, and the spans below it knew its id from the start."""
    pull = await world.behind("add")
    with exporting(monkeypatch):
        queued_at = world.clock.now()
        pull.label(LABEL, by="mona")
        await world.until_status(pull, "checking")
        await world.kill()
    assert "landing" not in {span.name for span in receiver.spans()}
    with exporting(monkeypatch):
        await world.restart()
        await world.until(lambda: pull.merged)
        landed_at = world.clock.now()
        await world.settle()
    spans = receiver.spans(UUID(delivery_of_the_label(world)).int)
    root = root_of(spans)
    assert root.name == "landing"
    assert [name for name in below(root, spans) if name != "delivery"] == STATUSES
    (delivery,) = [span for span in spans if span.name == "delivery"]
    assert delivery.parent_span_id == root.span_id
    (job,) = [span for span in spans if span.parent_span_id == delivery.span_id]
    assert job.name == "job webhook"
    assert {"pass", "POST /graphql"} <= set(below(job, spans))
    assert len([span for span in spans if span.name == MERGE]) == 1
    known = {span.span_id for span in spans}
    assert all(span.parent_span_id in known for span in spans if span is not root)
    began, ended = root.start_time_unix_nano / 1e9, root.end_time_unix_nano / 1e9
    assert queued_at.timestamp() <= began < ended <= landed_at.timestamp()
    assert receiver.resource().items() >= {"service.name": "imq", "service.version": __version__}.items()


@pytest.mark.thorough
async def test_root_names_the_pull_request_and_no_span_has_a_secret_or_a_text(
    world: World, receiver: OtlpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Traces go to another service: it gets the pull request and its outcome, but neither a title nor a token."""
    pull = world.open("a-very-private-title")
    with exporting(monkeypatch):
        pull.label(LABEL, by="mona")
        await world.until_status(pull, "checking")
        pull.unlabel(LABEL, by="mona")
        await world.settle()
    spans = receiver.spans(UUID(delivery_of_the_label(world)).int)
    root = root_of(spans)
    assert root.name == "dequeued"
    assert attributes(root) == {
        "vcs.owner.name": "acme",
        "vcs.repository.name": "widgets",
        "vcs.change.id": str(pull.number),
        "vcs.ref.base.name": "main",
        "imq.outcome": "cancelled",
        "imq.reason": "label_removed",
    }
    assert root.status.code == SpanStatus.STATUS_CODE_UNSET
    assert not any(span.attributes or span.events for span in receiver.spans() if span.name not in {"dequeued"})
    sent = b"".join(receiver.bodies)
    secrets = ["a-very-private-title", "mona", "s3cret", "ghs_", "BEGIN", "Bearer"]
    assert [word for word in secrets if word.encode() in sent] == []


async def test_failure_is_an_error_with_its_reason_code(
    world: World, receiver: OtlpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tools for traces find what failed; a dequeue by a person is no error."""
    pull = world.open("add", files={"total.txt": "11\n"})
    with exporting(monkeypatch):
        pull.label(LABEL, by="mona")
        await world.until(lambda: LABEL not in pull.labels)
    (reason,) = await world.reasons(pull)
    root = root_of(receiver.spans(UUID(delivery_of_the_label(world)).int))
    assert (root.name, root.status.code) == ("dequeued", SpanStatus.STATUS_CODE_ERROR)
    assert root.status.message == attributes(root)["imq.reason"] == reason


@pytest.mark.thorough
async def test_landing_that_a_program_asked_for_is_below_the_programs_span(
    world: World, receiver: OtlpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipeline that sends its traceparent sees the landing in its own trace."""
    its_id, its_span = UUID(int=7).int, "1" * 16
    pull = world.open("add")
    async with world.bot.engine.store.transaction() as tx:
        token = await tx.tokens.create("pipeline", TokenPolicy(login="mona", operator=False), now=world.clock.now())
    headers = {
        "Authorization": f"Bearer {token}",
        "Idempotency-Key": "k",
        "traceparent": f"00-{its_id:032x}-{its_span}-01",
    }
    url = world.app.webhook_url.replace("/webhook", f"/api/v1/repositories/{REPOSITORY}/pulls/{pull.number}/queue")
    with exporting(monkeypatch):
        async with aiohttp.ClientSession() as session, session.post(url, headers=headers) as answer:
            assert answer.status == 202
        await world.until(lambda: pull.merged)
        await world.settle()
    spans = {span.span_id: span for span in receiver.spans(its_id)}
    (landing,) = [span for span in spans.values() if span.name == "landing"]
    above = [landing]
    while (parent := spans.get(above[-1].parent_span_id)) is not None:
        above.append(parent)
    assert [span.name for span in above] == ["landing", "api enqueue", "api call"]
    assert above[-1].parent_span_id.hex() == its_span


@pytest.mark.thorough
async def test_receiver_that_hangs_delays_no_landing_and_no_end(
    world: World, receiver: OtlpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The SDK waits in a thread of its own; a process that ends leaves it behind."""
    receiver.released.clear()
    monkeypatch.setattr(traces, "_SECONDS_AT_THE_END", 0.01)
    pull = world.open("add")
    with exporting(monkeypatch):
        pull.label(LABEL, by="mona")
        await world.until_status(pull, "checking")
        assert receiver.reached.wait(LIMIT)
        await world.until(lambda: pull.merged)
        await world.settle()
        assert LABEL not in pull.labels
        assert receiver.requests == []
    receiver.released.set()


async def test_receiver_that_refuses_is_one_warning_and_delays_nothing(
    world: World, receiver: OtlpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error in the log means a fault of IMQ, which this is not."""
    receiver.status = 400
    pull = world.open("add")
    with capture_logs() as lines, exporting(monkeypatch):
        pull.label(LABEL, by="mona")
        await world.until(lambda: pull.merged)
        assert receiver.reached.wait(LIMIT)
    lost = [line for line in lines if line["event"] == "traces_lost"]
    assert [line["log_level"] for line in lost] == ["warning"]


async def test_sampler_that_keeps_nothing_keeps_no_landing_either(
    world: World, receiver: OtlpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenTelemetry's own settings hold for the spans that IMQ writes at the end."""
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    pull = world.open("add")
    with exporting(monkeypatch):
        pull.label(LABEL, by="mona")
        await world.until(lambda: pull.merged)
    assert receiver.requests == []


@pytest.mark.thorough
async def test_without_an_exporter_no_history_is_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who wants no traces pays nothing for them."""
    assert not is_recorded()
    made: list[object] = []
    monkeypatch.setattr("queue_engine.effects.context.spans_of", lambda *_: made.append(_))
    pull = world.open("add")
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged)
    assert made == []


PROCESS = """
import sys
from bot.process.traces import exported
from queue_engine.core.observability import trace
import os
if sys.argv[1:] == ["no extra"]:
    sys.modules["opentelemetry.exporter.otlp.proto.http.trace_exporter"] = None
with exported(dict(os.environ)), trace.span("pass"):
    prefixes = ("opentelemetry.sdk", "opentelemetry.exporter", "requests")
    print([name for name in sys.modules if name.startswith(prefixes)])
"""


def process(receiver: OtlpReceiver, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """A process that exports one span, if it may."""
    given = {"PATH": "", "OTEL_SERVICE_NAME": "queue", "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url} | environ
    command = [sys.executable, "-c", PROCESS, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, env=given, check=True)


@pytest.mark.process
def test_process_sends_its_last_spans_before_it_ends(receiver: OtlpReceiver) -> None:
    """The provider is the process's own, under the name that the operator gave the service; no log has the password."""
    ran = process(receiver, OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url.replace("://", "://ops:pw-of-ops@"))
    assert "traces_exported" in ran.stdout
    assert "pw-of-ops" not in ran.stdout + ran.stderr
    assert [span.name for span in receiver.spans()] == ["pass"]
    assert receiver.resource()["service.name"] == "queue"


@pytest.mark.parametrize(
    ("arguments", "environ", "words"),
    [
        (["no extra"], {}, ("extra `otlp`",)),
        ([], {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, ("http/protobuf", "4318")),
    ],
)
@pytest.mark.process
def test_traces_that_cannot_be_exported_are_one_warning_with_the_way_out(
    receiver: OtlpReceiver, arguments: list[str], environ: dict[str, str], words: tuple[str, ...]
) -> None:
    """IMQ starts all the same: traces are no reason to land nothing."""
    ended = process(receiver, *arguments, **environ)
    (line,) = [line for line in ended.stdout.splitlines() if "traces_not_exported" in line]
    assert all(word in line for word in words)
    assert receiver.requests == []


@pytest.mark.process
def test_without_an_endpoint_neither_the_sdk_nor_the_exporter_is_imported(receiver: OtlpReceiver) -> None:
    """The extra costs neither memory nor time where it is not used."""
    ended = process(receiver, OTEL_EXPORTER_OTLP_ENDPOINT="")
    assert ended.stdout == "[]\n"
