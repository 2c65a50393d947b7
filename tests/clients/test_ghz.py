"""ghz, a gRPC load generator in Go, with the proto file and with reflection: no call fails (case G7)."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from clients_tools import REPOSITORY

from http_by_hand import metric_at
from serving_process import Serving

PROTO = str(REPOSITORY / "proto" / "open_inference.proto")
COUNT = 400


def run(ghz: Callable[..., Any], server: Serving, data: dict[str, Any], *more: str) -> dict[str, Any]:
    call = "inference.GRPCInferenceService.ModelInfer"
    arguments = ("--insecure", "--proto", PROTO, "--call", call, "-n", str(COUNT), "-c", "8", "-O", "json")
    report: dict[str, Any] = json.loads(ghz(*arguments, "-d", json.dumps(data), *more, server.grpc).stdout)
    return report


def request(**contents: Any) -> dict[str, Any]:
    tensor = {"name": "x", "datatype": "FP32", "shape": [1, 4]}
    if "fp32_contents" in contents:
        return {"model_name": "double", "inputs": [{**tensor, "contents": contents}]}
    return {"model_name": "double", "inputs": [tensor], **contents}


def test_ghz_sends_raw_contents(ghz: Callable[..., Any], server: Serving) -> None:
    raw = base64.b64encode(np.arange(4, dtype=np.float32).tobytes()).decode()
    before = metric_at(server.http, "penstock_requests_total", protocol="grpc", outcome="ok")
    report = run(ghz, server, request(raw_input_contents=[raw]), "--connections", "4")
    assert report["statusCodeDistribution"] == {"OK": COUNT}
    assert metric_at(server.http, "penstock_requests_total", protocol="grpc", outcome="ok") - before == COUNT


def test_ghz_sends_typed_contents(ghz: Callable[..., Any], server: Serving) -> None:
    report = run(ghz, server, request(fp32_contents=[1, 2, 3, 4]))
    assert report["statusCodeDistribution"] == {"OK": COUNT}


def test_ghz_sends_compressed_calls(ghz: Callable[..., Any], server: Serving) -> None:
    raw = base64.b64encode(bytes(16)).decode()
    report = run(ghz, server, request(raw_input_contents=[raw]), "--enable-compression")
    assert report["statusCodeDistribution"] == {"OK": COUNT}


@pytest.mark.trap("T61")
def test_ghz_uses_reflection_without_a_proto_file(ghz: Callable[..., Any], server: Serving) -> None:
    """Messages come from reflection (T61)."""
    call = ("--insecure", "--call", "inference.GRPCInferenceService.ModelInfer", "-O", "json")
    data = json.dumps(request(fp32_contents=[1, 2, 3, 4]))
    report = json.loads(ghz(*call, "-n", str(COUNT), "-c", "8", "-d", data, server.grpc).stdout)
    assert report["statusCodeDistribution"] == {"OK": COUNT}


def test_refusals_are_grpc_statuses_not_broken_connections(ghz: Callable[..., Any], server: Serving) -> None:
    report = run(ghz, server, {**request(fp32_contents=[1, 2, 3, 4]), "model_name": "missing"})
    assert report["statusCodeDistribution"] == {"NotFound": COUNT}
