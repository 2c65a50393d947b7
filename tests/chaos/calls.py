"""The calls that the run draws from: what each asks, and what it may be told. One in ten goes wrong on purpose."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable

import grpc
import numpy as np

from http_by_hand import binary_body, connect, read_response
from penstock import PenstockError

from .callers import Caller, check
from .tally import RefusedError, WrongError

NONE: frozenset[int] = frozenset()
KILLED = frozenset({500, 503})
"""What a request may be told whose process was killed, or that came while none was up."""
PROTOCOLS = ("json", "binary", "grpc", "native")


def plain(caller: Caller) -> None:
    protocol = caller.random.choice(PROTOCOLS)
    x = caller.row(caller.width(20_000 if protocol == "json" else 1 << 20))
    check("plain", caller.infer(protocol, "plain", x), x * 2 + 1)


def batched(caller: Caller) -> None:
    x = np.stack([caller.row(8) for _ in range(caller.random.randint(1, 4))])
    got = caller.infer(caller.random.choice(PROTOCOLS), "batched", x)
    check("batched", got, x * 3 + x.sum(axis=1, keepdims=True))


def own(caller: Caller) -> None:
    """The answer, or the one word that says that its process was killed, also while it started, or that none is up."""
    x = np.stack([caller.row(8)])
    try:
        got = caller.infer(caller.random.choice(PROTOCOLS), "own", x)
    except (RefusedError, grpc.RpcError, PenstockError) as error:
        causes = ("its process was killed by SIGKILL", "its process cannot be started again", "is not ready")
        if not any(cause in str(error) for cause in causes):
            raise WrongError(str(error)) from error
        raise
    check("own", got, x * 5 - 3)


def waits(caller: Caller) -> None:
    x = caller.row(caller.width(2000))
    check("waits", caller.infer(caller.random.choice(PROTOCOLS), "waits", x), x + 7)


def events(caller: Caller) -> None:
    start, count = caller.tally.number(), caller.random.randint(0, 12)
    if (got := caller.pieces(start, count)) != list(range(start, start + count)):
        raise WrongError(f"pieces {got[:20]} for {count} from {start}")


def native_stream(caller: Caller) -> None:
    start, count = caller.tally.number(), caller.random.randint(0, 12)
    got = [piece.i.item() for piece in caller.client.stream("counts", n=np.array([start, count]))]
    if got != list(range(start, start + count)):
        raise WrongError(f"pieces {got} for {count} from {start}")


def stream_infer(caller: Caller) -> None:
    rows = [np.stack([caller.row(8)]) for _ in range(caller.random.randint(1, 8))]
    for x, got in zip(rows, caller.many("batched", rows).values(), strict=True):
        check("stream_infer", got, x * 3 + x.sum(axis=1, keepdims=True))


def sequence(caller: Caller) -> None:
    protocol, number = caller.random.choice(PROTOCOLS[:3]), caller.tally.number()
    steps, total = caller.random.randint(1, 6), 0.0
    for step in range(steps):
        marks = {"sequence_id": number, "sequence_start": step == 0, "sequence_end": step == steps - 1}
        total += number % 1000 + step
        got = caller.infer(protocol, "sums", np.full((1, 1), number % 1000 + step, np.float32), **marks)
        check("sequence", got, np.full((1, 1), total, np.float32))


def reads_slowly(caller: Caller) -> None:
    """A client that takes its time over an answer of megabytes gets all of it."""
    x = caller.row(500_000)
    with connect(caller.http) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        sock.sendall(_request(x))
        time.sleep(caller.random.uniform(0.05, 0.3))
        answer = read_response(sock)
    check("reads_slowly", answer.array("y"), x * 2 + 1)


def short_deadline(caller: Caller) -> None:
    x = caller.row(100)
    check("short_deadline", caller.infer(caller.random.choice(PROTOCOLS[:3]), "waits", x, timeout=2000), x + 7)


def raises(caller: Caller) -> None:
    """The error of its own request, and nobody else's."""
    try:
        caller.infer(caller.random.choice(PROTOCOLS[:3]), "plain", np.full(3, -1, np.float32))
    except RefusedError as error:
        if str(error) != "500: model 'plain' failed: RuntimeError":
            raise WrongError(str(error)) from error
        raise
    raise WrongError("a handler that raises answered")


def raises_midway(caller: Caller) -> None:
    start = caller.tally.number()
    if (got := caller.pieces(start, -5)) != [start, start + 1, -1]:
        raise WrongError(f"pieces {got} of a stream that breaks after two from {start}")


def bad_body(caller: Caller) -> None:
    bodies = (b"", b"{", b"[]", b'{"inputs":[]}', b'{"inputs":[{"name":"x","shape":[9],"datatype":"FP32","data":[1]}]}')
    caller.post("/v2/models/plain/infer", caller.random.choice(bodies))
    raise WrongError("a bad body was answered")


def resets(caller: Caller) -> None:
    """Leaves somewhere on the way; nobody waits for an answer."""
    request = _request(caller.row(caller.width()))
    sock = connect(caller.http)
    sock.sendall(request[: int(len(request) * caller.random.choice((0.001, 0.1, 0.5, 0.99, 1)))])
    if caller.random.random() < 0.5:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def leaves_a_stream(caller: Caller) -> None:
    with caller.client.stream("counts", n=np.array([1, 10_000])) as stream:
        if next(stream).i.item() != 1:
            raise WrongError("the first piece")


def cancels(caller: Caller) -> None:
    call = caller.stub.ModelInfer.future(caller.message("waits", "cancelled", caller.row(10), {}))
    time.sleep(caller.random.uniform(0, 0.005))
    call.cancel()


def _request(x: np.ndarray[tuple[int], np.dtype[np.float32]]) -> bytes:
    body, headers = binary_body({"x": x})
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    head = f"POST /v2/models/plain/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n{lines}\r\n"
    return head.encode() + body


GOOD: list[tuple[Callable[[Caller], None], frozenset[int]]] = [
    (plain, NONE),
    (batched, NONE),
    (waits, NONE),
    (own, KILLED),
    (events, NONE),
    (native_stream, NONE),
    (stream_infer, NONE),
    (sequence, NONE),
]
FAULTY: list[tuple[Callable[[Caller], None], frozenset[int]]] = [
    (reads_slowly, NONE),
    (short_deadline, frozenset({504})),
    (raises, frozenset({500})),
    (raises_midway, NONE),
    (bad_body, frozenset({400})),
    (resets, NONE),
    (leaves_a_stream, NONE),
    (cancels, NONE),
]
"""One in ten."""
