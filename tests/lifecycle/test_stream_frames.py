"""Frames of streams: responses that are ready together leave together, and `flush_interval` collects them."""

from __future__ import annotations

import gzip
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from tritonclient.grpc import service_pb2

import http2_by_hand as http2
from http_by_hand import connect
from penstock import Server, Tensor, model
from waiting import PATIENCE, until

N = [Tensor("n", np.int32, [])]
HOUR = 3600.0
STREAM_INFER = {**http2.INFER, ":path": "/inference.GRPCInferenceService/ModelStreamInfer"}


class Counter:
    """A generator that waits until its first number is read, or each, and pauses between all others."""

    def __init__(self, pause: float = 0.0, *, each: bool = False) -> None:
        self.pause, self.each = pause, each
        self.read = threading.Event()
        self.yielded = 0

    def __call__(self, n: Any) -> Iterator[int]:
        for i in range(n):
            yield i
            self.yielded = i + 1
            if i == 0 or self.each:
                assert self.read.wait(PATIENCE)
            if self.each:
                self.read.clear()
            time.sleep(self.pause)


@contextmanager
def counting(counter: Counter, **options: Any) -> Iterator[socket.socket]:
    @model(name="count", inputs=N, outputs=[Tensor("i", np.int32, [])], streams=True)
    def count(n: Any) -> Iterator[int]:
        return counter(n)

    with Server(count, http="127.0.0.1:0", grpc="same", **options) as server, connect(server.http_url) as sock:
        yield sock


def chunks(sock: socket.socket, counter: Counter, n: int) -> list[list[int]]:
    """Numbers of each chunk of an HTTP/1.1 response, whose frames are its chunks."""
    body = json.dumps({"n": n}).encode()
    path = "/v2/models/count/generate_stream"
    sock.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    found = []
    with sock.makefile("rb") as file:
        while file.readline().strip():
            pass
        while size := int(file.readline(), 16):
            events = file.read(size + 2).decode().strip().split("\n\n")
            found.append([json.loads(event.removeprefix("data: "))["i"] for event in events])
            counter.read.set()
    return found


def messages(payload: bytes) -> list[int]:
    """Numbers of the messages of one DATA frame."""
    found = []
    while payload:
        end = 5 + int.from_bytes(payload[1:5], "big")
        response = service_pb2.ModelStreamInferResponse.FromString(payload[5:end])
        found.append(int.from_bytes(response.infer_response.raw_output_contents[0], "little"))
        payload = payload[end:]
    return found


def call(n: int) -> bytes:
    """A call with one request, on stream 1."""
    request = service_pb2.ModelInferRequest(model_name="count")
    request.inputs.add(name="n", datatype="INT32", shape=[])
    request.raw_input_contents.append(n.to_bytes(4, "little"))
    message = request.SerializeToString()
    prefixed = b"\0" + len(message).to_bytes(4, "big") + message
    head = http2.frame(http2.HEADERS, 1, http2.block(STREAM_INFER), http2.END_HEADERS)
    return head + http2.frame(http2.DATA, 1, prefixed, http2.END_STREAM)


def test_events_of_an_interval_leave_together_after_the_first() -> None:
    counter = Counter(pause=0.02)
    with counting(counter, flush_interval=HOUR) as sock:
        assert chunks(sock, counter, 5) == [[0], [1, 2, 3, 4]]


def test_events_leave_after_the_interval() -> None:
    counter = Counter(each=True)
    with counting(counter, flush_interval=0.02) as sock:
        assert chunks(sock, counter, 4) == [[0], [1], [2], [3]]


def test_interval_does_not_pause_a_fast_generator() -> None:
    counter = Counter()
    with counting(counter, flush_interval=HOUR) as sock:
        found = chunks(sock, counter, 5000)
    assert [number for chunk in found for number in chunk] == list(range(5000))
    # Full frames do not wait, and hold more than a channel.
    assert len(found) < 5000 / 64


def test_grpc_messages_of_an_interval_leave_together_after_the_first() -> None:
    counter = Counter(pause=0.02)
    with counting(counter, flush_interval=HOUR) as sock:
        sock.sendall(http2.opening() + call(5))
        found = []
        for frame in http2.until_end(http2.frames(sock), 1):
            if frame.kind == http2.DATA:
                found.append(messages(frame.payload))
                counter.read.set()
    assert found == [[0], [1, 2, 3, 4]]


def test_grpc_messages_that_are_ready_together_leave_in_one_frame() -> None:
    counter = Counter()
    counter.read.set()
    with counting(counter) as sock:
        sock.sendall(http2.opening(http2.NO_WINDOW) + call(40))
        until(lambda: counter.yielded == 40, "all numbers wait for the client")
        sock.sendall(http2.frame(http2.WINDOW_UPDATE, 1, (1 << 20).to_bytes(4, "big")))
        frames = [frame for frame in http2.until_end(http2.frames(sock), 1) if frame.kind == http2.DATA]
    found = [messages(frame.payload) for frame in frames if frame.payload]
    assert [number for frame in found for number in frame] == list(range(40))
    # The one that waited for the window, and all others.
    assert len(found) <= 2


def test_compressed_grpc_messages_are_framed_one_by_one() -> None:
    counter = Counter()
    counter.read.set()
    with counting(counter, grpc_compression="gzip") as sock:
        fields = http2.block({**STREAM_INFER, "grpc-accept-encoding": "gzip"})
        head = http2.frame(http2.HEADERS, 1, fields, http2.END_HEADERS)
        plain = http2.frame(http2.HEADERS, 1, http2.block(STREAM_INFER), http2.END_HEADERS)
        sock.sendall(http2.opening() + head + call(3).removeprefix(plain))
        body = http2.text(http2.until_end(http2.frames(sock), 1))
    found = []
    while body:
        end = 5 + int.from_bytes(body[1:5], "big")
        assert body[0] == 1
        message = gzip.decompress(body[5:end])
        found += messages(b"\0" + len(message).to_bytes(4, "big") + message)
        body = body[end:]
    assert found == [0, 1, 2]
