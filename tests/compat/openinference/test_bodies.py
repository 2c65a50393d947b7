"""Raw JSON requests: the option `data: sent`."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from functions import Served, handler_code, serving, write_function

CODE = handler_code("[request.id, [(one.name, one.shape, one.data, one.parameters) for one in request.inputs]]")
INPUTS = [
    {"name": "x", "datatype": "FP32", "shape": [-1, 2]},
    {"name": "t", "datatype": "BYTES", "shape": [-1]},
    {"name": "n", "datatype": "INT8", "shape": [1]},
]
X = {"name": "x", "datatype": "FP32", "shape": [2, 2], "data": [[1, 2], [3, 4.5]]}
T = {"name": "t", "datatype": "BYTES", "shape": [1], "data": ["a"]}
N = {"name": "n", "datatype": "INT8", "shape": [1], "data": [1]}


@pytest.fixture(scope="module", params=["server", "process"])
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = write_function(tmp_path_factory.mktemp("sent"), CODE, inputs=INPUTS)
    with serving(folder, data="sent", isolation=request.param) as served:
        yield served


def test_d08_data_keeps_its_nesting(served: Served) -> None:
    flat = {**X, "data": [1, 2, 3, 4.5], "parameters": {"unit": "m"}}
    for path in ("/v2/models/m/infer", "/v2/models/m/versions/1/infer"):
        for sent in (X, flat):
            status, response = served.get(path, {"id": "me", "inputs": [sent, T, N]})
            assert status == 200, response
            assert (response["id"], response["model_name"], response["model_version"]) == ("me", "m", "1")
            expected = ["me", [("x", [2, 2], sent["data"], sent.get("parameters", {})), ("t", [1], ["a"], {})]]
            expected[1].append(("n", [1], [1], {}))
            assert response["outputs"][0]["data"] == [str(expected)]


def test_one_dimension_may_be_unknown(served: Served) -> None:
    status, response = served.infer({**X, "shape": [-1, 2]}, {**T, "shape": [-1]}, N)
    assert status == 200
    assert "('x', [2, 2], [[1, 2], [3, 4.5]], {})" in response["outputs"][0]["data"][0]


@pytest.mark.parametrize(
    ("inputs", "error"),
    [
        ([X, T], "input 'n' is missing: model 'm' expects x (FP32 [-1, 2]), t (BYTES [-1]), n (INT8 [1])"),
        ([X, T, N, {**N, "name": "z"}], "unexpected input 'z': "),
        ([X, T, N, N], "two of 'inputs' have one name"),
        ([{**X, "shape": [1, 4]}, T, N], "input 'x' has shape [1, 4], model 'm' expects [-1, 2]"),
        ([{**X, "shape": [3, 2]}, T, N], "input 'x' has 4 elements, which do not fit the shape [3, 2]"),
        ([{**X, "shape": [-1, -1]}, T, N], "input 'x' has 4 elements, which do not fit the shape [-1, -1]"),
        ([{**X, "shape": [1] * 33}, T, N], "input 'x': its shape is not an array of at most 32 numbers of 0 or more"),
        ([{**X, "datatype": "FP31"}, T, N], "input 'x': unknown datatype 'FP31', expected one of BOOL, "),
        ([{**X, "data": [[1, 2], [3, "4"]]}, T, N], "input 'x' has str where FP32 is expected"),
        ([{**X, "data": [[1, 2], 3, 4]}, T, N], "input 'x' has 3 elements, which do not fit the shape [2, 2]"),
        ([X, {**T, "data": [1]}, N], "input 't' has int where BYTES is expected"),
        ([X, T, {**N, "data": [True]}], "input 'n' has bool where INT8 is expected"),
        ([X, T, {**N, "data": [128]}], "input 'n' has a number outside the range of INT8"),
        ([X, T, {**N, "datatype": "INT64", "data": [-129]}], "input 'n' has a number outside the range of INT8"),
        ([X, {**T, "datatype": "INT8", "data": [1]}, N], "input 't' has datatype INT8, model 'm' expects BYTES"),
        ([X, T, {"name": "n", "shape": [1], "data": [1]}], "input 'n' has no 'datatype'"),
        ([X, T, 3], "'inputs[2]' is not an object with a 'name'"),
        (3, "request JSON: expected an object with an array 'inputs'"),
    ],
)
def test_invalid_requests_are_rejected(served: Served, inputs: Any, error: str) -> None:
    status, response = served.get("/v2/models/m/infer", {"inputs": inputs})
    assert (status, response["error"][: len(error)]) == (400, error)


@pytest.mark.parametrize("body", [b"{", b"[" * 100_000, b'"\xff"', b"[]", b'{"inputs": [], "id": "\\ud800"}'])
def test_invalid_bodies_are_rejected(served: Served, body: bytes) -> None:
    request = urllib.request.Request(f"{served.server.http_url}/v2/models/m/infer", data=body)
    with pytest.raises(urllib.error.HTTPError) as raised:
        urllib.request.urlopen(request)
    with raised.value as response:
        assert response.code == 400
        assert json.loads(response.read())["error"].startswith("request JSON: ")


def test_only_existing_outputs_can_be_requested(served: Served) -> None:
    assert served.infer(X, T, N, outputs=[{"name": "result"}])[0] == 200
    response = served.infer(X, T, N, outputs=[{"name": "other"}])
    assert response == (400, {"error": "there is no output 'other', the response has result"})


def test_data_of_binary_and_grpc_requests_is_flat(served: Served) -> None:
    arrays = {"x": np.ones((1, 2), np.float32), "t": np.array([b"a"], object), "n": np.ones(1, np.int8)}
    address = str(served.server.http_url).removeprefix("http://")
    for library, target in ((tritonclient.http, address), (tritonclient.grpc, str(served.server.grpc_address))):
        inputs = []
        for name, array in arrays.items():
            datatype = {"x": "FP32", "t": "BYTES", "n": "INT8"}[name]
            inputs.append(library.InferInput(name, list(array.shape), datatype))
            inputs[-1].set_data_from_numpy(array)
        with library.InferenceServerClient(target) as client:
            text = client.infer("m", inputs).as_numpy("result")[0].decode()
        assert "('x', [1, 2], [1.0, 1.0], {})" in text


def test_validation_can_be_disabled(tmp_path: Path) -> None:
    with serving(
        write_function(tmp_path, CODE, inputs=INPUTS), data="sent", validate="off", isolation="server"
    ) as served:
        assert served.infer(X)[0] == 200
