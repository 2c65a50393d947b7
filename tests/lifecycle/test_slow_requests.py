"""Slow requests: the parts of their durations, their lines, and `/debug/slow`."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import httpx
import numpy as np
import pytest
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc

from http_by_hand import binary_body, connect, get, infer, json_body, post, read_response
from penstock import Batching, Server, Tensor, model
from waiting import Gate, until

ONE = {"x": np.ones((1, 1), np.float32)}
BODY = json_body(ONE)
PORTS: Any = {"http": "127.0.0.1:0", "grpc": "127.0.0.1:0"}
PATH = "/v2/models/echo/infer"
LONG = 0.15
"""Seconds of the part that shall be the largest: far more than all others take."""


@model(
    name="echo", inputs=[Tensor("x", np.float32, [-1])], outputs=[Tensor("y", np.float32, [-1])], batching=Batching()
)
def echo(x: Any) -> Any:
    return x


@model(name="echo", inputs=[Tensor("x", np.float32, [1])], outputs=[Tensor("y", np.float32, [1])], batching=Batching())
def sleeper(x: Any) -> Any:
    time.sleep(LONG)
    return x


@model
def words(to: int) -> Iterator[int]:
    for word in range(to):
        time.sleep(LONG / to)
        yield word


def last(server: Server, count: int = 1) -> list[dict[str, Any]]:
    """The last slow requests, newest first, once there are so many."""
    report: Any = until(lambda: (found := get(server.http_url, "/debug/slow").json())["count"] >= count and found)
    for request in report["requests"]:
        assert sum(request["parts"].values()) == pytest.approx(request["duration_ms"], abs=1e-6)
        assert min(request["parts"].values()) >= 0
    return list(report["requests"])


def logged(capture: pytest.CaptureFixture[str], count: int) -> list[str]:
    """The lines of the log, once there are so many. A thread writes them."""
    text = ""

    def is_there() -> bool:
        nonlocal text
        text += capture.readouterr().err
        return len(shown()) >= count

    def shown() -> list[str]:
        return [line for line in text.splitlines() if "/debug/slow" not in line]

    until(is_there, f"{count} lines of the log")
    return shown()


def check(request: dict[str, Any], part: str, words: str) -> None:
    """Checks that a part has its time, and its words where no delay of the machine is larger."""
    assert request["parts"][part] >= 900 * LONG, request
    if max(request["parts"], key=request["parts"].__getitem__) == part:
        assert re.fullmatch(words, request["because"])


def test_handler(capfd: pytest.CaptureFixture[str]) -> None:
    with Server(sleeper, **PORTS, slow_request="50ms") as server:
        assert infer(server.http_url, "echo", ONE, id="slow-1").status == 200
        (request,) = last(server)
        schema = get(server.http_url, "/openapi.json").json()["components"]["schemas"]["SlowRequest"]
    check(request, "compute_ms", r"spent \d+ of \d+ ms in the handler, in a batch of 1 row")
    expected = {
        "id": "slow-1",
        "protocol": "http",
        "model": "echo",
        "version": "1",
        "route": "/v2/models/{model}/infer",
        "client": None,
        "address": "127.0.0.1",
        "outcome": "ok",
        "status": 200,
        "error": None,
        "batch_rows": 1,
        "instances": 1,
        "busy_instances": 0,
    }
    assert {name: request[name] for name in expected} == expected
    assert set(request) == set(schema["properties"]) == set(schema["required"])
    assert set(request["parts"]) == set(schema["properties"]["parts"]["required"])
    (line,) = logged(capfd, 1)
    parts = r"( (read|decode|queue|batch_wait|compute|encode|write|other)=\d+\.\d{3}ms)+"
    pattern = rf'\S+ slow http echo/1 200 ok (\d+\.\d+)ms{parts} batch=1 id=slow-1 because="{request["because"]}"'
    assert (match := re.fullmatch(pattern, line))
    named = re.findall(r" (?:read|decode|queue|batch_wait|compute|encode|write|other)=([\d.]+)ms", line)
    assert sum(map(float, named)) == pytest.approx(float(match[1]), abs=1e-6)


def test_wait_for_a_free_instance() -> None:
    gate = Gate()

    @model(
        name="echo", inputs=[Tensor("x", np.float32, [1, 1])], outputs=[Tensor("y", np.float32, [1, 1])], instances=2
    )
    def gated(x: Any) -> Any:
        if x[0, 0] == 0:
            gate.enter()
        return x

    with Server(gated, **PORTS, slow_request="50ms") as server, ThreadPoolExecutor(3) as pool:
        held = [pool.submit(infer, server.http_url, "echo", {"x": np.zeros((1, 1), np.float32)}) for _ in range(2)]
        gate.await_entered(2)
        waits = pool.submit(infer, server.http_url, "echo", ONE, id="waits")
        until(
            lambda: 'penstock_queue_depth{model="echo",version="1"} 1' in get(server.http_url, "/metrics").body.decode()
        )
        threading.Event().wait(LONG)
        gate.open()
        assert [one.result().status for one in (*held, waits)] == [200] * 3
        (request,) = [one for one in last(server, 3) if one["id"] == "waits"]
    assert (request["busy_instances"], request["instances"]) == (2, 2)
    check(request, "queue_ms", r"waited \d+ of \d+ ms for a free instance; 2 of 2 were busy")


def test_wait_for_a_batch() -> None:
    waiting = echo.with_options(batching=Batching(max_size=8, max_delay=LONG))
    with Server(waiting, **PORTS, slow_request="50ms") as server:
        assert infer(server.http_url, "echo", ONE).status == 200
        (request,) = last(server)
    check(request, "batch_wait_ms", r"waited \d+ of \d+ ms for more requests; its batch has 1 row")


def test_wait_for_the_body() -> None:
    head = f"POST {PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(BODY)}\r\n\r\n".encode()
    with Server(echo, **PORTS, slow_request="50ms") as server, connect(server.http_url) as sock:
        sock.sendall(head + BODY[:20])
        threading.Event().wait(LONG)
        sock.sendall(BODY[20:])
        assert read_response(sock).status == 200
        (request,) = last(server)
    check(request, "read_ms", r"waited \d+ of \d+ ms for the body of the request")


def test_wait_for_the_client() -> None:
    @model(
        name="echo", inputs=[Tensor("x", np.float32, [1])], outputs=[Tensor("y", np.float32, [-1])], batching=Batching()
    )
    def large(x: Any) -> Any:
        # More than the buffers of both sockets.
        return np.zeros((1, 16 << 20), np.float32)

    body, headers = binary_body(ONE)
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    head = f"POST {PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n{lines}\r\n"
    with Server(large, **PORTS, slow_request="50ms") as server, connect(server.http_url) as sock:
        sock.sendall(head.encode() + body)
        assert sock.recv(1, socket.MSG_PEEK)
        threading.Event().wait(4 * LONG)
        assert read_response(sock).status == 200
        (request,) = last(server)
    check(request, "write_ms", r"waited [\d.]+ of [\d.]+ m?s for the client to take the response")


def test_failed_request_is_not_split_behind_its_queue() -> None:
    with Server(sleeper, **PORTS, slow_request="50ms", request_timeout="100ms") as server:
        assert infer(server.http_url, "echo", ONE).status == 504
        (request,) = last(server)
    assert request["outcome"] == "timeout"
    assert request["parts"]["other_ms"] >= 50
    assert re.fullmatch(r"failed after \d+ of \d+ ms in the queue and the handler, .*", request["because"])


def test_streams_and_grpc_calls() -> None:
    with Server(sleeper, words, **PORTS, slow_request="50ms") as server:
        response = httpx.post(f"{server.http_url}/v2/models/words/generate_stream", content=b'{"to": 3}')
        assert response.status_code == 200
        (stream,) = last(server)
        message = pb.ModelInferRequest(model_name="echo", id="g", raw_input_contents=[ONE["x"].tobytes()])
        message.inputs.add(name="x", datatype="FP32", shape=[1, 1])
        with grpc.insecure_channel(server.grpc_url) as channel:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            stub.ModelInfer(message)
            assert len(list(stub.ModelStreamInfer(iter([message])))) == 1
            streamed, unary, _ = last(server, 3)
    assert stream["model"] == "words"
    assert (unary["protocol"], unary["route"]) == ("grpc", "inference.GRPCInferenceService/ModelInfer")
    assert (streamed["id"], streamed["route"]) == ("g", "inference.GRPCInferenceService/ModelStreamInfer")
    for request in (stream, unary, streamed):
        check(request, "compute_ms", r"spent \d+ of \d+ ms in the handler, in a batch of 1 row")


@pytest.mark.parametrize("access_log", ["json", "text", "short"])
def test_lines_are_written_with_each_access_log(access_log: Any, capfd: pytest.CaptureFixture[str]) -> None:
    with Server(sleeper, **PORTS, slow_request="50ms", access_log=access_log) as server:
        infer(server.http_url, "echo", ONE, id="a\nb")
        last(server)
    lines = logged(capfd, 2)
    assert len(lines) == 2
    if access_log == "json":
        assert [json.loads(line).get("event") for line in lines] == [None, "slow_request"]
        assert json.loads(lines[1])["id"] == "a\\u{a}b"
        assert json.loads(lines[1])["skipped"] == 0
    else:
        (slow,) = [line for line in lines if " slow http echo/1 200 ok " in line]
        assert "id=a\\u{a}b " in slow


def test_lines_are_limited_and_the_last_requests_kept(capfd: pytest.CaptureFixture[str]) -> None:
    started = time.monotonic()
    with Server(echo, **PORTS, slow_request="0.001ms") as server:
        for index in range(120):
            assert infer(server.http_url, "echo", ONE, id=str(index)).status == 200
        kept = last(server, 120)
        seconds = time.monotonic() - started
    assert [one["id"] for one in kept] == [str(index) for index in range(119, 19, -1)]
    assert len(logged(capfd, 10)) <= 10 * (seconds + 1)


def test_report_is_off_by_default_and_fast_requests_have_none() -> None:
    with Server(echo, **PORTS) as server:
        response = get(server.http_url, "/debug/slow")
        expected = "slow requests are not recorded, the server was started without slow_request"
        assert (response.status, response.error()) == (501, expected)
    with Server(echo, **PORTS, slow_request="1h") as server:
        infer(server.http_url, "echo", ONE)
        assert get(server.http_url, "/debug/slow").json() == {"slow_request_ms": 3600000, "count": 0, "requests": []}


def test_report_is_for_this_machine_unless_something_protects_it() -> None:
    forwarded = {"x-forwarded-for": "10.0.0.1"}
    with Server(echo, **PORTS, slow_request="1h") as server:
        response = httpx.get(f"{server.http_url}/debug/slow", headers=forwarded)
        expected = "/debug/slow is for programs of this machine, unless keys, restricted_access or admin protect it"
        assert (response.status_code, response.json()) == (403, {"error": expected})
        assert post(server.http_url, "/debug/slow", b"").status == 405
    with Server(echo, **PORTS, slow_request="1h", restricted_access="debug:admin-key=s3cret") as server:
        assert get(server.http_url, "/debug/slow").status == 403
        headers = forwarded | {"admin-key": "s3cret"}
        assert httpx.get(f"{server.http_url}/debug/slow", headers=headers).status_code == 200
