"""The drain of a server with sequences: active ones may finish, new ones are refused."""

from __future__ import annotations

import json
import signal
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc

from http_by_hand import HttpResponse, get, metric_at, post
from serving_process import Serving
from waiting import until

PORTS = ("--http", "127.0.0.1:0", "--grpc", "off")


def step(server: Serving, identifier: int, value: float, **marks: bool) -> HttpResponse:
    document: dict[str, Any] = {
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 1], "data": [value]}],
        "parameters": {"sequence_id": identifier, **{f"sequence_{mark}": flag for mark, flag in marks.items()}},
    }
    return post(server.http, "/v2/models/counting/infer", json.dumps(document).encode())


def total(response: HttpResponse) -> float:
    assert response.status == 200, response.body
    return float(response.json()["outputs"][0]["data"][0])


def draining(server: Serving) -> None:
    server.process.send_signal(signal.SIGTERM)
    until(lambda: get(server.http, "/v2/health/ready").status == 503, "the drain")


def test_active_sequences_continue_and_new_ones_are_refused() -> None:
    with Serving("counting.py", "double.py", *PORTS) as server:
        assert total(step(server, 1, 1.0, start=True)) == 1.0
        assert total(step(server, 2, 10.0, start=True)) == 10.0
        draining(server)
        assert total(step(server, 1, 2.0)) == 3.0
        refused = step(server, 3, 1.0, start=True)
        assert refused.status == 503
        assert "begins no sequence" in refused.json()["error"]
        other = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]})
        plain = post(server.http, "/v2/models/double/infer", other.encode())
        assert (plain.status, plain.json()["error"]) == (503, "the server is shutting down")
        assert total(step(server, 2, 1.0, end=True)) == 11.0
        assert server.process.poll() is None, "one sequence is still active"
        assert total(step(server, 1, 3.0, end=True)) == 6.0
        assert server.process.wait(timeout=20) == 0


def test_active_sequences_continue_over_every_transport() -> None:
    ports = ("--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--cloud-events", "--sagemaker")
    with Serving("counting.py", *ports) as server:

        def over_grpc(compression: Any) -> float:
            x = tritonclient.grpc.InferInput("x", [1, 1], "FP32")
            x.set_data_from_numpy(np.ones((1, 1), np.float32))
            with tritonclient.grpc.InferenceServerClient(server.grpc) as client:
                response = client.infer("counting", [x], sequence_id=1, compression_algorithm=compression)
            return float(response.as_numpy("total")[0, 0])

        def over_v1(path: str, **more: Any) -> float:
            document = {"instances": [[1.0]], "parameters": {"sequence_id": 1, **more}}
            headers = {"Content-Type": "application/json"}
            response = post(server.http, path, json.dumps(document).encode(), headers)
            assert response.status == 200, response.body
            return float(response.json()["predictions"][0][0])

        assert over_v1("/v1/models/counting:predict", sequence_start=True) == 1.0
        draining(server)
        assert over_v1("/v1/models/counting:predict") == 2.0
        assert over_grpc(None) == 3.0
        assert over_grpc("gzip") == 4.0
        assert over_v1("/invocations") == 5.0
        assert over_v1("/v1/models/counting:predict", sequence_end=True) == 6.0
        assert server.process.wait(timeout=20) == 0


def test_drain_deadline_cuts_a_sequence_and_names_its_model() -> None:
    with Serving("counting.py", *PORTS, "--drain-timeout", "300ms") as server:
        total(step(server, 1, 1.0, start=True))
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(timeout=20) == 3
        assert "counting (version 1): 0 requests, 1 sequences" in server.err


@pytest.mark.parametrize("ended", [True, False])
def test_stop_does_not_wait_without_active_sequences(ended: bool) -> None:
    with Serving("counting.py", *PORTS) as server:
        if ended:
            total(step(server, 1, 1.0, start=True, end=True))
            until(lambda: metric_at(server.http, "penstock_sequences") == 0, "its end")
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(timeout=20) == 0
