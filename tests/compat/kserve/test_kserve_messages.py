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


def request(made: Any) -> Any:
    """Returns the same request as a message of either package."""
    return made.ModelInferRequest(
        model_name="é",
        id="1",
        parameters={
            "b": made.InferParameter(bool_param=False),
            "i": made.InferParameter(int64_param=-3),
            "s": made.InferParameter(string_param="x"),
            "n": made.InferParameter(),
        },
        inputs=[
            made.ModelInferRequest.InferInputTensor(
                name=name, shape=[1, -1, 400], datatype="X", contents={name: values}
            )
            for name, values in CONTENTS.items()
        ],
        outputs=[{"name": "y", "parameters": {"k": made.InferParameter(int64_param=2)}}],
        raw_input_contents=[b"abc", b""],
    )


def test_r11_the_bytes_equal_protobufs() -> None:
    real, light = request(service_pb2), request(ours)
    assert service_pb2.ModelInferRequest.FromString(light.SerializeToString()) == real
    assert ours.ModelInferRequest.FromString(real.SerializeToString()) == light
    assert light.ByteSize() == real.ByteSize()


def test_r11_the_text_is_that_of_protocol_buffers() -> None:
    for field, values in CONTENTS.items():
        parts: list[Any] = [
            made.ModelInferRequest.InferInputTensor(name='a"b', shape=[2], contents={field: values})
            for made in (service_pb2, ours)
        ]
        assert str(parts[0]) == str(parts[1])


def test_r11_tools_make_json_of_them() -> None:
    real, light = request(service_pb2), request(ours)
    for more in ({}, {"preserving_proto_field_name": True}):
        assert json_format.MessageToDict(light, **more) == json_format.MessageToDict(real, **more)


def test_r11_generated_messages_are_accepted_everywhere() -> None:
    real = service_pb2.ModelInferRequest(
        model_name="m",
        parameters={"p": service_pb2.InferParameter(int64_param=4)},
        inputs=[{"name": "x", "shape": [1], "datatype": "FP32", "contents": {"fp32_contents": [1]}}],
    )
    asked = InferRequest.from_grpc(real)
    assert asked.inputs[0].as_numpy().tolist() == [1]
    assert to_http_parameters(asked.parameters or {}) == {"p": 4}
    assert asked.to_grpc().parameters["p"].int64_param == 4
    assert asked.to_rest()[0]["parameters"] == {"p": 4}
    kept = service_pb2.InferParameter(bool_param=True)
    assert to_grpc_parameters({"a": kept})["a"] is kept
    told = service_pb2.ModelInferResponse(
        outputs=[{"name": "y", "shape": [1], "datatype": "UINT8"}], raw_output_contents=[b"\7"]
    )
    assert InferResponse.from_grpc(told).outputs[0].as_numpy().tolist() == [7]
    assert ours.ModelInferRequest(inputs=real.inputs).inputs[0].name == "x"


def test_fields_that_are_not_set_have_a_default() -> None:
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


def test_one_of_a_choice_is_set() -> None:
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


def test_invalid_values_of_messages() -> None:
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


def test_messages_are_copied_merged_and_cleared() -> None:
    message = request(ours)
    for other in (copy.deepcopy(message), copy.copy(message), pickle.loads(pickle.dumps(message))):
        assert other == message
        assert other is not message
    for part in (message.parameters, message.inputs, message.inputs[0].shape):
        for other in (copy.deepcopy(part), pickle.loads(pickle.dumps(part))):
            assert other == part
            assert type(other) is type(part)
    asked = InferRequest.from_grpc(InferRequest("m", [], parameters={"p": 1}).to_grpc())
    assert copy.deepcopy(asked) == pickle.loads(pickle.dumps(asked)) == asked
    taken = ours.ModelInferRequest(model_version="3")
    taken.CopyFrom(message)
    assert taken == message
    taken.MergeFrom(ours.ModelInferRequest(model_version="3", inputs=[{"name": "more"}]))
    assert (taken.model_version, taken.inputs[-1].name) == ("3", "more")
    assert len(taken.inputs) == len(message.inputs) + 1
    taken.Clear()
    assert taken == ours.ModelInferRequest() != message
    numbers = ours.InferTensorContents(fp32_contents=np.array([1, 2], np.float32))
    numbers.fp32_contents.extend([3])
    numbers.fp32_contents[0] = 1.1
    assert numbers.fp32_contents == [np.float32(1.1), 2, 3]


def test_unknown_fields_are_passed_over() -> None:
    real = service_pb2.ModelInferRequest(parameters={"d": service_pb2.InferParameter(double_param=1.5)})
    assert ours.ModelInferRequest.FromString(real.SerializeToString()).parameters["d"] == ours.InferParameter()


@given(st.binary(max_size=60))
def test_any_bytes_are_a_message_or_refused(data: bytes) -> None:
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
        real = service_pb2.InferTensorContents.FromString(data)
    except decode_error:
        with pytest.raises(ValueError, match=r"^Error parsing message"):
            ours.InferTensorContents.FromString(data)
        return
    light = ours.InferTensorContents.FromString(data)
    for field, _ in CONTENTS.items():
        assert np.array_equal(list(getattr(light, field)), list(getattr(real, field)), equal_nan="fp" in field)


def test_r11_a_stub_calls_a_servicer() -> None:
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
            asked = ours.ModelInferRequest(model_name="m", inputs=[{"name": "x"}])
            assert stub.ModelInfer(asked, timeout=30).outputs[0].name == "x"
            with pytest.raises(grpc.RpcError) as caught:
                stub.ServerLive(ours.ServerLiveRequest(), timeout=30)
            assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
        server.stop(None).wait()


def test_no_protobuf_file_is_registered_and_no_package_is_loaded() -> None:
    code = (
        "import sys; from penstock.compat.kserve.protocol.grpc import grpc_predict_v2_pb2, grpc_predict_v2_pb2_grpc;"
        "assert not [name for name in sys.modules if name.startswith(('google', 'grpc'))]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
