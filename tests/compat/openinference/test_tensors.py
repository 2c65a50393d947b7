"""Tensors over REST and gRPC, and rejected ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton
import tritonclient.http as triton_http
from functions import ECHO, Served, handler_code, serving, write_function
from tritonclient.utils import InferenceServerException

from penstock.compat.openinference._definition.function_spec import DATATYPES
from penstock.compat.openinference._tensors import DTYPES

CODE = handler_code("request.inputs[0].data", before="").replace("str(", "repr(")


@pytest.fixture(scope="module")
def echo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A function that returns a tensor of each datatype."""
    tensors = [{"name": one, "datatype": one, "shape": [-1, 2]} for one in DATATYPES]
    folder = write_function(tmp_path_factory.mktemp("echo"), ECHO, inputs=tensors, outputs=tensors)
    with serving(folder) as served:
        yield served


def values(datatype: str) -> np.ndarray[Any, Any]:
    if datatype == "BYTES":
        return np.array([["a", "ü"]], dtype=object)
    return np.array([[1, 0]], dtype=DTYPES[datatype])


def tensors_of(kind: Any, **options: Any) -> list[Any]:
    made = []
    for datatype in DATATYPES:
        made.append(kind(datatype, [1, 2], datatype))
        made[-1].set_data_from_numpy(values(datatype), **options)
    return made


def assert_values(response: Any) -> None:
    for datatype in DATATYPES:
        array = response.as_numpy(datatype)
        if datatype == "BYTES":
            assert array.tolist() == [[b"a", "ü".encode()]]
        else:
            assert (array.dtype, array.tolist()) == (np.dtype(DTYPES[datatype]), values(datatype).tolist())


def test_d12_all_datatypes_over_grpc(echo: Served) -> None:
    with triton.InferenceServerClient(echo.server.grpc_url) as client:
        assert_values(client.infer("m", tensors_of(triton.InferInput)))


def test_d12_all_datatypes_over_rest_as_json(echo: Served) -> None:
    inputs = [
        {"name": one, "datatype": one, "shape": [1, 2], "data": values(one).ravel().tolist()} for one in DATATYPES
    ]
    status, response = echo.infer(*inputs)
    assert status == 200
    assert [(one["name"], one["shape"], one["data"]) for one in response["outputs"]] == [
        (one["name"], [1, 2], one["data"]) for one in inputs
    ]


def test_d12_all_datatypes_over_rest_as_bytes(echo: Served) -> None:
    with triton_http.InferenceServerClient(echo.server.http_url.removeprefix("http://")) as client:
        outputs = [triton_http.InferRequestedOutput(one, binary_data=True) for one in DATATYPES]
        assert_values(client.infer("m", tensors_of(triton_http.InferInput, binary_data=True), outputs=outputs))


BYTES = [{"name": "x", "datatype": "BYTES", "shape": [-1]}]


def infer_over_grpc(served: Served, data: list[bytes]) -> bytes:
    tensor = triton.InferInput("x", [len(data)], "BYTES")
    tensor.set_data_from_numpy(np.array(data, dtype=object))
    with triton.InferenceServerClient(served.server.grpc_url) as client:
        result: bytes = client.infer("m", [tensor]).as_numpy("result")[0]
    return result


def test_d12_handlers_get_the_same_bytes_over_rest_and_grpc(tmp_path: Path) -> None:
    with serving(write_function(tmp_path, CODE, inputs=BYTES)) as served:
        status, response = served.infer_row("a", "ü", "", datatype="BYTES")
        assert (status, response["outputs"][0]["data"]) == (200, ["['a', 'ü', '']"])
        # Raw contents of gRPC have a length before each element.
        assert infer_over_grpc(served, [b"a", "ü".encode(), b""]).decode() == "['a', 'ü', '']"
        assert infer_over_grpc(served, [b"\xff\xfe"]).decode() == r"[b'\xff\xfe']"


def test_d27_bytes_mode_digitalhub_uses_base64(tmp_path: Path) -> None:
    code = """
def handler(request):
    data = request.inputs[0].data[0]
    data = data if data != "YQ==" else ["YQ=="]
    return {"outputs": [{"name": "result", "datatype": "BYTES", "shape": [1], "data": data}]}
"""
    with serving(write_function(tmp_path, code, inputs=BYTES), bytes_mode="digitalhub") as served:
        # Inputs are base64. An output list is unchanged, and a single output text is base64.
        assert infer_over_grpc(served, [b"a"]) == b"YQ=="
        assert infer_over_grpc(served, [b"\xff"]) == b"\xff"
        assert served.infer_row("b", datatype="BYTES")[1]["outputs"][0]["data"] == ["b"]


