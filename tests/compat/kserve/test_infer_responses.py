"""InferResponse: rows S44 to S49, R10."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import pytest

from penstock.compat.kserve import InferOutput, InferResponse
from penstock.compat.kserve.errors import InferenceError, InvalidInput
from penstock.compat.kserve.protocol.grpc.grpc_predict_v2_pb2 import ModelInferResponse
from penstock.compat.kserve.protocol.infer_type import RequestedOutput

BODY = {
    "model_name": "m",
    "model_version": "3",
    "id": "1",
    "parameters": {"p": 1},
    "outputs": [{"name": "y", "shape": [1], "datatype": "fp32", "data": [1]}],
}


def output(name: str = "y", datatype: str = "FP32", dtype: Any = np.float32) -> InferOutput:
    return InferOutput(name, [2], datatype, np.array([1, 2], dtype=dtype))


def test_s44_constructor_values_are_retained() -> None:
    response = InferResponse("1", "m", [output()], "3", None, True, {"p": 1})
    assert (response.id, response.model_name, response.model_version) == ("1", "m", "3")
    assert (response.outputs, response.from_grpc, response.parameters) == ([output()], True, {"p": 1})
    raw = InferResponse("1", "m", [InferOutput("y", [1], "UINT8")], raw_outputs=[b"\7"])
    assert raw.outputs[0].as_numpy().tolist() == [7]


def test_s45_from_grpc_with_typed_and_raw_contents() -> None:
    message = InferResponse("1", "m", [InferOutput("y", [2], "INT64", [1, 2], {"k": 3})], "3").to_grpc()
    response = InferResponse.from_grpc(ModelInferResponse.FromString(message.SerializeToString()))
    assert (response.id, response.model_name, response.model_version, response.from_grpc) == ("1", "m", "3", True)
    assert response.outputs[0].data == [1, 2]
    assert response.outputs[0].parameters is not None
    assert response.outputs[0].parameters["k"].int64_param == 3
    raw = InferResponse.from_grpc(InferResponse("1", "m", [output()]).to_grpc())
    assert raw.outputs[0].data == []
    assert raw.outputs[0].as_numpy().tolist() == [1, 2]


def test_s46_d6_from_rest_with_and_without_model_name() -> None:
    responses = [
        InferResponse.from_rest(BODY),
        InferResponse.from_rest(response=BODY),
        InferResponse.from_rest("n", BODY),
        InferResponse.from_rest(model_name="n", response=BODY),
        InferResponse.from_rest("n", response=BODY),
    ]
    assert [one.model_name for one in responses] == ["m", "m", "n", "n", "n"]
    for response in responses:
        assert (response.id, response.model_version, response.parameters) == ("1", "3", {"p": 1})
        assert response.outputs == [InferOutput("y", [1], "FP32", [1])]


@pytest.mark.parametrize("arguments", [(), ("m",), (BODY, "m")])
def test_s46_from_rest_rejects_other_arguments(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError, match=r"^from_rest: expected a dict"):
        InferResponse.from_rest(*arguments)


def test_s46_from_rest_requires_data() -> None:
    with pytest.raises(KeyError, match="data"):
        InferResponse.from_rest({"outputs": [{"name": "y", "shape": [1], "datatype": "FP32"}]})


def test_s47_outputs_are_found_by_name() -> None:
    response = InferResponse("1", "m", [output(), output("z")])
    assert response.get_output_by_name("z") is response.outputs[1]
    assert response.get_output_by_name("x") is None


def test_s48_to_grpc_sends_lists_typed_and_arrays_raw() -> None:
    message = InferResponse(
        "1", "m", [InferOutput("y", [2], "BYTES", ["a", b"b"])], "3", parameters={"p": True}
    ).to_grpc()
    assert message.outputs[0].contents.bytes_contents == [b"a", b"b"]
    assert (message.id, message.model_version, message.parameters["p"].bool_param) == ("1", "3", True)
    message = InferResponse("1", "m", [output()]).to_grpc()
    assert message.raw_output_contents == [np.array([1, 2], np.float32).tobytes()]


def test_s48_one_fp16_output_makes_all_outputs_raw() -> None:
    outputs = [InferOutput("a", [1], "UINT8", [7]), InferOutput("b", [1], "FP16", [1.0])]
    message = InferResponse("1", "m", outputs).to_grpc()
    assert message.raw_output_contents == [b"\7", np.ones(1, np.float16).tobytes()]
    binary = InferResponse("1", "m", [InferOutput("a", [1], "UINT8", [7])], use_binary_outputs=True).to_grpc()
    assert binary.raw_output_contents == [b"\7"]


def test_s48_to_grpc_rejects_invalid_outputs() -> None:
    for data, datatype, text in [
        ((1, 2), "FP32", "output data is not a List"),
        (None, "FP32", "output data is not a List"),
        ([1], "BF16", "to_grpc: invalid output datatype"),
    ]:
        with pytest.raises(InvalidInput, match=f"^{text}$"):
            InferResponse("1", "m", [InferOutput("y", [1], datatype, data)]).to_grpc()
    with pytest.raises(InvalidInput, match=r"^to_grpc: invalid parameter value: 1\.5$"):
        InferResponse("1", "m", [output()], parameters={"p": 1.5}).to_grpc()


def test_s49_d5_to_rest_in_json() -> None:
    outputs = [InferOutput("y", [1, 2], "INT32", [[1, 2]], {"k": 1})]
    body, length = InferResponse("1", "m", outputs, "3", parameters={"p": 1}).to_rest()
    assert length is None
    assert body == {
        "id": "1",
        "model_name": "m",
        "model_version": "3",
        "outputs": [{"name": "y", "shape": [1, 2], "datatype": "INT32", "parameters": {"k": 1}, "data": [1, 2]}],
        "parameters": {"p": 1},
    }
    assert InferResponse("1", "m", [output()]).to_rest()[0]["model_version"] is None


def test_s49_binary_outputs_are_all_raw() -> None:
    body, length = InferResponse("1", "m", [output(), output("t", "BYTES", object)], use_binary_outputs=True).to_rest()
    header = json.loads(body[:length])
    assert [one["parameters"] for one in header["outputs"]] == [{"binary_data_size": 8}, {"binary_data_size": 10}]
    assert body[length:] == np.array([1, 2], np.float32).tobytes() + b"\1\0\0\0001\1\0\0\0002"


def test_s49_requested_outputs_override_binary_outputs() -> None:
    requested = [RequestedOutput("z", {"binary_data": True}), RequestedOutput("y")]
    outputs = [output(), output("z"), output("unrequested")]
    body, length = InferResponse("1", "m", outputs, use_binary_outputs=True, requested_outputs=requested).to_rest()
    header = json.loads(body[:length])
    assert [(one["name"], "data" in one) for one in header["outputs"]] == [("z", False), ("y", True)]


def test_s49_unknown_requested_outputs_are_rejected() -> None:
    with pytest.raises(InvalidInput, match=r"^Unexpected inference output 'q' for model 'm'$"):
        InferResponse("1", "m", [output()], requested_outputs=[RequestedOutput("q")]).to_rest()


def test_s49_to_rest_rejects_invalid_outputs() -> None:
    with pytest.raises(InvalidInput, match=r"^'data' field is missing for output 'y' for model 'm'$"):
        InferResponse("1", "m", [InferOutput("y", [1], "FP32")]).to_rest()
    with pytest.raises(InvalidInput, match=r"^Sending FP16 data via JSON is not supported.*for output y$"):
        InferResponse("1", "m", [output(datatype="FP16", dtype=np.float16)]).to_rest()
    with pytest.raises(ValueError, match="cannot reshape"):
        InferResponse("1", "m", [InferOutput("y", [3], "FP32", [1])]).to_rest()
    with pytest.raises(InferenceError, match=r"^got unexpected datatype FP64 from numpy array, expected FP32$"):
        InferResponse("1", "m", [InferOutput("y", [1], "FP32", np.ones(1))]).to_rest()


@pytest.mark.usefixtures("old_dialect")
def test_s49_d5_d14_dialect_0_13_to_rest_returns_a_dict() -> None:
    raw = InferOutput("r", [1, 2], "UINT8")
    raw.set_data_from_numpy(np.array([[1, 2]], np.uint8))
    outputs = [InferOutput("y", [1, 1], "FP16", [[1.0]]), raw]
    assert InferResponse("1", "m", outputs).to_rest() == {
        "id": "1",
        "model_name": "m",
        "model_version": None,
        "outputs": [
            {"name": "y", "shape": [1, 1], "datatype": "FP16", "data": [[1.0]]},
            {"name": "r", "shape": [1, 2], "datatype": "UINT8", "data": [1, 2]},
        ],
    }


def test_r10_from_bytes_parses_json_and_binary() -> None:
    outputs = [output(), output("h", "FP16", np.float16), output("t", "BYTES", object)]
    body, length = InferResponse("1", "m", outputs, "3", use_binary_outputs=True).to_rest()
    response = InferResponse.from_bytes(body, length)
    assert (response.id, response.model_name, response.model_version) == ("1", "m", "3")
    assert [one.data for one in response.outputs] == [[1.0, 2.0], [1.0, 2.0], ["1", "2"]]
    assert response.outputs[1].as_numpy().dtype == np.float16


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("nothing", "Unrecognized request format: "),
        ('{"model_name":"m"}', 'Expected "outputs" to be a list'),
        (
            '{"model_name":"m","outputs":[{"name":"y","shape":[1],"datatype":"FP32"}]}',
            "'data' field is missing for output 'y' for model 'm'",
        ),
    ],
)
def test_r10_from_bytes_rejects_invalid_bodies(body: str, text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        InferResponse.from_bytes(body.encode(), len(body))
    assert str(caught.value).startswith(text)


def test_nan_is_null_in_json_next_to_binary_outputs() -> None:
    outputs = [InferOutput("n", [2], "FP64", [float("nan"), 1.0]), output("r")]
    requested = [RequestedOutput("n"), RequestedOutput("r", {"binary_data": True})]
    body, length = InferResponse("1", "m", outputs, requested_outputs=requested).to_rest()
    assert json.loads(body[:length])["outputs"][0]["data"] == [None, 1.0]


def test_responses_compare_by_value() -> None:
    one = InferResponse("1", "m", [output()])
    assert one == InferResponse("1", "m", [output()])
    assert one != InferResponse("1", "m", [output()], "3")
    assert one != InferResponse("1", "m", [output("z")])
    assert pickle.loads(pickle.dumps(one)) == one
    assert one.to_dict()["outputs"] == [one.outputs[0].to_dict()]
    assert str(one).startswith('"id": "1","model_name": "m","outputs": [')
