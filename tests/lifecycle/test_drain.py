"""The stop of a served process: signals, requests that the drain finishes, and its deadline."""

from __future__ import annotations

import http.client
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

from http_by_hand import HttpResponse, binary_body, connect, get, infer, metric_at, read_response
from serving_process import Serving
from waiting import at_once, until

X = np.array([1, 2], np.float32)


class Gated:
    """The model of models/gated.py, and the folder of its gate."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def serve(self, *arguments: str) -> Serving:
        ports = ("--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0")
        return Serving("gated.py", *ports, *arguments, environment={"GATE": str(self.folder)})

    def fill(self, server: Serving, count: int = 3) -> list[Any]:
        """Sends requests: one computes, the others are queued."""
        futures = at_once([lambda: infer(server.http, "gated", {"x": X})] * count)
        until(lambda: list(self.folder.glob("entered-*")), "a request in the handler")
        until(lambda: metric_at(server.http, "penstock_in_flight") == count, "all requests in flight")
        return futures

    def open(self) -> None:
        (self.folder / "open").touch()


@pytest.fixture
def gated(tmp_path: Path) -> Gated:
    return Gated(tmp_path)


def status_or_none(call: Callable[[], HttpResponse]) -> int | None:
    """The status of a response; None if the connection ended without one."""
    try:
        return call().status
    except (OSError, http.client.HTTPException):
        return None


@pytest.mark.fault("SIGTERM under load", "SIGTERM in compute")
@pytest.mark.trap("T70")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_under_load_refuses_new_requests_and_finishes_others(gated: Gated, number: signal.Signals) -> None:
    with gated.serve() as server:
        futures = gated.fill(server)
        body, headers = binary_body({"x": X})
        started = connect(server.http)
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        started.sendall(
            b"POST /v2/models/gated/infer HTTP/1.1\r\nHost: localhost\r\n"
            + f"{head}Content-Length: {len(body)}\r\n\r\n".encode()
            + body[:20]
        )
        asking = connect(server.http)
        asking.sendall(b"GET /v2/health/ready HTTP/1.1\r\nHost: localhost\r\n")
        until(lambda: metric_at(server.http, "penstock_connections") >= 5, "both connections to be accepted")
        server.signal(number)
        server.await_stderr("stopping")
        until(lambda: status_or_none(lambda: get(server.http, "/v2/health/ready")) != 200, "not to be ready")
        until(lambda: status_or_none(lambda: infer(server.http, "gated", {"x": X})) in (None, 503), "a refusal")
        asking.sendall(b"\r\n")
        readiness = read_response(asking)
        assert readiness.status == 503
        assert readiness.headers["connection"] == "close", "a keep-alive client must be notified"
        started.sendall(body[20:])
        gated.open()
        responses = [future.result() for future in futures] + [read_response(started)]
        assert [response.status for response in responses] == [200] * 4
        assert [response.array("y").tolist() for response in responses] == [[2, 4]] * 4
        assert server.exit_status() == 0
        assert server.notices == ["penstock: stopping: requests have 30 s to finish; signal again to stop at once"]
        asking.close()
        started.close()


def test_grpc_call_finishes_during_drain(gated: Gated) -> None:
    with gated.serve() as server, grpc.insecure_channel(server.grpc) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        request = service_pb2.ModelInferRequest(model_name="gated", raw_input_contents=[X.tobytes()])
        request.inputs.add(name="x", datatype="FP32", shape=[2])
        call = stub.ModelInfer.future(request)
        until(lambda: list(gated.folder.glob("entered-*")), "the call in the handler")
        server.signal(signal.SIGTERM)
        server.await_stderr("stopping")

        def is_ready() -> bool:
            try:
                return bool(stub.ServerReady(service_pb2.ServerReadyRequest(), timeout=1).ready)
            except grpc.RpcError:
                return False

        until(lambda: not is_ready(), "not to be ready")
        gated.open()
        assert np.frombuffer(call.result().raw_output_contents[0], np.float32).tolist() == [2, 4]
        assert server.exit_status() == 0


def test_drain_deadline_cuts_running_requests_and_names_their_model(gated: Gated) -> None:
    with gated.serve("--drain-timeout", "300ms") as server:
        futures = gated.fill(server)
        server.signal(signal.SIGTERM)
        assert server.exit_status() == 3
        assert server.err.splitlines()[-1] == "penstock: cut off: gated (version 1): 3 requests"
        statuses = [status_or_none(future.result) for future in futures]
        # Queued requests get an error; the running one may only see its connection close.
        assert statuses.count(503) >= 2
        assert set(statuses) <= {503, None}


def test_cut_queued_requests_get_the_reason(gated: Gated) -> None:
    with gated.serve("--drain-timeout", "300ms") as server:
        futures = gated.fill(server)
        server.signal(signal.SIGTERM)
        server.exit_status()
        errors = [future.result().error() for future in futures if not future.exception()]
        assert errors
        assert set(errors) == {"the server was stopped before the request was answered"}


@pytest.mark.fault("SIGTERM twice")
def test_second_signal_stops_at_once(gated: Gated) -> None:
    with gated.serve("--drain-timeout", "10m") as server:
        futures = gated.fill(server)
        server.signal(signal.SIGTERM)
        server.await_stderr("stopping: requests have 600 s to finish")
        server.signal(signal.SIGTERM)
        # Ten minutes would exceed the test's timeout.
        assert server.exit_status() == 3
        assert "penstock: stopping at once" in server.err
        assert "penstock: cut off: " in server.err
        assert {status_or_none(future.result) for future in futures} <= {503, None}


@pytest.mark.fault("SIGTERM twice")
def test_two_signals_within_20_milliseconds_both_count(gated: Gated) -> None:
    with gated.serve("--drain-timeout", "10m") as server:
        gated.fill(server)
        server.signal(signal.SIGTERM)
        time.sleep(0.02)
        server.signal(signal.SIGTERM)
        assert server.exit_status() == 3
        assert "penstock: stopping at once" in server.err


def test_idle_server_stops_despite_open_connections(gated: Gated) -> None:
    with gated.serve() as server, connect(server.http), connect(server.grpc):
        until(lambda: metric_at(server.http, "penstock_connections") >= 2, "the connections")
        server.signal(signal.SIGINT)
        assert server.exit_status() == 0


def test_signal_while_models_load_aborts_the_start(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        "import pathlib, time, numpy\n"
        "from penstock import Tensor, model\n"
        "@model(inputs=[Tensor('x', numpy.float32)], outputs=[Tensor('y', numpy.float32)])\n"
        "class Slow:\n"
        "    def __init__(self):\n"
        "        pathlib.Path('building').touch()\n"
        "        time.sleep(0.5)\n"
        "    def __call__(self, x):\n"
        "        return x\n"
    )
    with Serving("slow.py", "--http", "127.0.0.1:0", "--grpc", "off", folder=tmp_path, up=False) as server:
        until((tmp_path / "building").exists, "the model to be built")
        server.signal(signal.SIGTERM)
        assert server.exit_status() == 0
        assert "Traceback" not in server.err
        assert server.out == ""


def test_server_still_serves_for_the_delay_of_a_drain(gated: Gated) -> None:
    gated.open()
    with gated.serve("--drain-delay", "60s") as server:
        channel = grpc.insecure_channel(server.grpc)
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        server.signal(signal.SIGTERM)
        until(lambda: get(server.http, "/v2/health/ready").status == 503, "the server to be not ready")
        assert get(server.http, "/v2/health/ready").json()["error"] == "the server is about to shut down"
        assert get(server.http, "/v2/models/gated/ready").status == 503
        assert get(server.http, "/v2/health/live").status == 200
        assert not stub.ServerReady(service_pb2.ServerReadyRequest()).ready
        assert infer(server.http, "gated", {"x": X}).status == 200
        channel.close()
        # A second signal skips the rest.
        server.signal(signal.SIGTERM)
        assert server.exit_status() == 0
    assert "not ready, and serves for 60 s more; then requests have 30 s to finish" in server.err


def test_drain_begins_after_its_delay(gated: Gated) -> None:
    gated.open()
    with gated.serve("--drain-delay", "1s") as server, connect(server.http) as sock:
        server.signal(signal.SIGTERM)
        until(lambda: get(server.http, "/v2/health/ready").status == 503, "the server to be not ready")
        assert server.exit_status() == 0
        assert sock.recv(1) == b""
