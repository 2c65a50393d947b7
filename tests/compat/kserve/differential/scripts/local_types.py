"""Tensor classes without a server: values, conversions and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
from common import NEW
from kserve import InferInput, InferOutput, InferRequest, InferResponse
from kserve.protocol.grpc import grpc_predict_v2_pb2 as pb
from observe import plain, show

F = np.float32
TYPES = {
    "BOOL": [True, False],
    "INT8": [-128, 127],
    "INT16": [-5, 5],
    "INT32": [-(2**31), 7],
    "INT64": [-(2**63), 2**53 + 1],
    "UINT8": [0, 255],
    "UINT16": [0, 65535],
    "UINT32": [0, 2**32 - 1],
    "UINT64": [0, 2**64 - 1],
    "FP16": [1.5, -2.0],
    "FP32": [1.5, -2.25],
    "FP64": [0.1, 1e300],
    "BYTES": ["one", "gr\u00fcn"],
}


def dtype(name: str) -> Any:
    kinds = {"BOOL": "bool", "FP16": "float16", "FP32": "float32", "FP64": "float64", "BYTES": "object"}
    return np.dtype(kinds.get(name, name.lower()))


def fields(tensor: Any) -> Any:
    """Returns all attributes of a tensor."""
    parameters = tensor.parameters
    return {
        "name": tensor.name,
        "shape": list(tensor.shape),
        "datatype": tensor.datatype,
        "data": plain(tensor.data),
        "parameters": None if parameters is None else {key: str(parameters[key]) for key in sorted(parameters)},
    }


def filled(kind: Any, array: Any, datatype: str, binary: bool = True) -> Any:
    """Returns a tensor that was set from an array."""
    tensor = kind("x", list(array.shape), datatype)
    tensor.set_data_from_numpy(array, binary_data=binary)
    return tensor


def rest(value: Any) -> Any:
    """Returns `to_rest` of either dialect, with the raw parts apart."""
    converted = value.to_rest()
    if not NEW:
        return plain(converted)
    body, length = converted
    if length is None:
        return plain(body)
    return ["binary", plain(body[length:])]


def message(value: Any) -> Any:
    """Returns the fields of the message of `to_grpc`."""
    converted = value.to_grpc()
    tensors = converted.inputs if isinstance(converted, pb.ModelInferRequest) else converted.outputs
    raw = converted.raw_input_contents if isinstance(converted, pb.ModelInferRequest) else converted.raw_output_contents
    contents = ("bool", "int", "int64", "uint", "uint64", "fp32", "fp64", "bytes")
    tensors_by_field = [
        {
            "name": one.name,
            "datatype": one.datatype,
            "shape": list(one.shape),
            "contents": {
                field: plain(list(getattr(one.contents, f"{field}_contents")))
                for field in contents
                if len(getattr(one.contents, f"{field}_contents"))
            },
        }
        for one in tensors
    ]
    return {
        "model": converted.model_name,
        "id": converted.id,
        "tensors": tensors_by_field,
        "raw": [plain(one) for one in raw],
    }


def local_tensor(kind: Any) -> None:
    """Records a tensor."""
    of = kind.__name__
    for name, data in TYPES.items():
        array = np.array([one.encode() for one in data] if name == "BYTES" else data, dtype(name))
        show(f"{of} {name} of a list", lambda: kind("x", [2], name, data=data).as_numpy())
        show(f"{of} {name} nested", lambda: kind("x", [1, 2], name, data=[data]).as_numpy())
        show(f"{of} {name} set, raw", lambda: fields(filled(kind, array, name)))
        show(f"{of} {name} set and read, raw", lambda: filled(kind, array, name).as_numpy())
        show(f"{of} {name} set, listed", lambda: fields(filled(kind, array, name, binary=False)))
        show(f"{of} {name} set and read, listed", lambda: filled(kind, array, name, binary=False).as_numpy())
    show(f"{of} lower case", lambda: kind("x", [1], "fp32").datatype)
    show(f"{of} of nothing", lambda: fields(kind("x", [1], "FP32")))
    show(f"{of} unknown type", lambda: kind("x", [1], "FP8", data=[1]).as_numpy())
    show(f"{of} too few", lambda: kind("x", [2, 2], "FP32", data=[1, 2, 3]).as_numpy())
    show(f"{of} set no array", lambda: kind("x", [2], "FP32").set_data_from_numpy([1, 2]))
    show(f"{of} set another type", lambda: kind("x", [2], "FP32").set_data_from_numpy(np.zeros(2)))
    show(f"{of} set another shape", lambda: kind("x", [2], "FP32").set_data_from_numpy(np.zeros(3, F)))
    show(f"{of} set a view", lambda: fields(filled(kind, np.arange(6, dtype=F).reshape(2, 3).T, "FP32")))
    show(f"{of} set an empty one", lambda: fields(filled(kind, np.zeros((0, 2), F), "FP32")))
    show(f"{of} set bad text, listed", lambda: fields(filled(kind, np.array([b"\xff"], object), "BYTES", binary=False)))
    show(f"{of} parameters", lambda: fields(kind("x", [1], "FP32", [1.0], {"unit": "m", "n": 5})))
    show(f"{of} equal", lambda: kind("x", [1], "FP32", [1.0]) == kind("x", [1], "FP32", [1.0]))
    show(f"{of} not equal", lambda: kind("x", [1], "FP32", [1.0]) == kind("x", [1], "FP32", [2.0]))
    tensor = kind("x", [2, 3], "FP32", np.arange(6, dtype=F))
    if NEW:
        tensor.shape = [3, 2]
    else:
        tensor.set_shape([3, 2])
    show(f"{of} another shape", lambda: [list(tensor.shape), tensor.as_numpy()])


def request(*inputs: Any, **more: Any) -> Any:
    """Returns a request with an id."""
    return InferRequest("m", list(inputs), more.pop("request_id", "an-id"), **more)


def response(*outputs: Any, **more: Any) -> Any:
    """Returns a response with an id."""
    return InferResponse("an-id", "m", list(outputs), **more)


def local_requests() -> None:
    """Records requests and responses."""
    for kind, of, tensor in ((request, "request", InferInput), (response, "response", InferOutput)):
        for name, data in TYPES.items():
            show(f"{of} {name} to_rest", lambda: rest(kind(tensor("x", [2], name, list(data)))))
            show(f"{of} {name} to_grpc", lambda: message(kind(tensor("x", [2], name, list(data)))))
        show(f"{of} raw to_rest", lambda: rest(kind(filled(tensor, np.arange(2, dtype=F), "FP32"))))
        show(f"{of} raw to_grpc", lambda: message(kind(filled(tensor, np.arange(2, dtype=F), "FP32"))))
        show(f"{of} array to_rest", lambda: rest(kind(tensor("x", [2], "INT32", np.array([1, 2], np.int32)))))
        show(f"{of} array to_grpc", lambda: message(kind(tensor("x", [2], "INT32", np.array([1, 2], np.int32)))))
        show(f"{of} parameters to_rest", lambda: rest(kind(tensor("x", [1], "FP32", [1.0]), parameters={"a": True})))
        show(f"{of} tuple to_grpc", lambda: message(kind(tensor("x", [1], "FP32", (1.0,)))))
        show(f"{of} unknown type to_grpc", lambda: message(kind(tensor("x", [1], "FP8", [1.0]))))
        show(f"{of} text of numbers to_grpc", lambda: message(kind(tensor("x", [1], "BYTES", ["a"]))))
        show(
            f"{of} float parameter to_grpc",
            lambda: message(kind(tensor("x", [1], "FP32", [1.0]), parameters={"a": 1.5})),
        )
    infer_request = request(InferInput("x", [1], "FP32", [1.0]), InferInput("z", [1], "BYTES", ["t"]))
    show("request by name", lambda: [infer_request.get_input_by_name(name) is not None for name in ("x", "z", "nope")])
    show(
        "request attributes",
        lambda: [
            infer_request.id,
            infer_request.model_name,
            infer_request.parameters,
            infer_request.from_grpc,
            len(infer_request.inputs),
        ],
    )
    show("request binary outputs", lambda: infer_request.use_binary_outputs)
    show("request without id", lambda: InferRequest("m", []).id)
    show(
        "request with raws", lambda: request(InferInput("x", [2], "FP32"), raw_inputs=[b"\0" * 8]).inputs[0].as_numpy()
    )
    show("request with too many raws", lambda: request(InferInput("x", [2], "FP32"), raw_inputs=[b"\0" * 8] * 2))
    show(
        "request frame",
        lambda: (
            request(InferInput("n", [2], "INT32", [1, 2]), InferInput("t", [2], "BYTES", ["a", "b"]))
            .as_dataframe()
            .to_dict("list")
        ),
    )
    show("request equal", lambda: request() == request())
    infer_response = response(InferOutput("y", [1], "FP32", [1.0]))
    show("response by name", lambda: [infer_response.get_output_by_name(name) is not None for name in ("y", "nope")])
    show(
        "response attributes",
        lambda: [
            infer_response.id,
            infer_response.model_name,
            infer_response.model_version,
            infer_response.parameters,
            infer_response.from_grpc,
        ],
    )
    body = {
        "id": "i",
        "model_name": "m",
        "model_version": "2",
        "outputs": [{"name": "y", "shape": [1], "datatype": "FP32", "data": [1.5]}],
    }
    from_rest = (lambda of: InferResponse.from_rest(of)) if NEW else (lambda of: InferResponse.from_rest("m", of))
    show("response from_rest", lambda: [from_rest(body).id, fields(from_rest(body).outputs[0])])
    show(
        "response from_rest without data",
        lambda: from_rest({**body, "outputs": [{"name": "y", "shape": [1], "datatype": "FP32"}]}),
    )


def local_messages() -> None:
    """Records conversions from and to messages."""
    typed = pb.ModelInferRequest(model_name="m", id="i")
    typed.inputs.add(name="x", datatype="INT32", shape=[2]).contents.int_contents.extend([1, 2])
    typed.parameters["flag"].bool_param = True
    typed.parameters["text"].string_param = "t"
    raw = pb.ModelInferRequest(model_name="m", id="i", raw_input_contents=[b"\0\0\x80\x3f"])
    raw.inputs.add(name="x", datatype="FP32", shape=[1])
    for name, infer_request in (("typed", typed), ("raw", raw)):
        converted = InferRequest.from_grpc(infer_request)
        show(
            f"{name} from_grpc",
            lambda: [converted.id, converted.model_name, converted.from_grpc, converted.use_binary_outputs],
        )
        show(
            f"{name} from_grpc, its input",
            lambda: [converted.inputs[0].name, list(converted.inputs[0].shape), converted.inputs[0].as_numpy()],
        )
        show(f"{name} from_grpc, parameters", lambda: sorted(converted.parameters or {}))
        show(f"{name} back", lambda: message(converted))
    invalid = pb.ModelInferRequest(model_name="m")
    invalid.inputs.add(name="x", datatype="FP8", shape=[1])
    show("from_grpc of an unknown type", lambda: InferRequest.from_grpc(invalid))
    show("message bytes", lambda: typed.FromString(typed.SerializeToString()) == typed)
    show("message bytes as they are", lambda: raw.SerializeToString())
    response_message = pb.ModelInferResponse(model_name="m", id="i", model_version="1")
    response_message.outputs.add(name="y", datatype="FP64", shape=[1]).contents.fp64_contents.append(2.5)
    show(
        "response from_grpc",
        lambda: [
            InferResponse.from_grpc(response_message).id,
            fields(InferResponse.from_grpc(response_message).outputs[0]),
        ],
    )


def local_newer() -> None:
    """Records additions of dialect 0.21."""
    import json

    from kserve.protocol.infer_type import RequestedOutput

    show(
        "requested output",
        lambda: [RequestedOutput("y").binary_data, RequestedOutput("y", {"binary_data": True}).binary_data],
    )
    outputs = [InferOutput("a", [1], "FP32", [1.0]), InferOutput("b", [1], "INT32", [2])]
    for names in (["b"], ["b", "a"], ["nope"]):
        requested = [RequestedOutput(name) for name in names]
        show(f"response with outputs {names}", lambda: rest(response(*outputs, requested_outputs=requested)))
    binary = [RequestedOutput("a", {"binary_data": True}), RequestedOutput("b")]
    show("response with a binary output", lambda: rest(response(*outputs, requested_outputs=binary)))
    show("response all binary", lambda: rest(response(*outputs, use_binary_outputs=True)))
    show(
        "response of FP16 from an array, to_rest",
        lambda: rest(response(filled(InferOutput, np.ones(1, np.float16), "FP16", binary=False))),
    )
    head = {
        "id": "i",
        "inputs": [{"name": "x", "shape": [2], "datatype": "FP32", "parameters": {"binary_data_size": 8}}],
    }

    def from_bytes(head: Any, raw: bytes) -> Any:
        text = json.dumps(head).encode()
        converted = InferRequest.from_bytes(text + raw, len(text), "m")
        return [converted.id, converted.use_binary_outputs, converted.inputs[0].as_numpy()]

    show("from_bytes", lambda: from_bytes(head, np.array([1.5, 2], F).tobytes()))
    show("from_bytes short", lambda: from_bytes(head, b"1234"))
    show("from_bytes no JSON", lambda: InferRequest.from_bytes(b"{x", 2, "m"))
    show("from_bytes no data", lambda: from_bytes({"inputs": [{"name": "x", "shape": [1], "datatype": "FP32"}]}, b""))
    show(
        "from_bytes FP16 as JSON",
        lambda: from_bytes({"inputs": [{"name": "x", "shape": [1], "datatype": "FP16", "data": [1]}]}, b""),
    )
    show("as_string", lambda: InferInput("x", [1, 1], "BYTES", [[b"a"]]).as_string())
    show("as_string of numbers", lambda: InferInput("x", [1], "FP32", [1.0]).as_string())
    dates = np.array(["2020-01-01"], "datetime64[D]")
    show("dates", lambda: filled(InferOutput, dates, "BYTES").as_numpy())
    show("repr", lambda: repr(InferInput("x", [1], "FP32", [1.0])))
    show("request to_dict", lambda: request(InferInput("x", [1], "FP32", [1.0])).to_dict())
    show("setters", lambda: setattr(InferInput("x", [1], "FP32"), "data", [1.0]))


local_tensor(InferInput)
local_tensor(InferOutput)
local_requests()
local_messages()
if NEW:
    local_newer()
