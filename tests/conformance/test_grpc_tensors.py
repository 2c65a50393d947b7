"""Tensors in gRPC messages, raw and typed (cases D4 to D12, D20, D21 and D30)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tritonclient.grpc import service_pb2 as pb

from .content import SAMPLES, Call, add, ident, one, pack, summed, tensor
from .protocols import TYPED_FIELDS, GrpcProtocol, on_grpc, refused, served

LIMIT = 64 << 20
SMALL = [name for name in SAMPLES if name.endswith(("INT8", "INT16"))]


def typed(protocol: GrpcProtocol, call: Call, **fields: object) -> pb.ModelInferRequest:
    """The message of a call with other contents in its first input."""
    message = protocol.message(call)
    message.ClearField("raw_input_contents")
    message.inputs[0].ClearField("contents")
    for name, values in fields.items():
        getattr(message.inputs[0].contents, name).extend(values)
    return message


def test_d4_raw(grpc_raw: GrpcProtocol) -> None:
    response = served(grpc_raw.infer(add(rows=3, id="an id")), summed(3))
    assert (response.model, response.version, response.id) == ("add", "1", "an id")
    assert response.parameters == {}


@pytest.mark.trap("T1")
@pytest.mark.parametrize("datatype", TYPED_FIELDS)
def test_d5_typed_request_gets_a_raw_response(grpc_typed: GrpcProtocol, datatype: str) -> None:
    message = grpc_typed.message(ident(datatype))
    assert not message.raw_input_contents
    # The protocol helper checks that the response is raw only.
    served(grpc_typed.send(message), tensor("y", datatype, SAMPLES[datatype]))


@pytest.mark.parametrize("datatype", ["BOOL", "INT32", "UINT64", "FP32"])
def test_d5_unpacked_elements(grpc_typed: GrpcProtocol, datatype: str) -> None:
    # proto3 packs; a decoder must also read elements that have a key each.
    field = pb.InferTensorContents.DESCRIPTOR.fields_by_name[TYPED_FIELDS[datatype]]
    fixed = datatype == "FP32"
    elements = [
        (field.number << 3 | (5 if fixed else 0)).to_bytes(1, "little") + (pack("FP32", [1.0]) if fixed else b"\1")
    ] * 3
    message = typed(grpc_typed, ident(datatype, [1, 1, 1]))
    message.inputs[0].contents.MergeFromString(b"".join(elements))
    raw = message.SerializeToString()
    if b"".join(elements) not in raw:
        # The library packs elements again: insert them by hand.
        packed = message.inputs[0].contents.SerializeToString()
        growth = len(b"".join(elements)) - len(packed)
        whole = message.inputs[0].SerializeToString()
        inner = whole.replace(
            bytes([0x2A, len(packed)]) + packed, bytes([0x2A, len(packed) + growth]) + b"".join(elements)
        )
        assert inner != whole
        raw = raw.replace(bytes([0x2A, len(whole)]) + whole, bytes([0x2A, len(inner)]) + inner)
    assert b"".join(elements) in raw
    call = grpc_typed.channel.unary_unary(
        "/inference.GRPCInferenceService/ModelInfer",
        request_serializer=lambda raw: raw,
        response_deserializer=pb.ModelInferResponse.FromString,
    )
    assert call(raw, timeout=20).raw_output_contents == [pack(datatype, [1, 1, 1])]


@pytest.mark.parametrize("datatype", ["FP16", "BF16"])
@pytest.mark.parametrize("field", ["fp32_contents", "int_contents", "uint_contents"])
def test_d7_typed_16_bit_floats(grpc_typed: GrpcProtocol, datatype: str, field: str) -> None:
    message = typed(grpc_typed, ident(datatype, []), **{field: [1]})
    message.inputs[0].shape[:] = [1]
    refused(grpc_typed.send(message), 400, "'x'", datatype, "raw")


def test_d8_contents_and_raw(grpc_typed: GrpcProtocol) -> None:
    message = grpc_typed.message(add())
    message.raw_input_contents.extend(entry.raw for entry in add().inputs)
    refused(grpc_typed.send(message), 400, "'a'", "raw_input_contents")
    # One of each is a mixture too.
    message = grpc_typed.message(add())
    message.inputs[1].ClearField("contents")
    message.raw_input_contents.append(add().inputs[1].raw)
    refused(grpc_typed.send(message), 400, "'a'", "raw_input_contents")


@pytest.mark.parametrize("datatype", TYPED_FIELDS)
def test_d9_wrong_typed_field(grpc_typed: GrpcProtocol, datatype: str) -> None:
    expected_field = TYPED_FIELDS[datatype]
    for wrong in set(TYPED_FIELDS.values()) - {expected_field}:
        value = b"1" if wrong == "bytes_contents" else 1
        message = typed(grpc_typed, ident(datatype, SAMPLES[datatype][:1]), **{wrong: [value]})
        refused(grpc_typed.send(message), 400, "'x'", wrong, expected_field)


def test_d9_two_typed_fields(grpc_typed: GrpcProtocol) -> None:
    message = typed(grpc_typed, ident("FP32", [1.0]), fp32_contents=[1.0], fp64_contents=[1.0])
    refused(grpc_typed.send(message), 400, "'x'", "fp64_contents")


@pytest.mark.parametrize("count", [1, 3, 5])
def test_d10_raw_entries_against_the_inputs(grpc_raw: GrpcProtocol, count: int) -> None:
    message = grpc_raw.message(add())
    message.raw_input_contents[:] = [add().inputs[0].raw] * count
    refused(grpc_raw.send(message), 400, "raw_input_contents", str(count), "2")


@pytest.mark.parametrize("size", [0, 15, 17, 32])
def test_d11_raw_size(grpc_raw: GrpcProtocol, size: int) -> None:
    refused(grpc_raw.infer(add().with_input(1, raw=bytes(size))), 400, "'b'", str(size), "16")


@pytest.mark.parametrize("count", [0, 3, 5])
def test_d11_typed_count(grpc_typed: GrpcProtocol, count: int) -> None:
    call = replace(add(), inputs=(tensor("a", "FP32", [1.0] * count, [1, 4]), add().inputs[1]))
    refused(grpc_typed.infer(call), 400, "'a'", str(count or "no data"), "4")


@pytest.mark.trap("T50")
@pytest.mark.parametrize("datatype", SMALL)
def test_d12_typed_value_out_of_range(grpc_typed: GrpcProtocol, datatype: str) -> None:
    bits = int(datatype.rpartition("INT")[2])
    beyond = [2**bits] if datatype.startswith("U") else [2 ** (bits - 1), -(2 ** (bits - 1)) - 1]
    for value in beyond:
        message = typed(grpc_typed, ident(datatype, [1]), **{TYPED_FIELDS[datatype]: [value]})
        refused(grpc_typed.send(message), 400, "'x'", str(value), datatype)


def test_d12_int8_with_300(grpc_typed: GrpcProtocol) -> None:
    refused(grpc_typed.send(typed(grpc_typed, ident("INT8", [1]), int_contents=[300])), 400, "300", "INT8")


@pytest.mark.trap("T2")
@on_grpc
@pytest.mark.parametrize("datatype", list(TYPED_FIELDS))
def test_d20_no_elements(protocol: GrpcProtocol, datatype: str) -> None:
    message = protocol.stub.ModelInfer(protocol.message(ident(datatype, [])), timeout=20)
    assert list(message.raw_output_contents) == [b""]
    assert list(message.outputs[0].shape) == [0]


def test_d20_no_raw_entry_for_no_elements(grpc_raw: GrpcProtocol) -> None:
    message = grpc_raw.message(ident("FP32", []))
    message.ClearField("raw_input_contents")
    served(grpc_raw.send(message), tensor("y", "FP32", []))


@pytest.mark.trap("T27")
@pytest.mark.parametrize("compressed", [False, True])
def test_d21_message_of_64_mib(grpc_raw: GrpcProtocol, compressed: bool) -> None:
    import grpc

    # Four distinct values: gzip reaches a quarter; zeros would exceed the allowed inflation ratio.
    data = np.random.default_rng(0).integers(0, 4, LIMIT - 64, np.uint8).tobytes() if compressed else bytes(LIMIT - 64)
    call = ident("UINT8", [], id="").with_input(0, shape=(len(data),), raw=data)
    message = grpc_raw.message(call)
    message.id = "x" * (LIMIT - message.ByteSize() - 2)
    assert message.ByteSize() == LIMIT
    options = {"compression": grpc.Compression.Gzip} if compressed else {}
    assert grpc_raw.send(message, timeout=60, **options).output("y").raw == data


def test_d21_message_that_inflates_too_much(grpc_raw: GrpcProtocol) -> None:
    import grpc

    message = grpc_raw.message(ident("UINT8", [], id="").with_input(0, shape=(1 << 24,), raw=bytes(1 << 24)))
    response = grpc_raw.send(message, timeout=60, compression=grpc.Compression.Gzip)
    refused(response, 429, "the request's body inflates to more than 100 times its size")


@pytest.mark.trap("T67")
@pytest.mark.parametrize("text", [["one", "", "three"], [""], ["\x00", "ü"], []])
def test_d30_bytes_typed_and_raw(grpc_raw: GrpcProtocol, grpc_typed: GrpcProtocol, text: list[str]) -> None:
    call = Call("echo_s", (tensor("x", "BYTES", text),))
    expected = tensor("y", "BYTES", text)
    assert served(grpc_raw.infer(call), expected).outputs == served(grpc_typed.infer(call), expected).outputs


@on_grpc
def test_d4_outputs_in_the_requested_order(protocol: GrpcProtocol) -> None:
    o1, o2 = tensor("o1", "FP32", [3.0]), tensor("o2", "INT64", [1])
    served(protocol.infer(one("two_out", 1.5, outputs=("o2", "o1"))), o2, o1)
    served(protocol.infer(one("two_out", 1.5, outputs=("o2",))), o2)
