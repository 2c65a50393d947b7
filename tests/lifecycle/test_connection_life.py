"""The life of connections: their age, pings, and how many a client may have."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

import http2_by_hand as http2
from http_by_hand import connect, get, is_closed, json_body, metric_at, read_response
from penstock import Server, Tensor, model
from waiting import PATIENCE, until

BODY = json_body({"x": np.zeros(4, np.float32)})
PATH = "/v2/models/same/infer"
REQUEST = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(BODY)}\r\n\r\n".encode() + BODY
CALL = service_pb2.ModelInferRequest(
    model_name="same",
    inputs=[{"name": "x", "datatype": "FP32", "shape": [1], "contents": {"fp32_contents": [1.0]}}],
)


@model(inputs=[Tensor("x", np.float32, [-1])], outputs=[Tensor("y", np.float32, [-1])], instances=2)
def same(x: Any) -> Any:
    if len(x) == 2:
        time.sleep(float(x[0]))
    return x


@contextmanager
def serving(**options: Any) -> Iterator[str]:
    with Server(same, http="127.0.0.1:0", grpc="same", **options) as server:
        yield server.http_url


def test_client_has_a_limit_of_connections(capfd: pytest.CaptureFixture[str]) -> None:
    with serving(max_connections_per_address=2) as url:
        with connect(url) as one, connect(url) as two, connect(url) as three:
            one.sendall(REQUEST)
            assert read_response(one).status == 200
            assert is_closed(three)
            two.sendall(REQUEST)
            assert read_response(two).status == 200
        until(lambda: get(url, "/v2/health/live").status == 200, "a place to be free again")
        assert metric_at(url, "penstock_connections") == 1
    assert "a connection over the limit of its address was closed limit=2 address=127.0.0.1" in capfd.readouterr().err


def test_old_connection_of_http_1_ends_with_a_response() -> None:
    with serving(max_connection_age=0.5) as url, connect(url) as sock:
        until_closing = time.monotonic() + PATIENCE
        while time.monotonic() < until_closing:
            sock.sendall(REQUEST)
            response = read_response(sock)
            assert response.status == 200
            if response.headers.get("connection") == "close":
                break
            time.sleep(0.05)
        assert response.headers.get("connection") == "close"
        assert is_closed(sock)
        assert get(url, "/v2/health/live").status == 200


def test_old_connection_of_http_2_ends_after_its_requests() -> None:
    with serving(max_connection_age=0.5) as url, connect(url) as sock:
        sock.settimeout(PATIENCE)
        body = json_body({"x": np.array([3, 3], np.float32)})
        sock.sendall(http2.opening() + http2.post_headers(1, PATH) + http2.frame(http2.DATA, 1, body, http2.END_STREAM))
        kinds = []
        for one in http2.frames(sock):
            if one.kind == http2.PING and not one.flags & http2.ACK:
                sock.sendall(http2.frame(http2.PING, 0, one.payload, http2.ACK))
            kinds.append((one.kind, one.stream))
        assert kinds.index((http2.GOAWAY, 0)) < kinds.index((http2.HEADERS, 1)) < kinds.index((http2.DATA, 1))


def test_connection_closes_at_the_end_of_its_grace() -> None:
    with serving(max_connection_age=0.2, max_connection_age_grace=0.2) as url, connect(url) as sock:
        sock.settimeout(PATIENCE)
        body = json_body({"x": np.array([5, 5], np.float32)})
        sock.sendall(http2.opening() + http2.post_headers(1, PATH) + http2.frame(http2.DATA, 1, body, http2.END_STREAM))
        assert (http2.HEADERS, 1) not in [(one.kind, one.stream) for one in http2.frames(sock)]


def test_no_call_is_lost_when_connections_age() -> None:
    with serving(max_connection_age=0.3) as url, grpc.insecure_channel(url.removeprefix("http://")) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        end = time.monotonic() + 5
        calls = 0
        while time.monotonic() < end:
            assert stub.ModelInfer(CALL).raw_output_contents
            calls += 1
        assert calls > 50


@pytest.mark.parametrize("answers", [True, False])
def test_client_that_ignores_pings_is_closed(*, answers: bool) -> None:
    with serving(http2_keepalive=0.2, http2_keepalive_timeout=0.3) as url, connect(url) as sock:
        sock.sendall(http2.opening())
        pings = 0
        sock.settimeout(PATIENCE)
        for one in http2.frames(sock):
            if one.kind == http2.PING:
                pings += 1
                if answers:
                    sock.sendall(http2.frame(http2.PING, 0, one.payload, http2.ACK))
                if pings == 5:
                    break
        assert pings == (5 if answers else 1)


def test_pings_can_be_switched_off() -> None:
    with serving(http2_keepalive=0.0, http2_keepalive_timeout=0.1) as url, connect(url) as sock:
        sock.sendall(http2.opening())
        sock.settimeout(1.0)
        frames = http2.frames(sock)
        with suppress(TimeoutError):
            assert all(one.kind != http2.PING for one in frames)
