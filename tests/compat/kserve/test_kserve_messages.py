"""gRPC messages: row R11. The reference is tritonclient's protobuf messages."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.compat.kserve import InferRequest, InferResponse
from penstock.compat.kserve.protocol.grpc import grpc_predict_v2_pb2 as ours
from penstock.compat.kserve.protocol.grpc import grpc_predict_v2_pb2_grpc as service
from penstock.compat.kserve.protocol.grpc._wire import DecodeError
from penstock.compat.kserve.protocol.infer_type import to_grpc_parameters, to_http_parameters

service_pb2 = pytest.importorskip("tritonclient.grpc.service_pb2")
json_format = pytest.importorskip("google.protobuf.json_format")

CONTENTS = {
    "bool_contents": [True, False],
    "int_contents": [-1, 0, 2**31 - 1, -(2**31)],
    "int64_contents": [-1, 300, 2**63 - 1],
    "uint_contents": [1, 300, 2**32 - 1],
    "uint64_contents": [1, 2**64 - 1],
    "fp32_contents": [1.1, -2, 0],
    "fp64_contents": [1.1, 1e300],
    "bytes_contents": [b"", b"\xff\0"],
}


def request(package: Any) -> Any:
    """Returns the same request as a message of either package."""
    return package.ModelInferRequest(
        model_name="é",
        id="1",
        parameters={
            "b": package.InferParameter(bool_param=False),
            "i": package.InferParameter(int64_param=-3),
            "s": package.InferParameter(string_param="x"),
            "n": package.InferParameter(),
        },
        inputs=[
            package.ModelInferRequest.InferInputTensor(
                name=name, shape=[1, -1, 400], datatype="X", contents={name: values}
            )
            for name, values in CONTENTS.items()
        ],
        outputs=[{"name": "y", "parameters": {"k": package.InferParameter(int64_param=2)}}],
        raw_input_contents=[b"abc", b""],
    )


def test_r11_serialized_bytes_equal_protobuf() -> None:
    protobuf, light = request(service_pb2), request(ours)
    assert service_pb2.ModelInferRequest.FromString(light.SerializeToString()) == protobuf
    assert ours.ModelInferRequest.FromString(protobuf.SerializeToString()) == light
    assert light.ByteSize() == protobuf.ByteSize()


def test_r11_text_format_equals_protobuf() -> None:
    for field, values in CONTENTS.items():
        parts: list[Any] = [
            package.ModelInferRequest.InferInputTensor(name='a"b', shape=[2], contents={field: values})
            for package in (service_pb2, ours)
        ]
        assert str(parts[0]) == str(parts[1])


def test_r11_json_format_converts_messages() -> None:
    protobuf, light = request(service_pb2), request(ours)
    for more in ({}, {"preserving_proto_field_name": True}):
        assert json_format.MessageToDict(light, **more) == json_format.MessageToDict(protobuf, **more)


def test_r11_protobuf_messages_are_accepted() -> None:
    protobuf = service_pb2.ModelInferRequest(
        model_name="m",
        parameters={"p": service_pb2.InferParameter(int64_param=4)},
        inputs=[{"name": "x", "shape": [1], "datatype": "FP32", "contents": {"fp32_contents": [1]}}],
    )
    infer_request = InferRequest.from_grpc(protobuf)
    assert infer_request.inputs[0].as_numpy().tolist() == [1]
    assert to_http_parameters(infer_request.parameters or {}) == {"p": 4}
    assert infer_request.to_grpc().parameters["p"].int64_param == 4
    assert infer_request.to_rest()[0]["parameters"] == {"p": 4}
    parameter = service_pb2.InferParameter(bool_param=True)
    assert to_grpc_parameters({"a": parameter})["a"] is parameter
    response = service_pb2.ModelInferResponse(
        outputs=[{"name": "y", "shape": [1], "datatype": "UINT8"}], raw_output_contents=[b"\7"]
    )
    assert InferResponse.from_grpc(response).outputs[0].as_numpy().tolist() == [7]
    assert ours.ModelInferRequest(inputs=protobuf.inputs).inputs[0].name == "x"


def test_unset_fields_have_defaults() -> None:
    message = ours.ModelInferRequest()
    assert (message.model_name, message.inputs, message.parameters, message.raw_input_contents) == ("", [], {}, [])
    tensor = message.inputs.add(name="x")
    assert not tensor.HasField("contents")
    assert tensor.contents.fp32_contents == []
    assert not tensor.HasField("contents")
    tensor.contents.fp32_contents.append(1)
    assert tensor.HasField("contents")
    assert message.inputs[0].contents.fp32_contents == [1]
    assert ours.InferTensorContents() == message.inputs.add().contents


def test_oneof_fields_are_exclusive() -> None:
    parameter = ours.InferParameter()
    assert parameter.WhichOneof("parameter_choice") is None
    assert not parameter.HasField("parameter_choice")
    parameter.int64_param = 0
    assert parameter.WhichOneof("parameter_choice") == "int64_param"
    parameter.string_param = "x"
    assert (parameter.HasField("int64_param"), parameter.HasField("string_param")) == (False, True)
    parameter.ClearField("parameter_choice")
    assert parameter == ours.InferParameter()


def test_maps_create_missing_messages() -> None:
    message = ours.ModelInferRequest()
    message.parameters["a"].bool_param = True
    message.parameters.get_or_create("b").int64_param = 2
    assert message.parameters.get("c") is None
    assert to_http_parameters(message.parameters) == {"a": True, "b": 2}
    with pytest.raises(ValueError, match=r"^Direct assignment of submessage not allowed"):
        message.parameters["a"] = ours.InferParameter()


def test_invalid_message_values_are_rejected() -> None:
    message = ours.ModelInferRequest()
    with pytest.raises(ValueError, match=r'^Protocol message InferParameter has no "x" field.$'):
        ours.InferParameter(x=1)
    with pytest.raises(AttributeError, match=r'^Protocol message ModelInferRequest has no "x" field.$'):
        message.x = 1
    with pytest.raises(AttributeError, match=r"^'ModelInferRequest' object has no attribute 'x'$"):
        _ = message.x
    with pytest.raises(AttributeError, match=r'^Assignment not allowed to map, or repeated field "inputs" in protocol'):
        message.inputs = []  # type: ignore[assignment]
    with pytest.raises(AttributeError, match=r'^Assignment not allowed to message field "contents" in protocol'):
        message.inputs.add().contents = ours.InferTensorContents()
    with pytest.raises(ValueError, match=r"^Field inference\.ModelInferRequest\.model_name does not have presence\.$"):
        message.HasField("model_name")
    for kind, value in [("int64_param", "a"), ("string_param", 1), ("int64_param", 1.5)]:
        with pytest.raises(TypeError):
            ours.InferParameter(**{kind: value})
    with pytest.raises(ValueError, match=r"^Value out of range: 1099511627776$"):
        ours.InferTensorContents(int_contents=[2**40])
    with pytest.raises(TypeError, match=r"^must be real number, not list$"):
        ours.InferTensorContents(fp32_contents=[[1]])
    with pytest.raises(TypeError, match=r"^expected bytes, str found$"):
        ours.InferTensorContents(bytes_contents=["a"])
    with pytest.raises(TypeError, match="unhashable"):
        hash(message)


def test_messages_copy_merge_and_clear() -> None:
    message = request(ours)
    for other in (copy.deepcopy(message), copy.copy(message), pickle.loads(pickle.dumps(message))):
        assert other == message
        assert other is not message
    for part in (message.parameters, message.inputs, message.inputs[0].shape):
        for other in (copy.deepcopy(part), pickle.loads(pickle.dumps(part))):
            assert other == part
            assert type(other) is type(part)
    infer_request = InferRequest.from_grpc(InferRequest("m", [], parameters={"p": 1}).to_grpc())
    assert copy.deepcopy(infer_request) == pickle.loads(pickle.dumps(infer_request)) == infer_request
    target = ours.ModelInferRequest(model_version="3")
    target.CopyFrom(message)
    assert target == message
    target.MergeFrom(ours.ModelInferRequest(model_version="3", inputs=[{"name": "more"}]))
    assert (target.model_version, target.inputs[-1].name) == ("3", "more")
    assert len(target.inputs) == len(message.inputs) + 1
    target.Clear()
    assert target == ours.ModelInferRequest() != message
    numbers = ours.InferTensorContents(fp32_contents=np.array([1, 2], np.float32))
    numbers.fp32_contents.extend([3])
    numbers.fp32_contents[0] = 1.1
    assert numbers.fp32_contents == [np.float32(1.1), 2, 3]


def test_unknown_fields_are_ignored() -> None:
    protobuf = service_pb2.ModelInferRequest(parameters={"d": service_pb2.InferParameter(double_param=1.5)})
    assert ours.ModelInferRequest.FromString(protobuf.SerializeToString()).parameters["d"] == ours.InferParameter()


@given(st.binary(max_size=60))
def test_any_bytes_are_parsed_or_rejected(data: bytes) -> None:
    try:
        message = ours.ModelInferRequest.FromString(data)
    except DecodeError:
        return
    assert ours.ModelInferRequest.FromString(message.SerializeToString()) == message


@settings(max_examples=1000)
@given(st.binary(max_size=40))
def test_protobuf_and_messages_accept_the_same_bytes(data: bytes) -> None:
    decode_error = pytest.importorskip("google.protobuf.message").DecodeError
    try:
        protobuf = service_pb2.InferTensorContents.FromString(data)
    except decode_error:
        with pytest.raises(ValueError, match=r"^Error parsing message"):
            ours.InferTensorContents.FromString(data)
        return
    light = ours.InferTensorContents.FromString(data)
    for field, _ in CONTENTS.items():
        assert np.array_equal(list(getattr(light, field)), list(getattr(protobuf, field)), equal_nan="fp" in field)


def test_r11_stub_calls_servicer() -> None:
    grpc = pytest.importorskip("grpc")

    class Servicer(service.GRPCInferenceServiceServicer):
        def ModelInfer(self, request: Any, context: Any) -> Any:
            return ours.ModelInferResponse(model_name=request.model_name, outputs=[{"name": request.inputs[0].name}])

    with ThreadPoolExecutor() as pool:
        server = grpc.server(pool)
        service.add_GRPCInferenceServiceServicer_to_server(Servicer(), server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = service.GRPCInferenceServiceStub(channel)
            message = ours.ModelInferRequest(model_name="m", inputs=[{"name": "x"}])
            assert stub.ModelInfer(message, timeout=30).outputs[0].name == "x"
            with pytest.raises(grpc.RpcError) as caught:
                stub.ServerLive(ours.ServerLiveRequest(), timeout=30)
            assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
        server.stop(None).wait()


def test_messages_do_not_import_protobuf_or_grpc() -> None:
    code = (
        "import sys; from penstock.compat.kserve.protocol.grpc import grpc_predict_v2_pb2, grpc_predict_v2_pb2_grpc;"
        "assert not [name for name in sys.modules if name.startswith(('google', 'grpc'))]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
