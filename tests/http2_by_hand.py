"""HTTP/2 frames written by hand: what no client library would send."""

from __future__ import annotations

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


def opening() -> bytes:
    """What a client's connection begins with."""
    return b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0)


def block(fields: dict[str, str]) -> bytes:
    """Header fields as plain literals; names and values of up to 126 bytes."""
    return b"".join(
        b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
        for name, value in fields.items()
    )


def infer_headers(stream: int, flags: int = END_HEADERS) -> bytes:
    """The beginning of a ModelInfer call."""
    return frame(HEADERS, stream, block(INFER), flags)
