"""Advertised extensions: each works, and each with routes is advertised (case F24)."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from .content import add
from .protocols import HttpProtocol
from .transports import Reply, Rest, infer

Probe = Callable[[Rest], Reply]


def get(path: str) -> Probe:
    return lambda rest: rest.request("GET", path)


def post(path: str) -> Probe:
    return lambda rest: rest.request("POST", path)


def binary(rest: Rest) -> Reply:
    body, headers = HttpProtocol("rest-binary", rest, binary=True).encode(add())
    return rest.request("POST", "/v2/models/add/infer", body, headers)


def with_parameters(rest: Rest) -> Reply:
    tensor = {"name": "x", "datatype": "FP32", "shape": [1], "data": [1]}
    return infer(rest, "parameters", {"inputs": [tensor], "parameters": {"own": 1}})


def classified(rest: Rest) -> Reply:
    tensor = {"name": "x", "datatype": "FP32", "shape": [2], "data": [1, 2]}
    outputs = [{"name": "y", "parameters": {"classification": 1}}]
    return infer(rest, "ident_FP32", {"inputs": [tensor], "outputs": outputs})


PROBES: dict[str, Probe] = {
    "binary_tensor_data": binary,
    "parameters": with_parameters,
    "classification": classified,
    "model_configuration": get("/v2/models/add/config"),
    "statistics": get("/v2/models/stats"),
    "logging": get("/v2/logging"),
    "trace": get("/v2/trace/setting"),
    "model_repository": post("/v2/repository/index"),
    "system_shared_memory": get("/v2/systemsharedmemory/status"),
    "cuda_shared_memory": get("/v2/cudasharedmemory/status"),
}
"""A request that succeeds if the extension works."""

WITHOUT_A_ROUTE = {"model_repository(unload_dependents)", "sequence", "schedule_policy"}
"""Extensions that show only in the behavior of models; other cases cover them."""

QUIET = {"cuda_shared_memory"}
"""Extensions whose routes exist anyway, because clients call them on every machine."""


def advertised(rest: Rest) -> list[str]:
    extensions: list[str] = json.loads(rest.request("GET", "/v2").body)["extensions"]
    return extensions


def test_f24_every_advertised_extension_is_known_and_named_once(rest: Rest) -> None:
    names = advertised(rest)
    assert set(names) <= set(PROBES) | WITHOUT_A_ROUTE, "give it a probe"
    assert len(names) == len(set(names))
    assert {"binary_tensor_data", "parameters", "model_configuration", "statistics"} <= set(names)


@pytest.mark.parametrize("extension", PROBES)
def test_f24_extension_works_only_if_advertised(rest: Rest, extension: str) -> None:
    reply = PROBES[extension](rest)
    if extension in advertised(rest):
        assert reply.status == 200, reply.body
    elif extension not in QUIET:
        assert reply.status in (404, 501)
