"""gRPC calls of server.py."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import numpy as np
from cases_http import DTYPES, FAILURES, JSON_TYPES, MODES, NEW_FAILURES
from requests_as_data import GrpcCall

CONTENTS = {
    **dict.fromkeys(("INT8", "INT16", "INT32"), "int_contents"),
    **dict.fromkeys(("UINT8", "UINT16", "UINT32"), "uint_contents"),
    "BOOL": "bool_contents",
    "INT64": "int64_contents",
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}


def coded(data: bytes) -> str:
    """Returns bytes as in protobuf's JSON."""
    return base64.b64encode(data).decode()


def typed(data: Any, datatype: str = "FP32", shape: Any = None, name: str = "x", **more: Any) -> dict[str, Any]:
    """Returns a tensor with typed contents."""
    if datatype == "BYTES":
        data = [coded(one.encode()) for one in data]
    contents = {CONTENTS.get(datatype, "fp32_contents"): data}
    return {"name": name, "shape": shape or [len(data)], "datatype": datatype, "contents": contents, **more}


def infer(case: str, model: str, *inputs: Any, raw: tuple[bytes, ...] = (), **more: Any) -> GrpcCall:
    """Returns a `ModelInfer` call."""
    request = {"model_name": model, "id": "g", "inputs": list(inputs), **more}
    if raw:
        request["raw_input_contents"] = [coded(one) for one in raw]
    return GrpcCall(case, "ModelInfer", request)


def cases(new: bool) -> list[GrpcCall]:
    """Returns all calls in their order."""
    return [*_metadata(), *_tensors(), *_results(new), *_invalid(), *_repository()]


def _metadata() -> Iterator[GrpcCall]:
    yield GrpcCall("grpc live", "ServerLive")
    yield GrpcCall("grpc ready", "ServerReady")
    yield GrpcCall("grpc server", "ServerMetadata")
    for model in ("double", "described", "nope", "sleepy"):
        yield GrpcCall(f"grpc ready of {model}", "ModelReady", {"name": model})
        yield GrpcCall(f"grpc metadata of {model}", "ModelMetadata", {"name": model})


def _tensors() -> Iterator[GrpcCall]:
    for datatype, data in JSON_TYPES.items():
        yield infer(f"grpc typed {datatype}", "echo", typed(data, datatype))
    for datatype, dtype in DTYPES.items():
        one = {"name": "x", "shape": [3], "datatype": datatype}
        yield infer(f"grpc raw {datatype}", "echo", one, raw=(np.array([1, 0, 1], dtype).tobytes(),))
    yield infer("grpc raw BYTES", "echo", {"name": "x", "shape": [1], "datatype": "BYTES"}, raw=(b"\x01\0\0\0a",))
    two = (typed([1, 2]), typed(["a"], "BYTES", name="t"))
    yield infer("grpc two inputs", "echo", *two)
    yield infer("grpc a matrix", "double", typed([1, 2, 3, 4], shape=[2, 2]))
    yield infer("grpc later", "later", typed([1.5]))
    yield infer("grpc lists", "lists", typed([1]))
    yield infer("grpc helped", "helped", typed([1, 2, 3, 4], shape=[2, 2]))
    yield infer("grpc plain", "plain", typed([1]))
    parameters = {"b": {"bool_param": True}, "i": {"int64_param": "5"}, "t": {"string_param": "text"}}
    seen = infer("grpc seen", "seen", typed([1], parameters={"own": {"string_param": "one"}}), parameters=parameters)
    yield GrpcCall(seen.case, seen.method, seen.request, (("x-request-id", "r-3"), ("x-own", "mine")))
    for names in (["f"], ["nope"]):
        yield infer(f"grpc outputs {names}", "lists", typed([1]), outputs=[{"name": name} for name in names])
    yield infer("grpc no id", "double", typed([1]), id="")
    yield infer("grpc a version", "double", typed([1]), model_version="3")


def _results(new: bool) -> Iterator[GrpcCall]:
    for mode in MODES:
        yield infer(f"grpc gives {mode}", "contract", typed([mode], "BYTES"))
    for failure in (*FAILURES, *NEW_FAILURES) if new else FAILURES:
        yield infer(f"grpc raises {failure}", "fails", typed([failure], "BYTES"))


def _invalid() -> Iterator[GrpcCall]:
    yield infer("grpc without a model", "nope", typed([1]))
    yield infer("grpc of a model that is not ready", "sleepy", typed([1]))
    yield infer("grpc no inputs", "double")
    yield infer("grpc an unknown datatype", "double", typed([1], "FP8"))
    yield infer("grpc too few elements", "double", typed([1, 2, 3], shape=[2, 2]))
    one = {"name": "x", "shape": [2], "datatype": "FP32"}
    yield infer("grpc raw too short", "double", one, raw=(b"123456",))
    yield infer("grpc fewer raw than inputs", "echo", one, {**one, "name": "z"}, raw=(b"12345678",))
    yield infer("grpc raw and contents", "double", typed([1, 2]), raw=(b"12345678",))


def _repository() -> Iterator[GrpcCall]:
    yield GrpcCall("grpc load", "RepositoryModelLoad", {"name": "served"})
    yield infer("grpc a loaded model responds", "served", typed([1]))
    yield GrpcCall("grpc load broken", "RepositoryModelLoad", {"name": "broken"})
    yield GrpcCall("grpc unload", "RepositoryModelUnload", {"name": "served"})
    yield GrpcCall("grpc unload again", "RepositoryModelUnload", {"name": "served"})
    yield infer("grpc an unloaded model", "served", typed([1]))
