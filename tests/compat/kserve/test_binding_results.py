"""Results of models and their responses over V1, V2 and gRPC."""

from __future__ import annotations

import json
from typing import Any

import grpc
import numpy as np
import pytest
from kserve_serving import CODES, ROW, message_of, request_of, serving

from penstock.compat.kserve.model import Model
from penstock.compat.kserve.protocol.grpc import grpc_predict_v2_pb2 as pb
from penstock.compat.kserve.protocol.infer_type import InferOutput, InferRequest, InferResponse


class ReturnsResult(Model):
    """Returns the test's result."""

    def __init__(self, result: Any = None, name: str = "m") -> None:
        super().__init__(name)
        self.result = result
        self.seen: list[Any] = []
        self.load()

    def predict(self, payload: Any, headers: Any = None) -> Any:
        self.seen.append((payload, headers))
        return self.result(payload) if callable(self.result) else self.result


def tensors(payload: Any, **named: Any) -> InferResponse:
    outputs = []
    for name, array in named.items():
        output = InferOutput(name, list(array.shape), {"f4": "FP32", "f2": "FP16", "i8": "INT64"}[array.dtype.str[1:]])
        output.set_data_from_numpy(array)
        outputs.append(output)
    return InferResponse(payload.id if isinstance(payload, InferRequest) else "", "m", outputs)


def double(payload: Any) -> InferResponse:
    response = tensors(payload, y=payload.inputs[0].as_numpy() * 2)
    if not payload.use_binary_outputs:
        response.outputs[0].set_data_from_numpy(response.outputs[0].as_numpy(), binary_data=False)
    return response


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ({"predictions": [1, 2.5, "é", None, True]}, '{"predictions":[1,2.5,"é",null,true]}'),
        ([1, 2], "[1,2]"),
        (None, "null"),
        ({"a": np.array([[1, 2]]), "b": np.float32(0.1), "c": np.int64(3)}, '{"a":[[1,2]],"b":0.1,"c":3}'),
        ({"a": np.array([0.1], np.float32), "b": np.bool_(True)}, '{"a":[0.1],"b":true}'),
        ({"a": float("nan"), "b": np.array([float("inf")])}, '{"a":null,"b":[null]}'),
        ({"a": np.arange(4).reshape(2, 2).T, 1: 2}, '{"a":[[0,2],[1,3]],"1":2}'),
    ],
    ids=["dict", "list", "None", "arrays", "floats", "nan", "transposed"],
)
def test_s16_v1_responses_are_json(result: Any, text: str) -> None:
    with serving(ReturnsResult(result)) as served:
        response = served.predict({"instances": [1]})
    assert (response.status_code, response.text, response.headers["content-type"]) == (200, text, "application/json")


@pytest.mark.parametrize("result", [b"\x00raw", "text é"])
def test_s16_text_and_bytes_are_unchanged_v1_bodies(result: Any) -> None:
    with serving(ReturnsResult(result)) as served:
        response = served.predict({"instances": [1]})
    assert response.content == (result if isinstance(result, bytes) else result.encode())
    assert response.status_code == 200


def test_s16_results_not_serializable_as_json_are_a_model_error() -> None:
    with serving(ReturnsResult({"a": object()})) as served:
        response = served.predict({"instances": [1]})
    assert response.status_code == 500
    assert "JSON" in response.json()["error"]


def test_s16_infer_response_to_v1_has_the_v2_form() -> None:
    result = InferResponse("i", "m", [InferOutput("y", [1], "FP32", [2.0])])
    with serving(ReturnsResult(result)) as served:
        response = served.predict({"instances": [1]})
    assert response.json()["outputs"] == [{"name": "y", "shape": [1], "datatype": "FP32", "data": [2.0]}]
    assert (response.json()["id"], response.json()["model_name"]) == ("i", "m")


def test_s16_v2_request_and_response_in_json() -> None:
    model = ReturnsResult(double)
    with serving(model) as served:
        response = served.infer()
    assert response.status_code == 200, response.text
    body = response.json()
    assert (body["id"], body["model_name"]) == ("r1", "m")
    assert [(one["name"], one["shape"], one["datatype"], one["data"]) for one in body["outputs"]] == [
        ("y", [1, 2], "FP32", [2.0, 4.0])
    ]
    request, headers = model.seen[0]
    assert isinstance(request, InferRequest)
    assert (request.id, request.model_name, request.from_grpc, request.use_binary_outputs) == ("r1", "m", False, False)
    assert request.inputs[0].data == [1.0, 2.0]
    assert headers["content-type"] == "application/json"


