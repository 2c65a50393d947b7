"""Calls that the run draws from, each with the error statuses that it may get. One in ten is faulty on purpose."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable

import grpc
import numpy as np

from http_by_hand import binary_body, connect, read_response
from penstock import PenstockError

from .clients import ProtocolClient, check
from .tally import RefusedError, WrongError

NONE: frozenset[int] = frozenset()
KILLED = frozenset({500, 503})
"""Statuses of a request whose process was killed, or that arrived while no process was ready."""
PROTOCOLS = ("json", "binary", "grpc", "native")


def plain(client: ProtocolClient) -> None:
    protocol = client.random.choice(PROTOCOLS)
    x = client.row(client.width(20_000 if protocol == "json" else 1 << 20))
    check("plain", client.infer(protocol, "plain", x), x * 2 + 1)


def batched(client: ProtocolClient) -> None:
    x = np.stack([client.row(8) for _ in range(client.random.randint(1, 4))])
    actual = client.infer(client.random.choice(PROTOCOLS), "batched", x)
    check("batched", actual, x * 3 + x.sum(axis=1, keepdims=True))


def pool(client: ProtocolClient) -> None:
    """The right response, or an error that its process was killed, cannot start or is not ready."""
    x = np.stack([client.row(8)])
    try:
        actual = client.infer(client.random.choice(PROTOCOLS), "pool", x)
    except (RefusedError, grpc.RpcError, PenstockError) as error:
        expected = ("its process was killed by SIGKILL", "its process cannot be started again", "is not ready")
        if not any(cause in str(error) for cause in expected):
            raise WrongError(str(error)) from error
        raise
    check("pool", actual, x * 5 - 3)


def sleeping(client: ProtocolClient) -> None:
    x = client.row(client.width(2000))
    check("sleeping", client.infer(client.random.choice(PROTOCOLS), "sleeping", x), x + 7)


def event_stream(client: ProtocolClient) -> None:
    start, count = client.tally.number(), client.random.randint(0, 12)
    if (actual := client.chunks(start, count)) != list(range(start, start + count)):
        raise WrongError(f"chunks {actual[:20]} for {count} from {start}")


def native_stream(client: ProtocolClient) -> None:
    start, count = client.tally.number(), client.random.randint(0, 12)
    actual = [chunk.i.item() for chunk in client.native.stream("counts", n=np.array([start, count]))]
    if actual != list(range(start, start + count)):
        raise WrongError(f"chunks {actual} for {count} from {start}")


def stream_infer(client: ProtocolClient) -> None:
    rows = [np.stack([client.row(8)]) for _ in range(client.random.randint(1, 8))]
    for x, actual in zip(rows, client.many("batched", rows).values(), strict=True):
        check("stream_infer", actual, x * 3 + x.sum(axis=1, keepdims=True))


def sequence(client: ProtocolClient) -> None:
    protocol, number = client.random.choice(PROTOCOLS[:3]), client.tally.number()
    steps, total = client.random.randint(1, 6), 0.0
    for step in range(steps):
        marks = {"sequence_id": number, "sequence_start": step == 0, "sequence_end": step == steps - 1}
        total += number % 1000 + step
        actual = client.infer(protocol, "sums", np.full((1, 1), number % 1000 + step, np.float32), **marks)
        check("sequence", actual, np.full((1, 1), total, np.float32))


def reads_slowly(client: ProtocolClient) -> None:
    """A client that takes its time over an answer of megabytes gets all of it."""
    x = client.row(500_000)
    with connect(client.access.http, client.access.tls) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        sock.sendall(_request(x))
        time.sleep(client.random.uniform(0.05, 0.3))
        response = read_response(sock)
    check("reads_slowly", response.array("y"), x * 2 + 1)


def short_deadline(client: ProtocolClient) -> None:
    x = client.row(100)
    check("short_deadline", client.infer(client.random.choice(PROTOCOLS[:3]), "sleeping", x, timeout=2000), x + 7)


def handler_error(client: ProtocolClient) -> None:
    """A handler error reaches the request that caused it."""
    try:
        client.infer(client.random.choice(PROTOCOLS[:3]), "plain", np.full(3, -1, np.float32))
    except RefusedError as error:
        if str(error) != "500: model 'plain' failed: RuntimeError":
            raise WrongError(str(error)) from error
        raise
    raise WrongError("a handler that raises returned a response")


def stream_error(client: ProtocolClient) -> None:
    start = client.tally.number()
    if (actual := client.chunks(start, -5)) != [start, start + 1, -1]:
        raise WrongError(f"chunks {actual} of a stream that fails after two from {start}")


def bad_body(client: ProtocolClient) -> None:
    bodies = (b"", b"{", b"[]", b'{"inputs":[]}', b'{"inputs":[{"name":"x","shape":[9],"datatype":"FP32","data":[1]}]}')
    client.post("/v2/models/plain/infer", client.random.choice(bodies))
    raise WrongError("a malformed body was accepted")


def disconnects_while_sending(client: ProtocolClient) -> None:
    """Disconnects at a random point of the request."""
    request = _request(client.row(client.width()))
    sock = connect(client.access.http, client.access.tls)
    sock.sendall(request[: int(len(request) * client.random.choice((0.001, 0.1, 0.5, 0.99, 1)))])
    if client.random.random() < 0.5:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def closes_stream_early(client: ProtocolClient) -> None:
    with client.native.stream("counts", n=np.array([1, 10_000])) as stream:
        if next(stream).i.item() != 1:
            raise WrongError("wrong first chunk")


def cancels_call(client: ProtocolClient) -> None:
    call = client.stub.ModelInfer.future(client.message("sleeping", "cancelled", client.row(10), {}))
    time.sleep(client.random.uniform(0, 0.005))
    call.cancel()


def _request(x: np.ndarray[tuple[int], np.dtype[np.float32]]) -> bytes:
    body, headers = binary_body({"x": x})
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    head = f"POST /v2/models/plain/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n{lines}\r\n"
    return head.encode() + body


VALID: list[tuple[Callable[[ProtocolClient], None], frozenset[int]]] = [
    (plain, NONE),
    (batched, NONE),
    (sleeping, NONE),
    (pool, KILLED),
    (event_stream, NONE),
    (native_stream, NONE),
    (stream_infer, NONE),
    (sequence, NONE),
]
FAULTY: list[tuple[Callable[[ProtocolClient], None], frozenset[int]]] = [
    (reads_slowly, NONE),
    (short_deadline, frozenset({504})),
    (handler_error, frozenset({500})),
    (stream_error, NONE),
    (bad_body, frozenset({400})),
    (disconnects_while_sending, NONE),
    (closes_stream_early, NONE),
    (cancels_call, NONE),
]
"""One call in ten is drawn from these."""
