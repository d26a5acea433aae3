"""Traces: one id from a delivery to all that it causes, recorded only by an operator's own SDK."""

import asyncio
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from uuid import UUID, uuid4

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from queue_engine.core.concurrency.micro_batch import MicroBatch
from queue_engine.core.observability import trace
from tests.support.real_time import LIMIT

GUID = "72d3162e-cc78-11e3-81ab-4c9367dc0958"
TRACE = GUID.replace("-", "")


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """What an operator's SDK gets to see."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER", provider.get_tracer("imq"))
    yield exporter
    provider.shutdown()


def test_trace_outside_of_any_work_is_none() -> None:
    """Nothing is invented where nothing began."""
    assert trace.current() is None
    assert trace.ids() == {}


def test_trace_of_a_delivery_has_its_guid_as_id() -> None:
    """Who knows the delivery's id from GitHub's page can look for it in the log, and in any tool for traces."""
    with trace.of_delivery(GUID):
        assert trace.ids()["trace_id"] == TRACE
        assert re.fullmatch(f"00-{TRACE}-[0-9a-f]{{16}}-01", trace.current() or "")
    assert trace.current() is None


@pytest.mark.parametrize("guid", ["d-1", "x" * 64, "b268f8db-25cd-4c9f-b5e9-f5d44b36d12", f"{UUID(int=0)}", ""])
def test_trace_of_a_delivery_that_is_no_guid_is_derived_and_always_the_same(guid: str) -> None:
    """An id is needed whatever the header held; zero is no trace id, by W3C."""
    with trace.of_delivery(guid):
        first = trace.ids()
    with trace.of_delivery(guid):
        assert trace.ids()["trace_id"] == first["trace_id"]
        assert trace.ids()["span_id"] != first["span_id"]
    assert int(first["trace_id"], 16) != 0


def test_trace_continued_has_the_same_id_and_a_span_of_its_own() -> None:
    """What was stored is enough to go on with: in another task, another process, another week."""
    with trace.of_delivery(GUID):
        stored, started = trace.current(), trace.ids()
    with trace.continued(stored):
        assert trace.ids()["trace_id"] == TRACE
        assert trace.ids()["span_id"] != started["span_id"]
        with trace.span("part"):
            assert trace.ids()["trace_id"] == TRACE
    assert stored is not None
    assert len(stored) <= 64


@pytest.mark.parametrize("stored", [None, "", "rubbish", f"00-{'0' * 32}-{'1' * 16}-01", f"00-{TRACE}-01"])
def test_trace_continued_from_nothing_readable_begins_one(stored: str | None) -> None:
    """Rows from before traces, and broken ones, cost a trace its beginning, never the work."""
    with trace.continued(stored):
        begun = trace.current()
        with trace.continued(stored):
            assert trace.ids()["trace_id"] in (begun or "")
    assert begun is not None
    with trace.continued(stored):
        assert trace.ids()["trace_id"] not in begun


def test_trace_that_is_not_recorded_continues_unrecorded() -> None:
    """Whether a trace is sampled was decided where it began."""
    with trace.continued(f"00-{TRACE}-{'1' * 16}-00"):
        assert (trace.current() or "").endswith("-00")


async def test_shared_batch_has_no_trace() -> None:
    """Calls that are done together belong to all their callers, not to the first of them."""
    traces: list[str | None] = []

    async def do(items: Sequence[str]) -> list[None]:
        traces.append(trace.current())
        return [None]

    with trace.of_delivery(GUID):
        await MicroBatch(do)("item")
        assert (trace.current() or "").startswith(f"00-{TRACE}")
    assert traces == [None]


async def test_traces_of_tasks_at_the_same_time_do_not_mix() -> None:
    """Each piece of work keeps its own."""

    async def work(number: int) -> bool:
        guid = str(uuid4())
        with trace.of_delivery(guid):
            for _ in range(number):
                await asyncio.sleep(0)
            return trace.ids()["trace_id"] == guid.replace("-", "")

    assert all(await asyncio.gather(*(work(number) for number in range(9))))


def test_spans_are_real_where_an_sdk_records(recorded: InMemorySpanExporter) -> None:
    """Names tell kinds of work; parents tell what caused what, also over a stored trace."""
    with trace.of_delivery(GUID):
        with trace.span("PUT /repos/{owner}/{repo}/pulls/{pull_number}/merge"):
            pass
        stored = trace.current()
    with trace.continued(stored, "job hint"):
        pass
    request, delivery, job = recorded.get_finished_spans()
    assert (request.name, delivery.name, job.name) == (
        "PUT /repos/{owner}/{repo}/pulls/{pull_number}/merge",
        "delivery",
        "job hint",
    )
    assert {span.context.trace_id for span in (request, delivery, job)} == {int(TRACE, 16)}
    assert request.parent is not None
    assert job.parent is not None
    assert request.parent.span_id == job.parent.span_id == delivery.context.span_id


def test_span_of_a_failure_has_the_errors_type_only(recorded: InMemorySpanExporter) -> None:
    """What an error says may hold a secret, and spans go to somebody else's service."""

    def fail() -> None:
        with trace.span("job hint"):
            raise ValueError("ghs_secret")

    with pytest.raises(ValueError, match="ghs_secret"):
        fail()
    (span,) = recorded.get_finished_spans()
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "ValueError")
    assert span.events == ()
    assert "ghs_secret" not in span.to_json()


@pytest.mark.process
def test_sdk_that_starts_later_than_the_import_is_used() -> None:
    """An operator's start-up code may run before or after IMQ is imported: the tracer is found by the API."""
    script = """
from queue_engine.core.observability import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import set_tracer_provider
exporter, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
with trace.span("before"):
    pass
set_tracer_provider(provider)
with trace.span("after"):
    pass
print([span.name for span in exporter.get_finished_spans()])
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=LIMIT)
    assert ran.stdout == "['after']\n", ran.stderr
