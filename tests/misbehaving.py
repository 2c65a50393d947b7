"""A server with scripted responses, which records its requests."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any

from typing_extensions import Self

RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
OUTPUT = b'{"model_name":"m","outputs":[{"name":"y","datatype":"INT32","shape":[1],"data":[7]}]}'
GOOD = RESPONSE % (len(OUTPUT), OUTPUT)


def refusal(status: int, *headers: bytes) -> bytes:
    """A refusal with the protocol's error object."""
    body = b'{"error":"no"}'
    lines = b"".join(header + b"\r\n" for header in headers)
    return b"HTTP/1.1 %d No\r\nContent-Length: %d\r\n%s\r\n%s" % (status, len(body), lines, body)


class Misbehaving:
    """Listens, and answers each request by `respond(number)`.

    `respond` returns bytes to send, or None to close the connection.
    """

    def __init__(self, respond: Callable[[int], bytes | None]) -> None:
        self._respond = respond
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.requests = 0
        self.received: list[bytes] = []
        self.connections = 0
        self.hung_up = threading.Semaphore(0)
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=[connection], daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream:
            while request := read_request(stream):
                with self._lock:
                    self.received.append(request)
                    number = self.requests
                    self.requests += 1
                response = self._respond(number)
                if response is None:
                    return
                try:
                    connection.sendall(response)
                except OSError:
                    break
        self.hung_up.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # A thread in accept() is not woken by a close alone.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def read_request(stream: Any) -> bytes:
    """Reads one request; empty at the end of the stream."""
    length, first, read = 0, True, b""
    while True:
        try:
            line = stream.readline()
        except OSError:
            return b""
        if not line:
            return b""
        read += line
        if line == b"\r\n" and not first:
            break
        first = False
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    body = stream.read(length)
    return read + body if len(body) == length else b""
