"""Export traces by OTLP, if the operator set an endpoint and installed the extra `otlp`.

The settings are OpenTelemetry's own (`OTEL_...`), which its SDK reads. The SDK sends spans in a thread of its own: what
receives them may hang or refuse, and delays nothing. It drops spans when too many wait.
"""

import logging
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import structlog
from opentelemetry.trace import (
    NonRecordingSpan,
    Status,
    StatusCode,
    get_tracer_provider,
    set_span_in_context,
    set_tracer_provider,
)

from bot import __version__
from bot.logs.configure import LogThrottle
from queue_engine.core.observability.trace import TraceRecord, recording
from queue_engine.core.timing.clock import SystemClock

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter

_log = structlog.get_logger("imq.traces")

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_PROTOCOL = "http/protobuf"
_NAME = "imq"

_SECONDS_AT_THE_END = 3.0
"""How long the last spans of a process may take; with draining it stays below 20 seconds."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Export:
    """OpenTelemetry's SDK with an exporter. Raises ImportError without the extra, and ValueError for bad settings."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        named = environ.get("OTEL_SERVICE_NAME") or f"{SERVICE_NAME}=" in environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
        self._resource = Resource.create({SERVICE_VERSION: __version__, **({} if named else {SERVICE_NAME: _NAME})})
        self._processor = BatchSpanProcessor(_reported(OTLPSpanExporter()))
        self.provider = TracerProvider(resource=self._resource, shutdown_on_exit=False)
        self.provider.add_span_processor(self._processor)

    def record(self, spans: Sequence[TraceRecord]) -> None:
        """Export spans that have ended, unless the sampler leaves out their trace."""
        for span in spans:
            if self._is_sampled(span):
                self._processor.on_end(self._readable(span))

    def close(self) -> None:
        """Send the last spans, for three seconds at most."""
        # A daemon: a thread that waits for a receiver must not keep the process.
        closing = threading.Thread(target=self.provider.shutdown, name="last-spans", daemon=True)
        closing.start()
        closing.join(_SECONDS_AT_THE_END)

    def _is_sampled(self, span: TraceRecord) -> bool:
        """Ask as for the spans of a delivery, whose parent counts as sampled."""
        from opentelemetry.sdk.trace.sampling import Decision

        above = set_span_in_context(NonRecordingSpan(span.parent or span.context))
        asked = self.provider.sampler.should_sample(above, span.context.trace_id, span.name)
        return asked.decision is Decision.RECORD_AND_SAMPLE

    def _readable(self, span: TraceRecord) -> "ReadableSpan":
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        return ReadableSpan(
            span.name,
            context=span.context,
            parent=span.parent,
            resource=self._resource,
            attributes=span.attributes,
            status=Status(StatusCode.UNSET) if span.error is None else Status(StatusCode.ERROR, span.error),
            start_time=_nanoseconds(span.started),
            end_time=_nanoseconds(span.ended),
            instrumentation_scope=InstrumentationScope(_NAME, __version__),
        )


@contextmanager
def exported(environ: Mapping[str, str]) -> Iterator[None]:
    """Export the traces of a process, if the operator wants that; a warning says why it cannot be."""
    if (export := _export_for(environ)) is None:
        yield
        return
    set_tracer_provider(export.provider)
    try:
        with recording(export.record):
            yield
    finally:
        export.close()


def _export_for(environ: Mapping[str, str]) -> Export | None:
    """Return what exports, if an endpoint is set, and no SDK is active by `opentelemetry-instrument`."""
    endpoint = next((environ[name] for name in _ENDPOINTS if environ.get(name)), None)
    off = environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or environ.get("OTEL_TRACES_EXPORTER") == "none"
    if endpoint is None or off or type(get_tracer_provider()).__module__.startswith("opentelemetry.sdk"):
        return None
    protocol = next((environ[name] for name in _PROTOCOLS if environ.get(name)), _PROTOCOL)
    if protocol != _PROTOCOL:
        advice = f"IMQ sends traces by {_PROTOCOL}: set {_PROTOCOLS[1]} to it, and the port of it, usually 4318"
        _log.warning("traces_not_exported", advice=advice)
        return None
    # The SDK reads the process's own environment, and IMQ also a file `.env`.
    os.environ.update({name: value for name, value in environ.items() if name.startswith("OTEL_")})
    try:
        export = Export(environ)
    except ImportError:
        advice = "install IMQ with its extra `otlp`, in a clone by requirements-otlp.txt; or unset the endpoint"
        _log.warning("traces_not_exported", advice=advice)
        return None
    except (ValueError, OSError) as error:
        _log.warning("traces_not_exported", advice=f"correct the variables OTEL_...: {error}")
        return None
    _log.info("traces_exported", endpoint=endpoint.partition("?")[0].rpartition("@")[2])
    return export


def _reported(exporter: "SpanExporter") -> "SpanExporter":
    """Return the exporter, whose failures are one warning a minute: the SDK's own lines are errors, and many."""
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL + 1)
    throttle = LogThrottle(SystemClock())

    class _Reported(SpanExporter):
        def export(self, spans: "Sequence[ReadableSpan]") -> SpanExportResult:
            result = exporter.export(spans)
            if result is not SpanExportResult.SUCCESS and (repeats := throttle.count("failed")) is not None:
                advice = "check the endpoint in OTEL_EXPORTER_OTLP_ENDPOINT; IMQ continues without its traces"
                _log.warning("traces_lost", spans=len(spans), repeats=repeats, advice=advice)
            return result

        def shutdown(self) -> None:
            exporter.shutdown()

    return _Reported()


def _nanoseconds(at: datetime) -> int:
    elapsed = at - _EPOCH
    return ((elapsed.days * 86400 + elapsed.seconds) * 1_000_000 + elapsed.microseconds) * 1000
