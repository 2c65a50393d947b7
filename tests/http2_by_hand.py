"""Handwritten HTTP/2 frames, which client libraries would not send."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator
from typing import NamedTuple

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS = 1, 1, 4

INFER = {
    ":method": "POST",
    ":scheme": "http",
    ":path": "/inference.GRPCInferenceService/ModelInfer",
    ":authority": "localhost",
    "content-type": "application/grpc",
    "te": "trailers",
}


def frame(kind: int, stream: int, payload: bytes = b"", flags: int = 0) -> bytes:
    """One frame."""
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def opening(settings: bytes = b"") -> bytes:
    """The start of a client's connection."""
    return PREFACE + frame(SETTINGS, 0, settings)


NO_WINDOW = b"\0\x04\0\0\0\0"
"""The client setting that prevents all response bodies."""


class Frame(NamedTuple):
    """A frame that was read."""

    kind: int
    flags: int
    stream: int
    payload: bytes


def frames(sock: socket.socket) -> Iterator[Frame]:
    """Frames from the server, until it closes."""
    buffer = b""
    while True:
        try:
            data = sock.recv(1 << 16)
        except ConnectionResetError:
            return
        if not data:
            return
        buffer += data
        while len(buffer) >= 9 and len(buffer) >= 9 + (size := int.from_bytes(buffer[:3], "big")):
            yield Frame(buffer[3], buffer[4], int.from_bytes(buffer[5:9], "big"), buffer[9 : 9 + size])
            buffer = buffer[9 + size :]


def until_end(frames: Iterator[Frame], stream: int) -> Iterator[Frame]:
    """Frames of a connection until the response on a stream ends."""
    for one in frames:
        yield one
        if one.stream == stream and (
            one.kind == RST_STREAM or (one.kind in (DATA, HEADERS) and one.flags & END_STREAM)
        ):
            return


def text(frames: Iterable[Frame], stream: int = 1) -> bytes:
    """The response body of a stream, from frames."""
    return b"".join(one.payload for one in frames if one.kind == DATA and one.stream == stream)


def block(fields: dict[str, str]) -> bytes:
    """Header fields as plain literals; names and values of up to 126 bytes."""
    return b"".join(
        b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
        for name, value in fields.items()
    )


def post_headers(stream: int, path: str) -> bytes:
    """The beginning of a REST request with a body."""
    fields = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "localhost"}
    return frame(HEADERS, stream, block(fields), END_HEADERS)


def infer_headers(stream: int, flags: int = END_HEADERS) -> bytes:
    """The beginning of a ModelInfer call."""
    return frame(HEADERS, stream, block(INFER), flags)
