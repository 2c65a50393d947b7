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


class Gives(Model):
    """Returns the test's result."""

    def __init__(self, give: Any = None, name: str = "m") -> None:
        super().__init__(name)
        self.give = give
        self.seen: list[Any] = []
        self.load()

    def predict(self, payload: Any, headers: Any = None) -> Any:
        self.seen.append((payload, headers))
        return self.give(payload) if callable(self.give) else self.give


def tensors(payload: Any, **named: Any) -> InferResponse:
    outputs = []
    for name, array in named.items():
        made = InferOutput(name, list(array.shape), {"f4": "FP32", "f2": "FP16", "i8": "INT64"}[array.dtype.str[1:]])
        made.set_data_from_numpy(array)
        outputs.append(made)
    return InferResponse(payload.id if isinstance(payload, InferRequest) else "", "m", outputs)


def double(payload: Any) -> InferResponse:
    made = tensors(payload, y=payload.inputs[0].as_numpy() * 2)
    if not payload.use_binary_outputs:
        made.outputs[0].set_data_from_numpy(made.outputs[0].as_numpy(), binary_data=False)
    return made


@pytest.mark.parametrize(
    ("given", "text"),
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
def test_s16_v1_responses_are_json(given: Any, text: str) -> None:
    with serving(Gives(given)) as served:
        answer = served.predict({"instances": [1]})
    assert (answer.status_code, answer.text, answer.headers["content-type"]) == (200, text, "application/json")


@pytest.mark.parametrize("given", [b"\x00raw", "text é"])
def test_s16_text_and_bytes_are_a_v1_body_as_they_are(given: Any) -> None:
    with serving(Gives(given)) as served:
        answer = served.predict({"instances": [1]})
    assert answer.content == (given if isinstance(given, bytes) else given.encode())
    assert answer.status_code == 200


def test_s16_values_without_json_form_are_a_model_error() -> None:
    with serving(Gives({"a": object()})) as served:
        answer = served.predict({"instances": [1]})
    assert answer.status_code == 500
    assert "JSON" in answer.json()["error"]


def test_s16_an_infer_response_to_v1_has_the_v2_form() -> None:
    given = InferResponse("i", "m", [InferOutput("y", [1], "FP32", [2.0])])
    with serving(Gives(given)) as served:
        answer = served.predict({"instances": [1]})
    assert answer.json()["outputs"] == [{"name": "y", "shape": [1], "datatype": "FP32", "data": [2.0]}]
    assert (answer.json()["id"], answer.json()["model_name"]) == ("i", "m")


def test_s16_v2_in_json() -> None:
    model = Gives(double)
    with serving(model) as served:
        answer = served.infer()
    assert answer.status_code == 200, answer.text
    said = answer.json()
    assert (said["id"], said["model_name"]) == ("r1", "m")
    assert [(one["name"], one["shape"], one["datatype"], one["data"]) for one in said["outputs"]] == [
        ("y", [1, 2], "FP32", [2.0, 4.0])
    ]
    request, headers = model.seen[0]
    assert isinstance(request, InferRequest)
    assert (request.id, request.model_name, request.from_grpc, request.use_binary_outputs) == ("r1", "m", False, False)
    assert request.inputs[0].data == [1.0, 2.0]
    assert headers["content-type"] == "application/json"


def test_s16_v2_in_binary() -> None:
    head = json.dumps(
        {
            "inputs": [
                {"name": "x", "shape": [1, 2], "datatype": "FP32", "parameters": {"binary_data_size": 8}},
            ],
            "parameters": {"binary_data_output": True},
        }
    ).encode()
    model = Gives(double)
    with serving(model) as served:
        answer = served.infer(
            head + ROW.tobytes(),
            inference_header_content_length=str(len(head)),
            content_type="application/octet-stream",
        )
    length = int(answer.headers["inference-header-content-length"])
    assert np.frombuffer(answer.content[length:], np.float32).tolist() == [2.0, 4.0]
    assert model.seen[0][0].inputs[0].data == [1.0, 2.0]


@pytest.mark.parametrize("raw", [True, False])
def test_s16_over_grpc(raw: bool) -> None:
    model = Gives(double)
    message = message_of(x=ROW)
    if not raw:
        del message.raw_input_contents[:]
        message.inputs[0].contents.fp32_contents.extend([1, 2])
    with serving(model) as served:
        answer = served.send(message, [("x-request-id", "7")])
    assert (answer.id, answer.model_name, answer.outputs[0].name) == ("r1", "m", "y")
    if raw:
        assert np.frombuffer(answer.raw_output_contents[0], np.float32).tolist() == [2.0, 4.0]
    else:
        assert list(answer.outputs[0].contents.fp32_contents) == [2.0, 4.0]
        assert not answer.raw_output_contents
    request, headers = model.seen[0]
    assert (request.from_grpc, request.use_binary_outputs) == (True, raw)
    assert request.inputs[0].data == ([] if raw else [1.0, 2.0])
    assert headers["x-request-id"] == "7"


def test_s16_elements_of_bytes_are_text_over_rest_and_bytes_over_grpc() -> None:
    seen: list[Any] = []

    def echo(payload: InferRequest) -> InferResponse:
        array = payload.inputs[0].as_numpy()
        seen.append(array.ravel().tolist())
        return InferResponse(payload.id, "m", [InferOutput("y", list(array.shape), "BYTES", array)])

    said = {"inputs": [{"name": "x", "shape": [2], "datatype": "BYTES", "data": ["a", "é"]}]}
    message = pb.ModelInferRequest()
    assert message is not None
    with serving(Gives(echo)) as served:
        answer = served.infer(said)
        grpc_message = message_of(x=np.array([], np.float32))
        grpc_message.inputs[0].datatype = "BYTES"
        grpc_message.inputs[0].shape[:] = [1]
        grpc_message.raw_input_contents[0] = b"\x01\x00\x00\x00a"
        over_grpc = served.send(grpc_message)
    assert answer.json()["outputs"][0]["data"] == ["a", "é"]
    assert over_grpc.raw_output_contents[0] == b"\x01\x00\x00\x00a"
    assert seen == [["a", "é"], [b"a"]]


def test_s16_a_dict_of_outputs_is_a_v2_and_grpc_result() -> None:
    given = {
        "model_name": "m",
        "id": "9",
        "outputs": [{"name": "y", "shape": [1, 2], "datatype": "INT64", "data": [[3, 4]]}],
    }
    with serving(Gives(given)) as served:
        answer, over_grpc = served.infer(), served.call()
    assert answer.json()["outputs"][0]["data"] == [3, 4]
    assert np.frombuffer(over_grpc.raw_output_contents[0], np.int64).tolist() == [3, 4]


def test_s16_a_grpc_message_is_a_grpc_result() -> None:
    given = pb.ModelInferResponse(
        model_name="m",
        outputs=[pb.ModelInferResponse.InferOutputTensor(name="y", datatype="FP32", shape=[1])],
        raw_output_contents=[b"\x00\x00\x80\x3f"],
    )
    with serving(Gives(given)) as served:
        assert list(served.call().raw_output_contents) == [b"\x00\x00\x80\x3f"]


def test_s16_bytes_are_an_unchanged_v2_body() -> None:
    with serving(Gives(b"anything")) as served:
        assert served.infer().content == b"anything"


@pytest.mark.parametrize("given", [{"predictions": []}, [1], None, "text", 3], ids=repr)
def test_s16_results_without_v2_form_are_a_model_error(given: Any) -> None:
    with serving(Gives(given)) as served:
        answer, refused = served.infer(), served.refused()
    assert answer.status_code == 500
    assert "answered a V2 request" in answer.json()["error"]
    assert refused == (CODES.INTERNAL, "Internal server error")


def test_d14_fp16_goes_through_all_protocols() -> None:
    half = np.array([0.5, 2], np.float16)
    with serving(Gives(double_half)) as served:
        answer, over_grpc = served.infer(request_of(x=half)), served.call(x=half)
    assert answer.json()["outputs"][0]["data"] == [1.0, 4.0]
    assert np.frombuffer(over_grpc.raw_output_contents[0], np.float16).tolist() == [1.0, 4.0]


def double_half(payload: InferRequest) -> InferResponse:
    return tensors(payload, y=payload.inputs[0].as_numpy() * np.float16(2))


def test_only_requested_outputs_are_sent() -> None:
    def two(payload: InferRequest) -> InferResponse:
        return tensors(payload, a=ROW, b=ROW * 2)

    model = Gives(two)
    body = {**request_of(x=ROW), "outputs": [{"name": "b"}]}
    with serving(model) as served:
        answer = served.infer(body)
        unknown = served.infer({**body, "outputs": [{"name": "z"}]})
    assert [one["name"] for one in answer.json()["outputs"]] == ["b"]
    assert [one.name for one in model.seen[0][0].request_outputs] == ["b"]
    assert unknown.status_code == 400
    assert "'z'" in unknown.json()["error"]


def test_parameters_go_both_ways() -> None:
    def told(payload: InferRequest) -> InferResponse:
        made = double(payload)
        made.parameters = {"n": 3, "s": "t"}
        return made

    model = Gives(told)
    message = message_of(x=ROW)
    message.parameters["k"].string_param = "v"
    body = {**request_of(x=ROW), "parameters": {"k": "v"}}
    body["inputs"][0]["parameters"] = {"own": True}
    with serving(model) as served:
        answer, over_grpc = served.infer(body), served.send(message)
    assert answer.json()["parameters"] == {"n": 3, "s": "t"}
    assert over_grpc.parameters["n"].int64_param == 3
    (rest, _), (remote, _) = model.seen
    assert rest.parameters == {"k": "v"}
    assert rest.inputs[0].parameters == {"own": True}
    assert remote.parameters["k"].string_param == "v"


def test_s16_id_version_and_output_parameters_are_sent() -> None:
    def told(payload: InferRequest) -> InferResponse:
        output = InferOutput("y", [1, 2], "FP32", [2.0, 4.0], {"unit": "m"})
        return InferResponse("own", "m", [output], model_version="7")

    raw = message_of(x=ROW)
    typed = message_of(x=ROW)
    del typed.raw_input_contents[:]
    typed.inputs[0].contents.fp32_contents.extend([1, 2])
    with serving(Gives(told)) as served:
        answer, over_grpc = served.infer().json(), [served.send(message) for message in (raw, typed)]
    assert (answer["id"], answer["model_version"], answer["model_name"]) == ("own", "7", "m")
    assert answer["outputs"][0]["parameters"] == {"unit": "m"}
    for one in over_grpc:
        assert (one.id, one.model_version, one.outputs[0].parameters["unit"].string_param) == ("own", "7", "m")


@pytest.mark.parametrize("binary", [True, False])
def test_s16_a_models_id_is_used_without_a_request_id(binary: bool) -> None:
    def made(payload: InferRequest) -> InferResponse:
        return InferResponse(payload.id or "made", "m", [InferOutput("y", [1], "INT64", [3])])

    body = {**request_of(x=ROW), "parameters": {"binary_data_output": binary}}
    del body["id"]
    with serving(Gives(made)) as served:
        answer, of_caller = served.infer(body), served.infer({**body, "id": "r"})
    assert b'"id":"made"' in answer.content
    assert b'"id":"r"' in of_caller.content
    assert ("inference-header-content-length" in answer.headers) is binary


def test_s16_typed_responses_have_the_requested_outputs() -> None:
    def two(payload: InferRequest) -> InferResponse:
        return InferResponse("", "m", [InferOutput(name, [1], "INT64", [3]) for name in "ab"])

    message = message_of(x=ROW)
    del message.raw_input_contents[:]
    message.inputs[0].contents.fp32_contents.extend([1, 2])
    message.outputs.add(name="b")
    with serving(Gives(two)) as served:
        answer = served.send(message)
        message.outputs.add(name="z")
        with pytest.raises(grpc.RpcError, match="Unexpected inference output 'z' for model 'm'"):
            served.send(message)
    assert [(one.name, list(one.contents.int64_contents)) for one in answer.outputs] == [("b", [3])]
    assert answer.id == "r1"
