"""Tensors as bytes behind the JSON (cases C1 to C16)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from .content import DTYPES, SAMPLES, Call, add, frame, ident, one, pack, summed, tensor
from .protocols import BINARY, FRAMED, JSON, AnyProtocol, GrpcProtocol, HttpProtocol, decode, refused, served
from .transports import Reply, Transport, infer

on_binary = pytest.mark.parametrize("protocol", BINARY, indirect=True)
on_framed = pytest.mark.parametrize("protocol", FRAMED, indirect=True)
A, B = (pack("FP32", values) for values in ([0.0, 1.0, 2.0, 3.0], [0.0, 10.0, 20.0, 30.0]))
O1, O2 = tensor("o1", "FP32", [3.0]), tensor("o2", "INT64", [1])


def input_of(name: str, *, size: object = None, data: Any = None) -> dict[str, Any]:
    """An input of `add`, with its data or the size of its bytes."""
    tensor = {"name": name, "shape": [1, 4], "datatype": "FP32"}
    return {**tensor, "data": data} if size is None else {**tensor, "parameters": {"binary_data_size": size}}


def infer_two_out(http: Transport, members: dict[str, Any]) -> Reply:
    """The reply of `two_out` to 1.5."""
    return infer(
        http, "two_out", {"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": [1.5]}], **members}
    )


@on_binary
def test_c1_binary_in_and_out(protocol: HttpProtocol) -> None:
    body, headers = protocol.encode(add(rows=2))
    reply = protocol.transport.request("POST", "/v2/models/add/infer", body, headers)
    assert reply.headers["content-type"] == "application/octet-stream"
    assert reply.tail() == summed(2).raw
    (output,) = reply.json()["outputs"]
    assert output == {
        "name": "sum",
        "datatype": "FP32",
        "shape": [2, 4],
        "parameters": {"binary_data_size": 32},
    }
    served(decode(reply), summed(2))


@on_binary
@pytest.mark.parametrize(("names", "tail"), [(("o1", "o2"), O1.raw + O2.raw), (("o2", "o1"), O2.raw + O1.raw)])
def test_c1_tail_in_the_order_of_the_outputs(protocol: HttpProtocol, names: tuple[str, ...], tail: bytes) -> None:
    body, headers = protocol.encode(one("two_out", 1.5, outputs=names))
    assert protocol.transport.request("POST", "/v2/models/two_out/infer", body, headers).tail() == tail


@pytest.mark.parametrize(
    ("inputs", "tail"),
    [
        ([input_of("a", data=[0, 1, 2, 3]), input_of("b", size=16)], B),
        ([input_of("a", size=16), input_of("b", data=[[0, 10, 20, 30]])], A),
        ([input_of("b", data=[0, 10, 20, 30]), input_of("a", size=16)], A),
        ([input_of("b", size=16), input_of("a", size=16)], B + A),
    ],
)
def test_c2_json_and_binary_inputs(http: Transport, inputs: list[Any], tail: bytes) -> None:
    served(decode(infer(http, "add", {"inputs": inputs}, tail)), summed())


def test_c3_binary_in_json_out(http: Transport) -> None:
    reply = infer(http, "add", {"inputs": [input_of("a", size=16), input_of("b", size=16)]}, A + B)
    assert reply.headers["content-type"] == "application/json"
    assert "inference-header-content-length" not in reply.headers
    assert json.loads(reply.body)["outputs"][0]["data"] == [0, 11, 22, 33]


@pytest.mark.parametrize("binary", ["o1", "o2"])
def test_c4_one_output_binary(http: Transport, binary: str) -> None:
    outputs = [{"name": name, "parameters": {"binary_data": name == binary}} for name in ("o1", "o2")]
    reply = infer_two_out(http, {"outputs": outputs})
    served(decode(reply), O1, O2)
    assert reply.tail() == (O1 if binary == "o1" else O2).raw
    assert [("data" in output) for output in reply.json()["outputs"]] == [binary != "o1", binary != "o2"]


@pytest.mark.trap("T15")
def test_c5_listed_output_follows_the_request(http: Transport) -> None:
    reply = infer_two_out(
        http, {"parameters": {"binary_data_output": True}, "outputs": [{"name": "o2"}, {"name": "o1"}]}
    )
    assert reply.tail() == O2.raw + O1.raw


@pytest.mark.parametrize("backwards", [False, True])
def test_c5_key_order_does_not_matter(http: Transport, backwards: bool) -> None:
    members = [("parameters", {"binary_data_output": True}), ("outputs", [{"name": "o1"}])]
    assert infer_two_out(http, dict(members[::-1] if backwards else members)).tail() == O1.raw


def test_c6_output_that_requests_json(http: Transport) -> None:
    outputs = [{"name": "o1", "parameters": {"binary_data": False}}, {"name": "o2"}]
    reply = infer_two_out(http, {"parameters": {"binary_data_output": True}, "outputs": outputs})
    served(decode(reply), O1, O2)
    assert reply.json()["outputs"][0]["data"] == [3]
    assert reply.tail() == O2.raw


@pytest.mark.parametrize("wrong", ["-1", "abc", "", "+5", "1.5", "0x10", "99999", "18446744073709551616", "1 2"])
@on_binary
def test_c8_invalid_json_length(protocol: HttpProtocol, wrong: str) -> None:
    body, headers = protocol.encode(add())
    reply = protocol.transport.request("POST", "/v2/models/add/infer", body, dict.fromkeys(headers, wrong))
    assert "Inference-Header-Content-Length" in reply.refusal(400)


@on_binary
def test_c8_wrong_json_length(protocol: HttpProtocol) -> None:
    body, headers = protocol.encode(add())
    (length,) = headers.values()
    for wrong in (int(length) - 1, int(length) + 1, len(body)):
        headers = {"Inference-Header-Content-Length": str(wrong)}
        assert protocol.transport.request("POST", "/v2/models/add/infer", body, headers).refusal(400)


@on_framed
@pytest.mark.parametrize("size", [0, 3, 4, 12, 15, 17, 20])
def test_c9_size_against_the_shape(protocol: AnyProtocol, size: int) -> None:
    call = add().with_input(0, raw=bytes(size))
    refused(protocol.infer(call), 400, "'a'", "16", str(size))


@pytest.mark.parametrize("tail", [A + B + b"\0", A + B[:-1], A, b"\0"])
def test_c10_sizes_against_the_tail(http: Transport, tail: bytes) -> None:
    message = infer(http, "add", {"inputs": [input_of("a", size=16), input_of("b", size=16)]}, tail).refusal(400)
    assert "32" in message
    assert str(len(tail)) in message


def test_c10_unclaimed_tail(http: Transport) -> None:
    inputs = [input_of("a", data=[0, 1, 2, 3]), input_of("b", data=[0, 1, 2, 3])]
    assert "5" in infer(http, "add", {"inputs": inputs}, b"12345").refusal(400)


def test_c10_missing_tail(http: Transport) -> None:
    assert "32" in infer(http, "add", {"inputs": [input_of("a", size=16), input_of("b", size=16)]}).refusal(400)


def test_c10_overflowing_sizes(http: Transport) -> None:
    inputs = [input_of("a", size=2**64 - 1), input_of("b", size=17)]
    assert infer(http, "add", {"inputs": inputs}, A).refusal(400)


@pytest.mark.parametrize("wrong", [-1, "16", 16.0, 1.5, True, None, [], 2**64, 1e300])
def test_c11_invalid_size(http: Transport, wrong: object) -> None:
    inputs = [input_of("a", size=16), input_of("b", size=16)]
    inputs[0]["parameters"]["binary_data_size"] = wrong
    assert "binary_data_size" in infer(http, "add", {"inputs": inputs}, A + B).refusal(400)


@pytest.mark.trap("T67")
@on_framed
def test_c12_bytes_elements(protocol: AnyProtocol) -> None:
    elements = [b"one", b"", b"\xff\x00\xfe", b"x" * 70000, b""]
    served(protocol.infer(Call("echo_s", (tensor("x", "BYTES", elements),))), tensor("y", "BYTES", elements))


@on_framed
@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"", id="none"),
        pytest.param(frame(b"a"), id="too-few"),
        pytest.param(frame(b"a") + frame(b"b") + frame(b"c"), id="too-many"),
        pytest.param(frame(b"a") + frame(b"b") + b"\0", id="byte-after"),
        pytest.param(frame(b"a") + b"\1\0", id="truncated-length"),
        pytest.param(frame(b"a") + b"\2\0\0\0b", id="overrun"),
        pytest.param(frame(b"a") + b"\xff\xff\xff\xff", id="overrun-by-far"),
    ],
)
def test_c13_bytes_framing(protocol: AnyProtocol, raw: bytes) -> None:
    call = Call("echo_s", (replace(tensor("x", "BYTES", [b"a", b"b"]), raw=raw),))
    refused(protocol.infer(call), 400, "'x'")


@on_framed
@pytest.mark.parametrize("datatype", SAMPLES)
def test_c14_every_datatype(protocol: AnyProtocol, datatype: str) -> None:
    served(protocol.infer(ident(datatype)), tensor("y", datatype, SAMPLES[datatype]))


@on_framed
@pytest.mark.parametrize("datatype", [name for name in DTYPES if name not in ("BOOL", "BF16")])
def test_c14_every_bit_pattern(protocol: AnyProtocol, datatype: str) -> None:
    # NaN payloads too. BF16 is converted through float32, and BOOL has only two patterns.
    raw = bytes(range(256)) * DTYPES[datatype].itemsize
    call = ident(datatype).with_input(0, shape=(256,), raw=raw)
    assert protocol.infer(call).output("y").raw == raw


@on_framed
def test_c14_every_bfloat16(protocol: AnyProtocol) -> None:
    raw = b"".join(bits.to_bytes(2, "little") for bits in range(2**16) if bits & 0x7F80 != 0x7F80 or not bits & 0x7F)
    call = ident("BF16").with_input(0, shape=(len(raw) // 2,), raw=raw)
    assert protocol.infer(call).output("y").raw == raw


@on_framed
@pytest.mark.parametrize("datatype", SAMPLES)
def test_c15_no_elements(protocol: AnyProtocol, datatype: str) -> None:
    served(protocol.infer(ident(datatype, [])), tensor("y", datatype, []))


@on_binary
def test_c15_no_bytes_no_header(protocol: HttpProtocol) -> None:
    body, headers = protocol.encode(ident("FP32", []))
    reply = protocol.transport.request("POST", "/v2/models/ident_FP32/infer", body, headers)
    assert "inference-header-content-length" not in reply.headers
    assert reply.headers["content-type"] == "application/json"
    (output,) = json.loads(reply.body)["outputs"]
    assert output["parameters"] == {"binary_data_size": 0}
    assert "data" not in output


@pytest.mark.trap("T64")
@on_binary
@pytest.mark.parametrize("spaces", range(9))
def test_c16_tail_at_any_offset(protocol: HttpProtocol, spaces: int) -> None:
    values = [0.1, -2.5e300, 5e-324]
    body, headers = protocol.encode(ident("FP64", values))
    (length,) = headers.values()
    moved = {"Inference-Header-Content-Length": str(int(length) + spaces)}
    reply = protocol.transport.request("POST", "/v2/models/ident_FP64/infer", b" " * spaces + body, moved)
    served(decode(reply), tensor("y", "FP64", values))


@pytest.mark.parametrize("protocol", JSON, indirect=True)
def test_c6_json_stays_json(protocol: AnyProtocol) -> None:
    served(protocol.infer(one("two_out", 1.5)), O1, O2)


def test_c9_raw_entry_against_the_shape(grpc_raw: GrpcProtocol) -> None:
    refused(grpc_raw.infer(ident("INT64", [1, 2]).with_input(0, raw=bytes(15))), 400, "'x'", "15", "16")
