"""grpcurl, which uses reflection instead of a proto file: list, describe and call (case G7, T61)."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from serving_process import Serving

INFERENCE = "inference.GRPCInferenceService"
Tool = Callable[..., Any]


def run_grpcurl(grpcurl: Tool, server: Serving, *arguments: str) -> str:
    """Output of a call with data, of `list` or of `describe`. Flags have to precede the address."""
    flags = arguments[:2] if arguments[0] == "-d" else ()
    done: str = grpcurl("-plaintext", *flags, server.grpc, *arguments[len(flags) :]).stdout
    return done


@pytest.mark.trap("T61")
def test_grpcurl_lists_services(grpcurl: Tool, server: Serving) -> None:
    assert {INFERENCE, "grpc.health.v1.Health"} <= set(run_grpcurl(grpcurl, server, "list").split())
    assert f"{INFERENCE}.ModelInfer" in run_grpcurl(grpcurl, server, "list", INFERENCE).split()


def test_grpcurl_describes_messages(grpcurl: Tool, server: Serving) -> None:
    described = run_grpcurl(grpcurl, server, "describe", "inference.ModelInferRequest")
    assert "repeated bytes raw_input_contents = 7;" in described


def test_grpcurl_infers(grpcurl: Tool, server: Serving) -> None:
    raw = base64.b64encode(np.arange(4, dtype=np.float32).tobytes()).decode()
    tensor = {"name": "x", "datatype": "FP32", "shape": [1, 4]}
    request = {"model_name": "double", "id": "42", "inputs": [tensor], "raw_input_contents": [raw]}
    response = json.loads(run_grpcurl(grpcurl, server, "-d", json.dumps(request), f"{INFERENCE}/ModelInfer"))
    assert response["id"] == "42"
    (outputs,) = (np.frombuffer(base64.b64decode(entry), np.float32) for entry in response["rawOutputContents"])
    assert outputs.tolist() == [0, 2, 4, 6]


def test_grpcurl_checks_health(grpcurl: Tool, server: Serving) -> None:
    request = json.dumps({"service": "double"})
    assert json.loads(run_grpcurl(grpcurl, server, "-d", request, "grpc.health.v1.Health/Check")) == {
        "status": "SERVING"
    }
