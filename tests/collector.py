"""A collector of spans: an HTTP server that decodes OpenTelemetry messages."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from waiting import until


class Collector:
    """Received spans, and settings for the next responses."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.services: set[str] = set()
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.statuses: list[int] = []
        """Statuses that refuse the next requests."""
        self.held: threading.Event | None = None
        """An event that responses wait for."""
        self.url = ""

    def take(self, path: str, headers: dict[str, str], body: bytes) -> int:
        self.paths.append(path)
        self.headers.append(headers)
        if self.held is not None:
            self.held.wait(20)
        if self.statuses:
            return self.statuses.pop(0)
        message = ExportTraceServiceRequest.FromString(body)
        for resource in message.resource_spans:
            self.services |= {one.value.string_value for one in resource.resource.attributes}
            for scope in resource.scope_spans:
                assert scope.scope.name == "penstock"
                self.spans += scope.spans
        return 200

    def named(self, name: str, count: int = 1) -> list[Span]:
        """The spans of that name, once there are `count`, in order of start."""

        def matches() -> list[Span]:
            return [span for span in list(self.spans) if span.name == name]

        until(lambda: len(matches()) >= count, f"{count} spans {name!r} of {sorted(one.name for one in self.spans)}")
        assert len(matches()) == count
        return sorted(matches(), key=lambda span: span.start_time_unix_nano)

    def one(self, name: str) -> Span:
        """The only span of that name."""
        (span,) = self.named(name)
        return span


def attributes(span: Span) -> dict[str, Any]:
    """Attributes of a span."""
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes}


@contextmanager
def collecting(tls: ssl.SSLContext | None = None) -> Iterator[Collector]:
    """A collector that listens at its `url`."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            status = collector.take(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Logs nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    collector.url = f"http{'s' if tls else ''}://127.0.0.1:{server.server_port}"
    try:
        yield collector
    finally:
        if collector.held is not None:
            collector.held.set()
        server.shutdown()
        thread.join()
        server.server_close()
