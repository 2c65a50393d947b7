"""gRPC calls with handwritten bytes: compressed, framed or broken unlike those of any client."""

from __future__ import annotations

import time
from collections.abc import Mapping

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, ResponseReceived, StreamEnded, StreamReset, TrailersReceived

from http_by_hand import connect


def call(target: str, path: str, body: bytes, headers: Mapping[str, str] | None = None) -> str:
    """Sends a prepared gRPC call and returns its status; empty without a response in time."""
    connection = H2Connection(H2Configuration(header_encoding="utf-8"))
    connection.initiate_connection()
    with connect(target) as sock:
        head = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "localhost"}
        head |= {"content-type": "application/grpc", "te": "trailers", **(headers or {})}
        connection.send_headers(1, list(head.items()))
        sent, status, view = 0, "", memoryview(body)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            room = min(connection.local_flow_control_window(1), len(body) - sent)
            while room > 0:
                size = min(room, connection.max_outbound_frame_size)
                connection.send_data(1, bytes(view[sent : sent + size]))
                sent, room = sent + size, room - size
                if sent == len(body):
                    connection.end_stream(1)
                    deadline = time.monotonic() + 20
                sock.sendall(connection.data_to_send())
            sock.sendall(connection.data_to_send())
            sock.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                data = sock.recv(1 << 16)
            except TimeoutError:
                return status
            if not data:
                return status or "closed"
            for event in connection.receive_data(data):
                if isinstance(event, DataReceived):
                    connection.acknowledge_received_data(event.flow_controlled_length, 1)
                if isinstance(event, ResponseReceived | TrailersReceived):
                    status = dict(event.headers).get("grpc-status", status)
                if isinstance(event, StreamEnded | StreamReset):
                    return status
    return status