def test_d11_metadata_lists_declared_tensors(tmp_path: Path) -> None:
    outputs = [{"name": "y", "datatype": "BYTES", "shape": [1]}]
    with serving(write_function(tmp_path, ECHO, outputs=outputs), version="r1") as served:
        declared = {"name": "x", "datatype": "FP32", "shape": [-1]}
        for path in ("/v2/models/m", "/v2/models/m/versions/r1"):
            status, response = served.get(path)
            assert (status, response["inputs"], response["outputs"]) == (200, [declared], outputs)
        assert served.get("/v2/health/ready")[0] == served.get("/v2/models/m/ready")[0] == 200
        for path in ("/v2/models/n", "/v2/models/m/versions/2", "/v2/models/n/ready"):
            assert served.get(path)[0] == 404
        assert served.infer(model="n")[0] == 404
        assert served.get("/v2/models/m/versions/2/infer", {"inputs": []})[0] == 404
        with triton.InferenceServerClient(served.server.grpc_url) as client:
            metadata = client.get_model_metadata("m")
            assert [(one.name, one.datatype, list(one.shape)) for one in (*metadata.inputs, *metadata.outputs)] == [
                *(("x", "FP32", [-1]), ("y", "BYTES", [1])),
            ]
            assert client.is_model_ready("m")
            with pytest.raises(InferenceServerException) as raised:
                client.get_model_metadata("n")
            assert raised.value.status() == "StatusCode.NOT_FOUND"


GOOD = {"name": "x", "datatype": "FP32", "shape": [2], "data": [1, 2]}


@pytest.mark.parametrize(
    ("tensors", "error"),
    [
        ([], "input 'x' is missing: model 'm' expects x (FP32 [2]), n (INT8 [-1, 1])"),
        ([{**GOOD, "name": "y"}], "input 'x' is missing"),
        ([GOOD], "input 'n' is missing"),
        ([{**GOOD, "shape": [1, 2]}], "input 'x' has shape [1, 2], model 'm' expects [2]"),
        ([{**GOOD, "shape": [1], "data": [1]}], "input 'x' has shape [1], model 'm' expects [2]"),
        ([{**GOOD, "datatype": "INT32"}], "input 'x' has datatype INT32, model 'm' expects FP32"),
        ([{**GOOD, "datatype": "BYTES", "data": ["a", "b"]}], "input 'x' has datatype BYTES, model 'm' expects FP32"),
        (["n", 300], "input 'n' has a number outside the range of INT8"),
        (["z", 1], "unexpected input 'z': model 'm' expects"),
    ],
)
def test_d13_undeclared_tensors_are_rejected(tmp_path: Path, tensors: list[Any], error: str) -> None:
    inputs = [
        *({"name": "x", "datatype": "FP32", "shape": [2]}, {"name": "n", "datatype": "INT8", "shape": [-1, 1]}),
    ]
    number = {"name": "n", "datatype": "INT64", "shape": [1, 1], "data": [1]}
    if tensors and tensors[0] == "n":
        tensors = [GOOD, {**number, "data": [tensors[1]]}]
    elif tensors and tensors[0] == "z":
        tensors = [GOOD, number, {**GOOD, "name": "z"}]
    with serving(write_function(tmp_path, ECHO, inputs=inputs)) as served:
        status, response = served.infer(*tensors)
    assert status == 400
    assert response["error"].startswith(error)


def test_d13_numbers_of_the_same_family_are_converted(tmp_path: Path) -> None:
    with serving(write_function(tmp_path, ECHO)) as served:
        status, response = served.infer_row(1.5, datatype="FP64")
        assert (status, response["outputs"][0]["datatype"], response["outputs"][0]["data"]) == (200, "FP32", [1.5])


@pytest.mark.parametrize(
    ("tensor", "error"),
    [
        ("{'name': 'z', 'data': [1.0]}", "the handler returned an output 'z', declared are y (FP32 [1])"),
        ("{'name': 'y', 'datatype': 'FP32', 'data': [1.0, 2.0]}", "output 'y' of shape [2], declared is [1]"),
        ("{'name': 'y', 'datatype': 'INT8', 'data': [1]}", "output 'y' of INT8, declared is FP32"),
    ],
)
def test_d13_responses_match_the_declaration(tmp_path: Path, tensor: str, error: str) -> None:
    code = f"def handler(request):\n    return {{'outputs': [{tensor}]}}\n"
    write_function(tmp_path, code, outputs=[{"name": "y", "datatype": "FP32", "shape": [1]}])
    with serving(tmp_path) as served:
        status, response = served.infer_row(1)
        assert status == 500
        assert error in response["error"]
    with serving(tmp_path, validate="off") as served:
        assert served.infer_row(1)[0] == 200


def test_d13_without_validation_shapes_are_adjusted(tmp_path: Path) -> None:
    code = """
def handler(request):
    return {"outputs": [{**one.dict(), "shape": [7, 7]} for one in request.inputs]}
"""
    with serving(write_function(tmp_path, code), validate="off") as served:
        status, response = served.infer({"name": "other", "datatype": "INT8", "shape": [1, 2], "data": [1, 2]})
    assert status == 200
    # The handler's shape does not fit, so the last axis is adjusted.
    assert response["outputs"] == [{"name": "other", "datatype": "INT8", "shape": [1, 2], "data": [1, 2]}]


def test_d23_unnamed_tensors_are_matched_by_position(tmp_path: Path) -> None:
    with serving(write_function(tmp_path, ECHO, inputs=[{"shape": [1]}])) as served:
        assert served.infer_row(2)[1]["outputs"][0]["data"] == [2.0]
        assert served.get("/v2/models/m")[1]["inputs"][0]["name"] == "input-0"
