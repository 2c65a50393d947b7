"""grpcurl, which has no proto file and asks the server by reflection: list, describe, call (case G7, T61)."""

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


def ask(grpcurl: Tool, server: Serving, *arguments: str) -> str:
    """What it prints: of a call with data, of `list` or of `describe`. It wants its flags before the address."""
    flags = arguments[:2] if arguments[0] == "-d" else ()
    done: str = grpcurl("-plaintext", *flags, server.grpc, *arguments[len(flags) :]).stdout
    return done


@pytest.mark.trap("T61")
def test_list(grpcurl: Tool, server: Serving) -> None:
    assert {INFERENCE, "grpc.health.v1.Health"} <= set(ask(grpcurl, server, "list").split())
    assert f"{INFERENCE}.ModelInfer" in ask(grpcurl, server, "list", INFERENCE).split()


def test_describe(grpcurl: Tool, server: Serving) -> None:
    described = ask(grpcurl, server, "describe", "inference.ModelInferRequest")
    assert "repeated bytes raw_input_contents = 7;" in described


def test_call(grpcurl: Tool, server: Serving) -> None:
    raw = base64.b64encode(np.arange(4, dtype=np.float32).tobytes()).decode()
    tensor = {"name": "x", "datatype": "FP32", "shape": [1, 4]}
    asked = {"model_name": "double", "id": "42", "inputs": [tensor], "raw_input_contents": [raw]}
    answer = json.loads(ask(grpcurl, server, "-d", json.dumps(asked), f"{INFERENCE}/ModelInfer"))
    assert answer["id"] == "42"
    (found,) = (np.frombuffer(base64.b64decode(entry), np.float32) for entry in answer["rawOutputContents"])
    assert found.tolist() == [0, 2, 4, 6]


def test_health(grpcurl: Tool, server: Serving) -> None:
    asked = json.dumps({"service": "double"})
    assert json.loads(ask(grpcurl, server, "-d", asked, "grpc.health.v1.Health/Check")) == {"status": "SERVING"}
