"""Test predictors: they record requests and return the test's responses."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc
from tritonclient.grpc import service_pb2, service_pb2_grpc


@dataclass
class ReceivedRequest:
    """A received request."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body."""
        return json.loads(self.body)


@dataclass
class Predictor:
    """A test predictor and its address."""

    host: str = ""
    requests: list[Any] = field(default_factory=list)


Responder = Callable[[ReceivedRequest], "tuple[int, dict[str, str], bytes]"]


def respond_with(value: Any, status: int = 200, **headers: str) -> Responder:
    """Returns a constant JSON response."""
    all_headers = {
        "content-type": "application/json",
        **{name.replace("_", "-"): text for name, text in headers.items()},
    }
    return lambda _: (status, all_headers, json.dumps(value).encode())


@contextmanager
def predictor(respond: Responder) -> Iterator[Predictor]:
    """Starts an HTTP predictor."""
    fake = Predictor()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            request = ReceivedRequest(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            fake.requests.append(request)
            status, headers, content = respond(request)
            self.send_response(status)
            for name, value in {**headers, "content-length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    fake.host = f"127.0.0.1:{server.server_address[1]}"
    try:
        yield fake
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def grpc_predictor(respond: Callable[[Any, Any], Any]) -> Iterator[Predictor]:
    """Starts a gRPC predictor; `respond` takes the message and the call's context."""
    fake = Predictor()

    class Servicer(service_pb2_grpc.GRPCInferenceServiceServicer):  # type: ignore[misc]
        def ModelInfer(self, request: Any, context: Any) -> Any:
            fake.requests.append((request, dict(context.invocation_metadata())))
            return respond(request, context)

    server = grpc.server(ThreadPoolExecutor(4))
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(Servicer(), server)
    fake.host = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield fake
    finally:
        server.stop(None)


def echo_message(request: Any, context: Any = None) -> Any:
    """Returns the inputs of a message as outputs."""
    response = service_pb2.ModelInferResponse(model_name=request.model_name, id=request.id)
    for one in request.inputs:
        output = response.outputs.add(name=one.name, datatype=one.datatype, shape=one.shape)
        output.contents.CopyFrom(one.contents) if one.HasField("contents") else None
    response.raw_output_contents.extend(request.raw_input_contents)
    return response
