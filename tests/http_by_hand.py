"""Handwritten HTTP and tensor protocol: requests that client libraries send, and those that they do not."""

from __future__ import annotations

import http.client
import io
import json
import re
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from typing_extensions import Self

from waiting import PATIENCE

DTYPES = {
    "BOOL": np.bool_,
    "INT32": np.int32,
    "INT64": np.int64,
    "FP16": np.float16,
    "FP32": np.float32,
    "FP64": np.float64,
    "UINT8": np.uint8,
}
NAMES = {np.dtype(dtype): name for name, dtype in DTYPES.items()}


@dataclass(frozen=True)
class HttpResponse:
    """An HTTP response."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """The JSON part of the body, without binary tensors."""
        length = self.headers.get("inference-header-content-length")
        return json.loads(self.body[: int(length)] if length else self.body)

    def error(self) -> str:
        """The error message of a refusal, whose body must be exactly the protocol's error object."""
        (message,) = self.json().values()
        assert list(self.json()) == ["error"]
        return str(message)

    def array(self, name: str) -> np.ndarray[Any, Any]:
        """A binary output."""
        offset = int(self.headers["inference-header-content-length"])
        for output in self.json()["outputs"]:
            size = output["parameters"]["binary_data_size"]
            if output["name"] == name:
                return np.frombuffer(self.body[offset : offset + size], DTYPES[output["datatype"]]).reshape(
                    output["shape"]
                )
            offset += size
        raise KeyError(name)


def connect(url: str, tls: ssl.SSLContext | None = None) -> socket.socket:
    """A socket to a server, from its printed URL; with `tls` for https."""
    if url.startswith("unix:"):
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(PATIENCE)
        sock.connect(url.removeprefix("unix:"))
        return sock
    host, port = url.rpartition("://")[2].rsplit(":", 1)
    sock = socket.create_connection((host, int(port)), timeout=PATIENCE)
    return sock if tls is None else tls.wrap_socket(sock, server_hostname=host)


class Connection(http.client.HTTPConnection):
    """A kept-alive connection to a TCP or Unix socket."""

    def __init__(self, url: str, tls: ssl.SSLContext | None = None) -> None:
        super().__init__("localhost", timeout=PATIENCE)
        self._url, self._tls = url, tls

    def connect(self) -> None:
        self.sock = connect(self._url, self._tls)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send_request(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None, **options: Any
    ) -> HttpResponse:
        """Sends a request and reads its response."""
        self.request(method, path, body, dict(headers or {}), **options)
        return to_response(self.getresponse())


def to_response(response: http.client.HTTPResponse) -> HttpResponse:
    return HttpResponse(
        response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
    )


class _Reader(io.BufferedReader):
    """A socket reader shared by several responses, which must not close it."""

    def close(self) -> None: ...


def read_responses(sock: socket.socket, count: int) -> list[HttpResponse]:
    """Reads the responses to requests written to a socket by hand."""
    reader = _Reader(socket.SocketIO(sock, "r"))  # type: ignore[arg-type]
    responses = []
    for _ in range(count):
        response = http.client.HTTPResponse(sock)
        response.fp.close()
        response.fp = reader
        response.begin()
        responses.append(to_response(response))
    return responses


def read_response(sock: socket.socket) -> HttpResponse:
    """Reads the response to one request written to a socket by hand."""
    return read_responses(sock, 1)[0]


def is_closed(sock: socket.socket) -> bool:
    """True if the server closes the connection within PATIENCE without another byte."""
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True


def get(url: str, path: str) -> HttpResponse:
    with Connection(url) as connection:
        return connection.send_request("GET", path)


def is_draining(url: str) -> bool:
    """True if a readiness request returns 503 at once, because a draining server may also close or delay it."""
    try:
        with Connection(url) as connection:
            connection.connect()
            connection.sock.settimeout(0.2)
            return connection.send_request("GET", "/v2/health/ready").status == 503
    except OSError:
        return False


def post(url: str, path: str, body: bytes, headers: Mapping[str, str] | None = None) -> HttpResponse:
    with Connection(url) as connection:
        return connection.send_request("POST", path, body, headers)


def json_body(inputs: Mapping[str, np.ndarray[Any, Any]], **members: Any) -> bytes:
    """The JSON of an inference with these arrays."""
    described = [
        {"name": name, "shape": list(array.shape), "datatype": NAMES[array.dtype], "data": array.ravel().tolist()}
        for name, array in inputs.items()
    ]
    return json.dumps({"inputs": described, **members}).encode()


def binary_body(inputs: Mapping[str, np.ndarray[Any, Any]], **members: Any) -> tuple[bytes, dict[str, str]]:
    """The body of an inference with binary inputs and outputs, and its headers."""
    described = [
        {
            "name": name,
            "shape": list(array.shape),
            "datatype": NAMES[array.dtype],
            "parameters": {"binary_data_size": array.nbytes},
        }
        for name, array in inputs.items()
    ]
    head = json.dumps({"inputs": described, "parameters": {"binary_data_output": True}, **members}).encode()
    tail = b"".join(array.tobytes() for array in inputs.values())
    return head + tail, {"Inference-Header-Content-Length": str(len(head))}


def infer(url: str, model: str, inputs: Mapping[str, np.ndarray[Any, Any]], **members: Any) -> HttpResponse:
    """One binary inference over a new connection."""
    body, headers = binary_body(inputs, **members)
    return post(url, f"/v2/models/{model}/infer", body, headers)


def openmetrics(url: str) -> str:
    """The text of /metrics in OpenMetrics, with exemplars."""
    with Connection(url) as connection:
        response = connection.send_request("GET", "/metrics", headers={"accept": "application/openmetrics-text"})
    assert response.status == 200
    assert response.headers["content-type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    return response.body.decode()


def metric(exposition: str, series: str, /, **labels: str) -> float:
    """The sum of the series in the text of /metrics with all of these labels; 0 without one."""
    total = 0.0
    for line in exposition.splitlines():
        match = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line)
        if match and match[1] == series:
            series_labels = dict(re.findall(r'(\w+)="([^"]*)"', match[2] or ""))
            total += float(match[3]) if labels.items() <= series_labels.items() else 0.0
    return total


def metric_at(url: str, series: str, /, **labels: str) -> float:
    """The sum of a running server's series with all of these labels."""
    return metric(get(url, "/metrics").body.decode(), series, **labels)