def test_s16_v2_request_and_response_in_binary() -> None:
    head = json.dumps(
        {
            "inputs": [
                {"name": "x", "shape": [1, 2], "datatype": "FP32", "parameters": {"binary_data_size": 8}},
            ],
            "parameters": {"binary_data_output": True},
        }
    ).encode()
    model = ReturnsResult(double)
    with serving(model) as served:
        response = served.infer(
            head + ROW.tobytes(),
            inference_header_content_length=str(len(head)),
            content_type="application/octet-stream",
        )
    length = int(response.headers["inference-header-content-length"])
    assert np.frombuffer(response.content[length:], np.float32).tolist() == [2.0, 4.0]
    assert model.seen[0][0].inputs[0].data == [1.0, 2.0]


@pytest.mark.parametrize("raw", [True, False])
def test_s16_grpc_requests_with_raw_or_typed_contents(raw: bool) -> None:
    model = ReturnsResult(double)
    message = message_of(x=ROW)
    if not raw:
        del message.raw_input_contents[:]
        message.inputs[0].contents.fp32_contents.extend([1, 2])
    with serving(model) as served:
        response = served.send(message, [("x-request-id", "7")])
    assert (response.id, response.model_name, response.outputs[0].name) == ("r1", "m", "y")
    if raw:
        assert np.frombuffer(response.raw_output_contents[0], np.float32).tolist() == [2.0, 4.0]
    else:
        assert list(response.outputs[0].contents.fp32_contents) == [2.0, 4.0]
        assert not response.raw_output_contents
    request, headers = model.seen[0]
    assert (request.from_grpc, request.use_binary_outputs) == (True, raw)
    assert request.inputs[0].data == ([] if raw else [1.0, 2.0])
    assert headers["x-request-id"] == "7"


def test_s16_bytes_elements_are_text_over_rest_and_bytes_over_grpc() -> None:
    seen: list[Any] = []

    def echo(payload: InferRequest) -> InferResponse:
        array = payload.inputs[0].as_numpy()
        seen.append(array.ravel().tolist())
        return InferResponse(payload.id, "m", [InferOutput("y", list(array.shape), "BYTES", array)])

    body = {"inputs": [{"name": "x", "shape": [2], "datatype": "BYTES", "data": ["a", "é"]}]}
    message = pb.ModelInferRequest()
    assert message is not None
    with serving(ReturnsResult(echo)) as served:
        response = served.infer(body)
        grpc_message = message_of(x=np.array([], np.float32))
        grpc_message.inputs[0].datatype = "BYTES"
        grpc_message.inputs[0].shape[:] = [1]
        grpc_message.raw_input_contents[0] = b"\x01\x00\x00\x00a"
        over_grpc = served.send(grpc_message)
    assert response.json()["outputs"][0]["data"] == ["a", "é"]
    assert over_grpc.raw_output_contents[0] == b"\x01\x00\x00\x00a"
    assert seen == [["a", "é"], [b"a"]]


def test_s16_dict_of_outputs_is_a_v2_and_grpc_result() -> None:
    result = {
        "model_name": "m",
        "id": "9",
        "outputs": [{"name": "y", "shape": [1, 2], "datatype": "INT64", "data": [[3, 4]]}],
    }
    with serving(ReturnsResult(result)) as served:
        response, over_grpc = served.infer(), served.call()
    assert response.json()["outputs"][0]["data"] == [3, 4]
    assert np.frombuffer(over_grpc.raw_output_contents[0], np.int64).tolist() == [3, 4]


def test_s16_grpc_message_is_a_grpc_result() -> None:
    result = pb.ModelInferResponse(
        model_name="m",
        outputs=[pb.ModelInferResponse.InferOutputTensor(name="y", datatype="FP32", shape=[1])],
        raw_output_contents=[b"\x00\x00\x80\x3f"],
    )
    with serving(ReturnsResult(result)) as served:
        assert list(served.call().raw_output_contents) == [b"\x00\x00\x80\x3f"]


def test_s16_bytes_are_an_unchanged_v2_body() -> None:
    with serving(ReturnsResult(b"anything")) as served:
        assert served.infer().content == b"anything"


@pytest.mark.parametrize("result", [{"predictions": []}, [1], None, "text", 3], ids=repr)
def test_s16_results_without_outputs_are_a_v2_model_error(result: Any) -> None:
    with serving(ReturnsResult(result)) as served:
        response, refused = served.infer(), served.grpc_error()
    assert response.status_code == 500
    assert "answered a V2 request" in response.json()["error"]
    assert refused == (CODES.INTERNAL, "Internal server error")


