"""InferRequest: rows S37 to S43, R10."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.compat.kserve import InferInput, InferRequest
from penstock.compat.kserve.errors import InvalidInput
from penstock.compat.kserve.protocol._arrays import Shown
from penstock.compat.kserve.protocol.grpc.grpc_predict_v2_pb2 import InferParameter, ModelInferRequest
from penstock.compat.kserve.protocol.infer_type import RequestedOutput, to_grpc_parameters
from penstock.compat.kserve.protocol.rest.v2_datamodels import InferenceRequest, InferenceResponse, ResponseOutput


def list_request(**more: Any) -> InferRequest:
    return InferRequest("m", [InferInput("x", [2], "FP32", [1, 2], {"k": "v"})], "1", **more)


def raw(datatype: str = "FP32", dtype: Any = np.float32) -> InferInput:
    tensor = InferInput("x", [2], datatype)
    tensor.set_data_from_numpy(np.array([1, 2], dtype=dtype))
    return tensor


def test_s38_constructor_values_are_retained() -> None:
    tensor = InferInput("x", [1], "FP32", [1])
    request = InferRequest("m", [tensor], "1", None, True, {"p": 1}, [RequestedOutput("y")], "3")
    assert (request.id, request.model_name, request.inputs, request.from_grpc) == ("1", "m", [tensor], True)
    assert (request.parameters, request.request_outputs, request.model_version) == (
        {"p": 1},
        [RequestedOutput("y")],
        "3",
    )
    bare = InferRequest("m", [])
    assert (bare.id, bare.parameters, bare.from_grpc, bare.request_outputs) == (None, None, False, None)


def test_s38_raw_inputs_are_assigned_in_order() -> None:
    inputs = [InferInput("a", [1], "UINT8"), InferInput("b", [1], "UINT8")]
    request = InferRequest("m", inputs, raw_inputs=[b"\1", b"\2"], from_grpc=True)
    assert [one.as_numpy().tolist() for one in request.inputs] == [[1], [2]]
    with pytest.raises(IndexError):
        InferRequest("m", inputs, raw_inputs=[b"\1", b"\2", b"\3"])


def test_s37_grpc_raw_inputs_request_binary_outputs() -> None:
    assert InferRequest("m", [raw()], raw_inputs=[b"12345678"], from_grpc=True).use_binary_outputs is True
    assert InferRequest("m", [raw()], from_grpc=True).use_binary_outputs is False
    request = list_request(from_grpc=True, parameters=to_grpc_parameters({"binary_data_output": True}))
    assert request.use_binary_outputs is False


def test_s37_http_parameter_requests_binary_outputs() -> None:
    assert list_request(parameters={"binary_data_output": True}).use_binary_outputs is True
    assert list_request(parameters={"a": 1}).use_binary_outputs is False
    assert list_request().use_binary_outputs is False


@pytest.mark.usefixtures("old_dialect")
def test_s37_dialect_0_13_uses_only_raw_inputs() -> None:
    assert list_request(parameters={"binary_data_output": True}).use_binary_outputs is False
    assert InferRequest("m", [raw()], raw_inputs=[b"12345678"]).use_binary_outputs is True


def test_s39_inputs_become_dataframe_columns() -> None:
    pd = pytest.importorskip("pandas")
    inputs = [InferInput("a", [2], "INT32", [1, 2]), InferInput("b", [2], "BYTES", [b"x", "y"])]
    frame = InferRequest("m", inputs).as_dataframe()
    assert frame.equals(pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}))


def test_s39_raw_and_wide_inputs_become_dataframe_columns() -> None:
    pd = pytest.importorskip("pandas")
    assert InferRequest("m", [raw("INT64", np.int64)]).as_dataframe().equals(pd.DataFrame({"x": [1, 2]}))
    wide = InferInput("a", [2, 2], "FP64", [[1, 2], [3, 4]])
    expected = pd.DataFrame({"a_0": [1, 3], "a_1": [2, 4], "b": [5, 6]})
    assert InferRequest("m", [wide, InferInput("b", [2, 1], "INT64", [[5], [6]])]).as_dataframe().equals(expected)


def test_s40_from_grpc_with_typed_contents() -> None:
    message = ModelInferRequest(
        model_name="m",
        id="1",
        model_version="3",
        parameters={"p": InferParameter(int64_param=4)},
        inputs=[
            {"name": "x", "shape": [1, 2], "datatype": "FP32", "contents": {"fp32_contents": [1, 2]}},
            {
                "name": "t",
                "shape": [1],
                "datatype": "BYTES",
                "contents": {"bytes_contents": [b"a"]},
                "parameters": {"k": InferParameter(string_param="v")},
            },
        ],
        outputs=[{"name": "y"}, {"name": "z", "parameters": {"classification": InferParameter(int64_param=2)}}],
    )
    request = InferRequest.from_grpc(message)
    assert (request.model_name, request.id, request.model_version, request.from_grpc) == ("m", "1", "3", True)
    assert request.inputs[0] == InferInput("x", [1, 2], "FP32", [1.0, 2.0])
    assert request.inputs[1] == InferInput("t", [1], "BYTES", [b"a"], {"k": "v"})
    assert request.parameters is not None
    assert request.parameters["p"].int64_param == 4
    assert request.request_outputs == [RequestedOutput("y"), RequestedOutput("z", {"classification": 2})]
    assert request.use_binary_outputs is False


def test_s40_from_grpc_with_raw_contents() -> None:
    request = InferRequest.from_grpc(InferRequest("m", [raw()]).to_grpc())
    assert request.inputs[0].data == []
    assert request.inputs[0].as_numpy().tolist() == [1, 2]
    assert request.use_binary_outputs is True


def test_s40_from_grpc_rejects_unknown_datatypes() -> None:
    with pytest.raises(InvalidInput, match=r"^invalid content type$"):
        InferRequest.from_grpc(ModelInferRequest(inputs=[{"name": "x", "datatype": "BF16"}]))


@pytest.mark.usefixtures("old_dialect")
def test_s40_s22_dialect_0_13_leaves_tensor_parameters_as_messages() -> None:
    request = InferRequest.from_grpc(list_request().to_grpc())
    parameters = request.inputs[0].parameters
    assert parameters is not None
    assert parameters["k"].string_param == "v"


def test_s41_inputs_are_found_by_name() -> None:
    request = list_request()
    assert request.get_input_by_name("x") is request.inputs[0]
    assert request.get_input_by_name("y") is None


def test_s42_grpc_round_trip() -> None:
    request = list_request(
        parameters={"p": True, "q": 2}, request_outputs=[RequestedOutput("y", {"binary_data": True})]
    )
    message = request.to_grpc()
    assert message.inputs[0].contents.fp32_contents == [1, 2]
    assert not message.raw_input_contents
    decoded = InferRequest.from_grpc(ModelInferRequest.FromString(message.SerializeToString()))
    assert decoded.inputs == [InferInput("x", [2], "FP32", [1.0, 2.0], {"k": "v"})]
    assert decoded.request_outputs == request.request_outputs
    assert decoded.parameters is not None
    assert (decoded.parameters["p"].bool_param, decoded.parameters["q"].int64_param) == (True, 2)


def test_s42_arrays_are_sent_raw_and_text_as_utf8() -> None:
    message = InferRequest("m", [InferInput("x", [1], "FP64", np.ones(1))]).to_grpc()
    assert message.raw_input_contents == [np.ones(1).tobytes()]
    assert message.inputs[0].parameters["binary_data_size"].int64_param == 8
    message = InferRequest("m", [InferInput("x", [2], "BYTES", ["é", b"b"])]).to_grpc()
    assert message.inputs[0].contents.bytes_contents == ["é".encode(), b"b"]


def test_s42_nested_lists_are_flattened_and_mixed_inputs_sent_raw() -> None:
    message = InferRequest("m", [InferInput("x", [1, 2], "INT32", [[1, 2]])]).to_grpc()
    assert message.inputs[0].contents.int_contents == [1, 2]
    mixed = InferRequest("m", [InferInput("a", [1], "UINT8", [7]), InferInput("b", [1], "UINT8", np.ones(1, "u1"))])
    assert mixed.to_grpc().raw_input_contents == [b"\7", b"\1"]


def test_s42_to_grpc_rejects_invalid_tensors() -> None:
    with pytest.raises(InvalidInput, match=r"^input data is not a List$"):
        InferRequest("m", [InferInput("x", [1], "FP32")]).to_grpc()
    with pytest.raises(InvalidInput, match=r"^invalid input datatype$"):
        InferRequest("m", [InferInput("x", [1], "FP16", [1.0])]).to_grpc()


def test_s43_d5_to_rest_with_lists() -> None:
    request = list_request(parameters={"p": 1}, request_outputs=[RequestedOutput("y", {"binary_data": False})])
    body, length = request.to_rest()
    assert length is None
    assert body == {
        "id": "1",
        "model_name": "m",
        "inputs": [{"name": "x", "shape": [2], "datatype": "FP32", "parameters": {"k": "v"}, "data": [1, 2]}],
        "outputs": [{"name": "y", "parameters": {"binary_data": False}}],
        "parameters": {"p": 1},
    }
    assert len(InferRequest("m", []).to_rest()[0]["id"]) == 36


def test_s43_d5_to_rest_with_raw_bytes() -> None:
    request = InferRequest("m", [InferInput("a", [1], "INT32", [7]), raw()], "1")
    body, length = request.to_rest()
    header = json.loads(body[:length])
    assert header["inputs"][0] == {"name": "a", "shape": [1], "datatype": "INT32", "data": [7]}
    assert header["inputs"][1]["parameters"] == {"binary_data_size": 8}
    assert body[length:] == np.array([1, 2], np.float32).tobytes()


def test_s43_to_rest_does_not_modify_the_request() -> None:
    array = np.ones(2, np.float32)
    request = InferRequest("m", [InferInput("x", [2], "FP32", array)], "1")
    assert request.to_rest()[0]["inputs"][0]["data"] == [1, 1]
    assert request.inputs[0].data is array


def test_s43_grpc_requests_convert_to_http() -> None:
    request = InferRequest.from_grpc(InferRequest("m", [raw()]).to_grpc())
    body, length = request.to_rest()
    decoded = InferRequest.from_bytes(body, length, "m")
    assert decoded.inputs[0].as_numpy().tolist() == [1, 2]


def test_s43_to_rest_rejects_invalid_tensors() -> None:
    with pytest.raises(InvalidInput, match=r"^'data' field is missing for input 'x' for model 'm'$"):
        InferRequest("m", [InferInput("x", [1], "FP32")]).to_rest()
    with pytest.raises(InvalidInput, match=r"^Both 'data' and 'raw_data' fields are set for input 'x' for model 'm'$"):
        InferRequest("m", [InferInput("x", [1], "UINT8", [1])], raw_inputs=[b"\1"]).to_rest()


def test_s43_d14_fp16_lists_are_rejected_and_arrays_sent_raw() -> None:
    text = "Sending FP16 data via JSON is not supported. Please use the binary data format for input x"
    with pytest.raises(InvalidInput, match=f"^{text}$"):
        InferRequest("m", [InferInput("x", [1], "FP16", [1.0])]).to_rest()
    body, length = InferRequest("m", [InferInput("x", [1], "FP16", np.ones(1, np.float16))]).to_rest()
    assert body[length:] == np.ones(1, np.float16).tobytes()


@pytest.mark.usefixtures("old_dialect")
def test_s43_d5_d14_dialect_0_13_to_rest_returns_a_dict() -> None:
    request = InferRequest("m", [InferInput("x", [1], "FP16", [1.0]), raw()], "1", parameters={"p": 1})
    assert request.to_rest() == {
        "id": "1",
        "inputs": [
            {"name": "x", "shape": [1], "datatype": "FP16", "data": [1.0]},
            {"name": "x", "shape": [2], "datatype": "FP32", "data": [1.0, 2.0]},
        ],
        "parameters": {"p": 1},
    }


def test_r10_from_bytes_parses_json_and_binary() -> None:
    inputs = [InferInput("a", [1], "INT32", [7]), raw(), raw("FP16", np.float16), raw("BYTES", object)]
    source = InferRequest("m", inputs, "1", parameters={"p": 1.5}, request_outputs=[RequestedOutput("y", {"b": 1})])
    body, length = source.to_rest()
    request = InferRequest.from_bytes(body, length, "n")
    assert (request.model_name, request.id, request.parameters, request.from_grpc) == ("n", "1", {"p": 1.5}, False)
    assert [one.data for one in request.inputs] == [[7], [1.0, 2.0], [1.0, 2.0], ["1", "2"]]
    assert request.inputs[1].parameters == {}
    assert request.inputs[2].as_numpy().dtype == np.float16
    assert request.request_outputs == [RequestedOutput("y", {"b": 1})]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("{", "Unrecognized request format: "),
        ("", "Unrecognized request format: "),
        ('{"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[NaN]}]}', "Unrecognized request format: "),
        ('{"inputs":[{"name":"x","shape":[1],"datatype":"FP32"}]}', "'data' field is missing for input 'x' for model"),
        ('{"inputs":[{"name":"x","shape":[1],"datatype":"FP16","data":[1]}]}', "Receiving FP16 data via JSON is not"),
        ('{"inputs":[{"shape":[1]}]}', "Unrecognized request format: a tensor needs name, shape and datatype"),
        ('{"inputs":[],"outputs":[{}]}', "Unrecognized request format: a requested output needs a name: 'name'"),
        (
            '{"inputs":[{"name":"x","shape":[1],"datatype":"X","parameters":[1]}]}',
            "Unrecognized request format: the parameters of 'x' are not an object",
        ),
        ('{"inputs":[3]}', "Unrecognized request format: a tensor needs name, shape and datatype"),
        ("[]", 'Expected "inputs" to be a list'),
        ('{"inputs":3}', 'Expected "inputs" to be a list'),
        (
            '{"inputs":[{"name":"x","shape":[2],"datatype":"FP32","parameters":{"binary_data_size":8}}]}',
            "input 'x': cannot reshape array of size 0 into shape (2,)",
        ),
        (
            '{"inputs":[{"name":"x","shape":[2],"datatype":"FP32","parameters":{"binary_data_size":-1}}]}',
            "'data' field is missing for input 'x' for model 'm'",
        ),
    ],
)
def test_r10_from_bytes_rejects_invalid_bodies(body: str, text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        InferRequest.from_bytes(body.encode(), len(body), "m")
    assert str(caught.value).startswith(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 9) | st.sampled_from(["FP32", "BYTES", "INT8", "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["binary_data_size", "name"]), inner),
    max_leaves=6,
)
TENSORS = st.dictionaries(st.sampled_from(["name", "shape", "datatype", "data", "parameters"]), JSON)
BODIES = st.dictionaries(st.sampled_from(["inputs", "outputs", "id", "parameters"]), JSON | st.lists(TENSORS))


@given(BODIES, st.binary(max_size=12))
def test_any_body_is_parsed_or_rejected(body: Any, tail: bytes) -> None:
    text = json.dumps(body).encode()
    try:
        for tensor in InferRequest.from_bytes(text + tail, len(text), "m").inputs:
            tensor.as_numpy()
    except InvalidInput:
        return


BODY = {
    "id": "1",
    "inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": [1]}],
    "outputs": [{"name": "y"}],
    "parameters": {"p": 1},
}


def test_from_inference_request_accepts_a_parsed_body() -> None:
    body = InferenceRequest.model_validate(BODY)
    request = InferRequest.from_inference_request(body, "m")
    assert request.inputs == [InferInput("x", [1], "FP32", [1], {})]
    assert request.request_outputs == [RequestedOutput("y", {})]
    assert (request.id, request.parameters) == ("1", {"p": 1})
    body.inputs[0].datatype = "FP16"
    with pytest.raises(InvalidInput, match=r"^Sending FP16 data via JSON is not supported"):
        InferRequest.from_inference_request(body, "m")


def test_from_inference_request_accepts_pydantic_models() -> None:
    pydantic = pytest.importorskip("pydantic")
    tensor = pydantic.create_model("Tensor", name=str, shape=list, datatype=str, data=list, parameters=(Any, None))
    kind = pydantic.create_model("Body", id=str, inputs=list[tensor], outputs=(Any, None), parameters=(Any, None))
    request = InferRequest.from_inference_request(kind.model_validate({**BODY, "outputs": None}), "m")
    assert request.inputs == [InferInput("x", [1], "FP32", [1], {})]
    assert request.request_outputs is None


def test_bodies_convert_from_and_to_dicts() -> None:
    tensor = {"name": "y", "shape": [1], "datatype": "FP32", "parameters": None, "data": [1]}
    body = InferenceResponse(model_name="m", id="1", outputs=[ResponseOutput.model_validate(tensor)])
    expected = {"model_name": "m", "model_version": None, "id": "1", "parameters": None, "outputs": [tensor]}
    assert body.model_dump() == body.dict() == expected
    assert list(body.model_dump()) == list(expected)
    assert json.loads(body.model_dump_json()) == json.loads(body.json()) == expected
    assert body.model_dump(exclude_none=True).keys() == {"model_name", "id", "outputs"}
    assert InferenceResponse.model_validate(expected) == body
    assert InferenceResponse.model_validate(body) is body


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({}, "InferenceRequest: inputs missing"),
        ({"inputs": 3}, "InferenceRequest.inputs: got int, expected a list"),
        ({"inputs": None}, "InferenceRequest.inputs: got NoneType, expected a list"),
        ({"inputs": [3]}, "RequestInput: got int, expected an object"),
        ({"inputs": [{"name": "x", "shape": [1]}]}, "RequestInput: datatype, data missing"),
        (
            {"inputs": [{"name": "x", "shape": [1], "datatype": "X", "data": 3}]},
            "RequestInput.data: got int, expected a list",
        ),
        (3, "InferenceRequest: got int, expected an object"),
    ],
)
def test_invalid_bodies_are_rejected(body: Any, text: str) -> None:
    with pytest.raises(ValueError, match=f"^{text}$"):
        InferenceRequest.model_validate(body)


def test_requests_compare_by_value() -> None:
    assert list_request() == list_request()
    assert list_request() != list_request(parameters={})
    assert list_request() != list_request(request_outputs=[RequestedOutput("y")])
    assert list_request() != "text"
    assert pickle.loads(pickle.dumps(list_request(from_grpc=True))) == list_request(from_grpc=True)


def test_request_to_dict_and_str() -> None:
    request = list_request()
    assert request.to_dict() == {
        "id": "1",
        "model_name": "m",
        "inputs": [request.inputs[0].to_dict()],
        "parameters": None,
        "from_grpc": False,
    }
    assert str(request).startswith('"id": "1","model_name": "m","inputs": ["name": "x",')


def test_server_tensors_convert_to_rest_and_grpc() -> None:
    array = np.array([[1.1, 2]], np.float32)
    for form in (Shown.JSON, Shown.NESTED, Shown.LIST):
        request = InferRequest("m", [InferInput._holding("x", "FP32", array, None, form)], "1")
        data = request.to_rest()[0]["inputs"][0]["data"]
        assert np.allclose(data, [[1.1, 2]] if form is Shown.NESTED else [1.1, 2])
        assert np.allclose(request.to_grpc().inputs[0].contents.fp32_contents, [1.1, 2])
    request = InferRequest("m", [InferInput._holding("x", "FP32", array, None, Shown.RAW)], "1")
    assert request.to_grpc().raw_input_contents == [array.tobytes()]
