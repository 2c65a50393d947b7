"""Classification: the largest elements of an output as text (cases F17 to F19, trap T46)."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as tgrpc
import tritonclient.http as thttp
from tritonclient.grpc import service_pb2 as pb

from models.protocol import LABELS
from penstock import Server

from .content import SAMPLES, Call, InferResponse, Tensor, add, ident, pack, tensor
from .protocols import ALL, AnyProtocol, GrpcProtocol, HttpProtocol, decode, on_all, refused, served
from .transports import Reply

RANKED = [name for name in SAMPLES if "INT" in name or name in ("FP32", "FP64")]
UNRANKED = ["BOOL", "FP16", "BF16", "BYTES"]


def classify(protocol: AnyProtocol, call: Call, classes: Any, output: str = "y", **parameters: Any) -> InferResponse:
    """Requests the classes of one output over any protocol."""
    if isinstance(protocol, GrpcProtocol):
        message = protocol.message(call)
        entry = message.outputs.add(name=output)
        entry.parameters["classification"].CopyFrom(number(classes))
        return protocol.send(message)
    assert isinstance(protocol, HttpProtocol)
    return decode(post(protocol, call, {"classification": classes, **parameters}, output))


def post(protocol: HttpProtocol, call: Call, parameters: dict[str, Any], output: str = "y") -> Reply:
    body, headers = protocol.encode(call)
    length = int(headers.get("Inference-Header-Content-Length", len(body)))
    document = {**json.loads(body[:length]), "outputs": [{"name": output, "parameters": parameters}]}
    text = json.dumps(document).encode()
    if protocol.binary:
        headers["Inference-Header-Content-Length"] = str(len(text))
    return protocol.transport.request("POST", f"/v2/models/{call.model}/infer", text + body[length:], headers)


def number(value: Any) -> pb.InferParameter:
    if isinstance(value, bool):
        return pb.InferParameter(bool_param=value)
    return pb.InferParameter(string_param=value) if isinstance(value, str) else pb.InferParameter(int64_param=value)


def texts(values: list[Any], labels: list[str] | None = None) -> list[str]:
    """All elements of a row as text, best first, computed independently."""
    order = sorted(range(len(values)), key=lambda index: -values[index])
    values_text = [f"{values[index]:f}" if isinstance(values[index], float) else str(values[index]) for index in order]
    named = [f":{labels[index]}" if labels else "" for index in order]
    return [f"{text}:{index}{name}" for text, index, name in zip(values_text, order, named, strict=True)]


@pytest.mark.trap("T46")
@on_all
def test_f17_two_of_each_row_with_labels(protocol: AnyProtocol) -> None:
    first, second = [0.25, 3.3, -1.0], [7.0, 7.0, 1e6]
    call = Call("scores", (tensor("x", "FP32", [*first, *second], [2, 3]),))
    expected = [*texts([np.float32(value).item() for value in first], LABELS)[:2], *texts(second, LABELS)[:2]]
    assert expected == ["3.300000:1:a dog", "0.250000:0:cat", "1000000.000000:2:bird", "7.000000:0:cat"]
    served(classify(protocol, call, 2), tensor("y", "BYTES", expected, [2, 2]))


@on_all
@pytest.mark.parametrize("datatype", RANKED)
def test_f17_every_ranked_datatype(protocol: AnyProtocol, datatype: str) -> None:
    values = tensor("x", datatype, SAMPLES[datatype]).values()
    served(classify(protocol, ident(datatype), 2), tensor("y", "BYTES", texts(values)[:2]))


@pytest.mark.parametrize("protocol", [protocol for protocol in ALL if "json" in protocol], indirect=True)
def test_f17_ties_keep_their_order_and_nan_is_last(protocol: AnyProtocol) -> None:
    values = [1.0, float("nan"), 2.0, float("-inf"), 1.0, float("inf"), 2.0]
    expected = ["inf:5", "2.000000:2", "2.000000:6", "1.000000:0", "1.000000:4", "-inf:3", "nan:1"]
    served(classify(protocol, ident("FP32", values), 7), tensor("y", "BYTES", expected))


@pytest.mark.parametrize("binary", [False, True])
def test_f17_in_json_and_in_binary(protocols: dict[str, AnyProtocol], binary: bool) -> None:
    protocol = protocols["rest-json"]
    assert isinstance(protocol, HttpProtocol)
    reply = post(protocol, ident("INT8", [3, 9]), {"classification": 1, "binary_data": binary})
    (output,) = reply.json()["outputs"]
    assert output == {
        **{"name": "y", "datatype": "BYTES", "shape": [1]},
        **({"parameters": {"binary_data_size": 7}} if binary else {"data": ["9:1"]}),
    }
    assert reply.tail() == (b"\x03\0\0\x009:1" if binary else b"")


def test_f17_class_text_is_unaffected_by_base64(protocols: dict[str, AnyProtocol]) -> None:
    protocol = protocols["rest-json"]
    assert isinstance(protocol, HttpProtocol)
    document = {
        "inputs": [{"name": "x", "datatype": "BYTES", "shape": [1], "data": ["AA=="]}],
        "outputs": [{"name": "size", "parameters": {"classification": 1}}, {"name": "y"}],
    }
    document["inputs"][0]["parameters"] = {"content_type": "base64"}  # type: ignore[index]
    reply = protocol.transport.request("POST", "/v2/models/sized/infer", json.dumps(document).encode())
    assert [output["data"] for output in reply.json()["outputs"]] == [["1:0"], ["AA=="]]


@on_all
def test_f17_with_an_unclassified_output(protocol: AnyProtocol) -> None:
    call = Call("two_out", (tensor("x", "FP32", [1.0, 5.0]),), outputs=("o2",))
    if isinstance(protocol, GrpcProtocol):
        message = protocol.message(call)
        message.outputs.add(name="o1").parameters["classification"].int64_param = 1
        response = protocol.send(message)
        served(response, tensor("o2", "INT64", [1, 5]), tensor("o1", "BYTES", ["10.000000:1"]))


def test_f17_on_a_stream(grpc_raw: GrpcProtocol) -> None:
    message = grpc_raw.message(Call("scores", (tensor("x", "FP32", [1.0, 3.0], [1, 2]),)))
    message.outputs.add(name="y").parameters["classification"].int64_param = 1
    (response,) = grpc_raw.stub.ModelStreamInfer(iter([message]), timeout=20)
    assert not response.error_message
    assert list(response.infer_response.raw_output_contents) == [pack("BYTES", ["3.000000:1:a dog"])]


@on_all
@pytest.mark.parametrize("datatype", UNRANKED)
def test_f18_unranked_datatype(protocol: AnyProtocol, datatype: str) -> None:
    if protocol.name == "grpc-typed" and datatype in ("FP16", "BF16"):
        pytest.skip("these go raw only")
    refused(classify(protocol, ident(datatype), 1), 400, "'y'", datatype, "expected integers, FP32 or FP64")


@on_all
def test_f18_more_elements_than_the_ranking_limit(protocol: AnyProtocol) -> None:
    if "json" in protocol.name or protocol.name == "grpc-typed":
        pytest.skip("a million elements go raw")
    many = Tensor("x", "UINT8", (1_000_001,), bytes(1_000_001))
    refused(classify(protocol, Call("ident_UINT8", (many,)), 1), 400, "'y'", "1000001", "1000000")
    most = Tensor("x", "UINT8", (1_000_000,), bytes(999_999) + b"\x09")
    served(classify(protocol, Call("ident_UINT8", (most,)), 1), tensor("y", "BYTES", ["9:999999"]))


@on_all
@pytest.mark.parametrize("classes", [0, -1, True, "2"])
def test_f18_invalid_class_count(protocol: AnyProtocol, classes: Any) -> None:
    refused(classify(protocol, ident("FP32"), classes), 400, "'classification'", "expected an integer of 1 or more")


@on_all
@pytest.mark.parametrize("classes", [5, 2**31, 2**62])
def test_f19_more_classes_than_elements(protocol: AnyProtocol, classes: int) -> None:
    values = [float(number) for number in range(8)]
    expected = [*texts([0.0, 11.0, 22.0, 33.0]), *texts([44.0, 55.0, 66.0, 77.0])]
    response = classify(protocol, add(2), classes, "sum")
    served(response, tensor("sum", "BYTES", expected, [2, 4]))
    assert len(values) == len(expected)


@on_all
def test_f19_of_no_elements(protocol: AnyProtocol) -> None:
    served(classify(protocol, ident("FP32", []), 3), tensor("y", "BYTES", []))


@pytest.mark.parametrize("module", [thttp, tgrpc])
@pytest.mark.parametrize("options", [{}, {"binary_data": False}])
def test_tritonclient_requests_classes(server: Server, module: Any, options: dict[str, Any]) -> None:
    address = server.http_url.removeprefix("http://") if module is thttp else server.grpc_url
    sent = np.array([[0.5, 2.5, 1.5]], np.float32)
    tensor_in = module.InferInput("x", [1, 3], "FP32")
    tensor_in.set_data_from_numpy(sent)
    options = options if module is thttp else {}
    with module.InferenceServerClient(address) as client:
        requested = module.InferRequestedOutput("y", class_count=2, **options)
        found = client.infer("scores", [tensor_in], outputs=[requested]).as_numpy("y")
    values_text = [text.decode() if isinstance(text, bytes) else text for text in found.ravel()]
    assert (found.shape, values_text) == ((1, 2), ["2.500000:1:a dog", "1.500000:2:bird"])
