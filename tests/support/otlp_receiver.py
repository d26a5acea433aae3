"""A receiver of OTLP traces over HTTP, as a collector is one: it parses what it gets, or hangs, or refuses."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class OtlpReceiver:
    """What a receiver got, and how it answers. A request waits while `hangs` is set."""

    def __init__(self) -> None:
        self.requests: list[ExportTraceServiceRequest] = []
        self.bodies: list[bytes] = []
        self.reached, self.released = threading.Event(), threading.Event()
        self.released.set()
        self.status = 200
        self.url = ""

    def spans(self, trace_id: int | None = None) -> list[Span]:
        """The spans in the order of their arrival, of one trace or of all."""
        found = [
            span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]
        return [span for span in found if trace_id is None or int.from_bytes(span.trace_id, "big") == trace_id]

    def resource(self) -> dict[str, str]:
        """What the first request says of its sender."""
        attributes = self.requests[0].resource_spans[0].resource.attributes
        return {each.key: each.value.string_value for each in attributes}


@contextmanager
def otlp_receiver() -> Iterator[OtlpReceiver]:
    """Serve on a port of this machine."""
    receiver = OtlpReceiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.reached.set()
            receiver.released.wait()
            if receiver.status == 200:
                assert (self.path, self.headers["Content-Type"]) == ("/v1/traces", "application/x-protobuf")
                receiver.bodies.append(body)
                receiver.requests.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(receiver.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Write nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        receiver.url = f"http://127.0.0.1:{server.server_address[1]}"
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        try:
            yield receiver
        finally:
            receiver.released.set()
            server.shutdown()
            serving.join()