def test_d14_fp16_works_over_all_protocols() -> None:
    half = np.array([0.5, 2], np.float16)
    with serving(ReturnsResult(double_half)) as served:
        response, over_grpc = served.infer(request_of(x=half)), served.call(x=half)
    assert response.json()["outputs"][0]["data"] == [1.0, 4.0]
    assert np.frombuffer(over_grpc.raw_output_contents[0], np.float16).tolist() == [1.0, 4.0]


def double_half(payload: InferRequest) -> InferResponse:
    return tensors(payload, y=payload.inputs[0].as_numpy() * np.float16(2))


def test_only_requested_outputs_are_sent() -> None:
    def predict(payload: InferRequest) -> InferResponse:
        return tensors(payload, a=ROW, b=ROW * 2)

    model = ReturnsResult(predict)
    body = {**request_of(x=ROW), "outputs": [{"name": "b"}]}
    with serving(model) as served:
        response = served.infer(body)
        unknown = served.infer({**body, "outputs": [{"name": "z"}]})
    assert [one["name"] for one in response.json()["outputs"]] == ["b"]
    assert [one.name for one in model.seen[0][0].request_outputs] == ["b"]
    assert unknown.status_code == 400
    assert "'z'" in unknown.json()["error"]


def test_parameters_are_passed_in_requests_and_responses() -> None:
    def predict(payload: InferRequest) -> InferResponse:
        result = double(payload)
        result.parameters = {"n": 3, "s": "t"}
        return result

    model = ReturnsResult(predict)
    message = message_of(x=ROW)
    message.parameters["k"].string_param = "v"
    body = {**request_of(x=ROW), "parameters": {"k": "v"}}
    body["inputs"][0]["parameters"] = {"own": True}
    with serving(model) as served:
        response, over_grpc = served.infer(body), served.send(message)
    assert response.json()["parameters"] == {"n": 3, "s": "t"}
    assert over_grpc.parameters["n"].int64_param == 3
    (rest, _), (remote, _) = model.seen
    assert rest.parameters == {"k": "v"}
    assert rest.inputs[0].parameters == {"own": True}
    assert remote.parameters["k"].string_param == "v"


def test_s16_id_version_and_output_parameters_are_sent() -> None:
    def predict(payload: InferRequest) -> InferResponse:
        output = InferOutput("y", [1, 2], "FP32", [2.0, 4.0], {"unit": "m"})
        return InferResponse("own", "m", [output], model_version="7")

    raw = message_of(x=ROW)
    typed = message_of(x=ROW)
    del typed.raw_input_contents[:]
    typed.inputs[0].contents.fp32_contents.extend([1, 2])
    with serving(ReturnsResult(predict)) as served:
        response, over_grpc = served.infer().json(), [served.send(message) for message in (raw, typed)]
    assert (response["id"], response["model_version"], response["model_name"]) == ("own", "7", "m")
    assert response["outputs"][0]["parameters"] == {"unit": "m"}
    for one in over_grpc:
        assert (one.id, one.model_version, one.outputs[0].parameters["unit"].string_param) == ("own", "7", "m")


@pytest.mark.parametrize("binary", [True, False])
def test_s16_model_response_id_is_used_without_a_request_id(binary: bool) -> None:
    def predict(payload: InferRequest) -> InferResponse:
        return InferResponse(payload.id or "generated", "m", [InferOutput("y", [1], "INT64", [3])])

    body = {**request_of(x=ROW), "parameters": {"binary_data_output": binary}}
    del body["id"]
    with serving(ReturnsResult(predict)) as served:
        response, with_request_id = served.infer(body), served.infer({**body, "id": "r"})
    assert b'"id":"generated"' in response.content
    assert b'"id":"r"' in with_request_id.content
    assert ("inference-header-content-length" in response.headers) is binary


def test_s16_typed_responses_have_the_requested_outputs() -> None:
    def predict(payload: InferRequest) -> InferResponse:
        return InferResponse("", "m", [InferOutput(name, [1], "INT64", [3]) for name in "ab"])

    message = message_of(x=ROW)
    del message.raw_input_contents[:]
    message.inputs[0].contents.fp32_contents.extend([1, 2])
    message.outputs.add(name="b")
    with serving(ReturnsResult(predict)) as served:
        response = served.send(message)
        message.outputs.add(name="z")
        with pytest.raises(grpc.RpcError, match="Unexpected inference output 'z' for model 'm'"):
            served.send(message)
    assert [(one.name, list(one.contents.int64_contents)) for one in response.outputs] == [("b", [3])]
    assert response.id == "r1"
