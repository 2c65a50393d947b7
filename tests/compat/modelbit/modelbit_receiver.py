"""A server that records posted requests and responds as configured."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Posted:
    """A recorded request."""

    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class Receiver:
    """Recorded requests, and the function that returns status and body by a request's number."""

    respond: Callable[[int, Posted], tuple[int, Any]]
    requests: list[Posted] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    most_at_once: int = 0
    at_once: int = 0
    url: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)


@contextmanager
def run_receiver(
    respond: Callable[[int, Posted], tuple[int, Any]] = lambda _, __: (200, {}),
) -> Iterator[Receiver]:
    """Runs a receiver on a free port."""
    receiver = Receiver(respond)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            request = Posted(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            with receiver.lock:
                receiver.requests.append(request)
                number = len(receiver.requests)
                receiver.at_once += 1
                receiver.most_at_once = max(receiver.most_at_once, receiver.at_once)
            try:
                status, result = receiver.respond(number, request)
            finally:
                with receiver.lock:
                    receiver.at_once -= 1
            text = json.dumps(result).encode()
            self.send_response(status)
            for name, value in {"Content-Length": str(len(text)), **receiver.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    receiver.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def echo_rows(_: int, request: Posted) -> tuple[int, Any]:
    """Responds to a batch with its rows' first arguments; delays the first batch."""
    time.sleep(0.05 if request.body["data"][0][0] == 0 else 0.0)
    return 200, {"data": [row[:2] for row in request.body["data"]]}
