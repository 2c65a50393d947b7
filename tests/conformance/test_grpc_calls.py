"""gRPC calls, names and parameters (cases D1 to D3, D13 to D19, D22, D26, D28 and D29)."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from tritonclient.grpc import service_pb2 as pb

from http_by_hand import metric
from penstock import Server

from .content import add, one, summed, tensor
from .protocols import GRPC, AnyProtocol, GrpcProtocol, on_grpc, read, refused, served
from .transports import Rest

SERVICE = "/inference.GRPCInferenceService"


def same(value: bytes) -> bytes:
    return value


def unary(protocol: GrpcProtocol, path: str) -> Callable[..., bytes]:
    """A call of raw messages."""
    return protocol.channel.unary_unary(path, request_serializer=same, response_deserializer=same)


def code_of(call: Callable[..., Any], *arguments: Any, **options: Any) -> grpc.StatusCode:
    with pytest.raises(grpc.RpcError) as refusal:
        call(*arguments, timeout=20, **options)
    assert refusal.value.details()
    return refusal.value.code()


def test_d1_server(grpc_raw: GrpcProtocol, rest: Rest) -> None:
    stub = grpc_raw.stub
    assert stub.ServerLive(pb.ServerLiveRequest(), timeout=20).live
    assert stub.ServerReady(pb.ServerReadyRequest(), timeout=20).ready
    metadata = stub.ServerMetadata(pb.ServerMetadataRequest(), timeout=20)
    document = rest.request("GET", "/v2").json()
    assert (metadata.name, metadata.version) == (document["name"], document["version"])
    assert metadata.name
    assert metadata.version
    assert list(metadata.extensions) == document["extensions"]


def test_d3_model_metadata(grpc_raw: GrpcProtocol) -> None:
    metadata = grpc_raw.stub.ModelMetadata(pb.ModelMetadataRequest(name="add"), timeout=20)
    assert (metadata.name, list(metadata.versions)) == ("add", ["1"])
    assert [(x.name, x.datatype, list(x.shape)) for x in metadata.inputs] == [
        ("a", "FP32", [-1, 4]),
        ("b", "FP32", [-1, 4]),
    ]
    assert [(x.name, x.datatype, list(x.shape)) for x in metadata.outputs] == [("sum", "FP32", [-1, 4])]


@pytest.mark.trap("T23")
def test_d3_metadata_omits_fields_that_differ_between_servers(grpc_raw: GrpcProtocol) -> None:
    # Field 6 of the message, and 4 of a tensor, have different types in different servers.
    raw = unary(grpc_raw, f"{SERVICE}/ModelMetadata")(pb.ModelMetadataRequest(name="add").SerializeToString())
    metadata = pb.ModelMetadataResponse.FromString(raw)
    fields_present = {field.number for field, _ in metadata.ListFields()}
    assert fields_present == {1, 2, 3, 4, 5}
    # Unknown fields are retained, and would be written again.
    metadata.DiscardUnknownFields()
    assert len(metadata.SerializeToString()) == len(raw)


@pytest.mark.parametrize("version", ["", "1", "2"])
def test_d3_metadata_agrees_with_rest(grpc_raw: GrpcProtocol, rest: Rest, version: str) -> None:
    metadata = grpc_raw.stub.ModelMetadata(pb.ModelMetadataRequest(name="ver", version=version), timeout=20)
    document = rest.request("GET", "/v2/models/ver" + (f"/versions/{version}" if version else "")).json()
    tensors = [
        [{"name": x.name, "datatype": x.datatype, "shape": list(x.shape)} for x in side]
        for side in (metadata.inputs, metadata.outputs)
    ]
    assert document == {
        "name": metadata.name,
        "versions": list(metadata.versions),
        "platform": metadata.platform,
        "inputs": tensors[0],
        "outputs": tensors[1],
    }
    assert document["versions"] == ([version] if version else ["1", "2"])


@pytest.mark.trap("T37")
@on_grpc
def test_d13_unknown_model(protocol: AnyProtocol) -> None:
    refused(protocol.infer(one("none")), 404, "'none'")
    refused(protocol.infer(one("ver", version="9")), 404, "'ver'", "'9'")


def test_d13_unknown_model_in_other_calls(grpc_raw: GrpcProtocol) -> None:
    request = pb.ModelMetadataRequest
    for unknown in (request(name="none"), request(name="ver", version="9"), request()):
        assert code_of(grpc_raw.stub.ModelMetadata, unknown) == grpc.StatusCode.NOT_FOUND


@on_grpc
def test_d14_non_numeric_version(protocol: AnyProtocol) -> None:
    refused(protocol.infer(one("ver", version="abc")), 404, "'ver'", "'abc'")


@pytest.mark.trap("T25")
@on_grpc
def test_d15_parameters_of_all_kinds(protocol: GrpcProtocol) -> None:
    message = protocol.message(one("parameters"))
    message.parameters["flag"].bool_param = True
    message.parameters["count"].int64_param = -(2**63)
    message.parameters["text"].string_param = "ü"
    message.parameters["ratio"].double_param = 0.25
    message.parameters["most"].uint64_param = 2**64 - 1
    message.parameters["small"].uint64_param = 3
    response = served(protocol.send(message), tensor("y", "FP32", [1.0]))
    parameters = {"flag": True, "count": -(2**63), "text": "ü", "ratio": 0.25, "most": 2**64 - 1, "small": 3}
    assert response.parameters == {
        **parameters,
        **{f"type_of_{name}": type(value).__name__ for name, value in parameters.items()},
    }


@on_grpc
def test_d15_parameter_without_a_value(protocol: GrpcProtocol) -> None:
    message = protocol.message(one("parameters"))
    message.parameters["empty"].SetInParent()
    refused(protocol.send(message), 400, "'empty'")


@on_grpc
@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("priority", "uint64_param", 1),
        ("priority", "int64_param", 1),
        ("sequence_id", "int64_param", 7),
        ("sequence_id", "string_param", "seven"),
    ],
)
def test_d16_reserved_parameters(protocol: GrpcProtocol, name: str, field: str, value: Any) -> None:
    message = protocol.message(one("parameters"))
    setattr(message.parameters[name], field, value)
    assert served(protocol.send(message), tensor("y", "FP32", [1.0])).parameters == {}


@on_grpc
def test_d17_text_priority(protocol: GrpcProtocol) -> None:
    message = protocol.message(one("parameters"))
    message.parameters["priority"].string_param = "high"
    refused(protocol.send(message), 400, "'priority'", "a string", "an integer")


@pytest.mark.trap("T30")
@on_grpc
@pytest.mark.parametrize("value", [True, False])
def test_d18_stream_flag_on_a_unary_call(protocol: GrpcProtocol, value: bool) -> None:
    message = protocol.message(one("parameters"))
    message.parameters["triton_enable_empty_final_response"].bool_param = value
    assert served(protocol.send(message), tensor("y", "FP32", [1.0])).parameters == {}


@on_grpc
def test_d19_other_reserved_parameter(protocol: GrpcProtocol) -> None:
    message = protocol.message(one("parameters"))
    message.parameters["triton_x"].bool_param = True
    refused(protocol.send(message), 400, "'triton_x'", "reserved")


@on_grpc
@pytest.mark.parametrize("compression", [grpc.Compression.Gzip, grpc.Compression.Deflate], ids=["gzip", "deflate"])
def test_d22_compressed_messages(protocol: GrpcProtocol, compression: grpc.Compression) -> None:
    # Long and repetitive, so that the client compresses it.
    text = "penstock " * 1000
    served(protocol.send(protocol.message(add(rows=8, id=text)), compression=compression), summed(8))
    response = protocol.send(protocol.message(one("none", id=text)), compression=compression)
    refused(response, 404, "'none'")


def frame(message: pb.ModelInferRequest) -> bytes:
    raw = message.SerializeToString()
    return struct.pack(">BI", 0, len(raw)) + raw


def curl(server: Server, tmp_path: Path, body: bytes, *headers: str) -> str:
    """The head and trailers of the response to a gRPC call that gRPC clients do not make."""
    version = subprocess.run(["curl", "--version"], capture_output=True, text=True, check=False)
    if "HTTP2" not in version.stdout:
        pytest.skip("there is no curl with HTTP/2")
    (tmp_path / "body").write_bytes(body)
    command = ["curl", "-sS", "--http2-prior-knowledge", "-m", "20", "-D", "-", "-o", str(tmp_path / "out")]
    for header in ("content-type: application/grpc", "te: trailers", *headers):
        command += ["-H", header]
    command += ["--data-binary", f"@{tmp_path / 'body'}", f"http://{server.grpc_url}{SERVICE}/ModelInfer"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.lower()


def test_d22_unknown_compression(server: Server, grpc_raw: GrpcProtocol, tmp_path: Path) -> None:
    body = frame(grpc_raw.message(one("ident_FP32")))
    # A valid call succeeds; otherwise the refusal below would prove nothing.
    curl(server, tmp_path, body)
    assert b"ident_FP32" in (tmp_path / "out").read_bytes()
    # Without a body: curl treats a refusal before the end of its upload as a broken stream.
    response = curl(server, tmp_path, b"", "grpc-encoding: unheard-of")
    assert "grpc-status: 12" in response
    assert "grpc-accept-encoding:" in response


@pytest.mark.parametrize("body", [b"", b"\0", b"\0\0\0\0\x05abc", b"\0\0\0\0\x04\xff\xff\xff\xff"])
def test_d11_broken_frame(server: Server, tmp_path: Path, body: bytes) -> None:
    response = curl(server, tmp_path, body)
    assert "grpc-status: 3" in response or "grpc-status: 13" in response, response


def health(protocol: GrpcProtocol, service: str) -> bytes:
    raw = b"" if not service else bytes([0x0A, len(service.encode())]) + service.encode()
    return unary(protocol, "/grpc.health.v1.Health/Check")(raw, timeout=20)


@pytest.mark.parametrize("service", ["", "inference.GRPCInferenceService", "add"])
def test_d26_health_check(grpc_raw: GrpcProtocol, service: str) -> None:
    # Field 1, the enum's SERVING.
    assert health(grpc_raw, service) == b"\x08\x01"


def test_d26_health_check_of_an_unknown_service(grpc_raw: GrpcProtocol) -> None:
    with pytest.raises(grpc.RpcError) as refusal:
        health(grpc_raw, "none")
    assert refusal.value.code() == grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize(
    "path", [f"{SERVICE}/Nope", "/inference.Nope/ModelInfer", "/nope/nope", f"{SERVICE}/modelinfer"]
)
def test_d28_unknown_call(grpc_raw: GrpcProtocol, path: str) -> None:
    with pytest.raises(grpc.RpcError) as refusal:
        unary(grpc_raw, path)(b"", timeout=20)
    assert refusal.value.code() == grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize("protocol", GRPC, indirect=True)
@pytest.mark.parametrize(
    "unknown",
    [
        pytest.param(b"\x98\x06\x07", id="varint"),
        pytest.param(b"\x99\x06" + bytes(8), id="fixed64"),
        pytest.param(b"\x9a\x06\x03abc", id="bytes"),
        pytest.param(b"\x9d\x06" + bytes(4), id="fixed32"),
    ],
)
@pytest.mark.parametrize("before", [False, True])
def test_d29_unknown_fields(protocol: GrpcProtocol, unknown: bytes, before: bool) -> None:
    message = protocol.message(add())
    inner = message.inputs[0].SerializeToString()
    message.inputs[0].MergeFromString(inner[:0] + unknown)
    raw = message.SerializeToString()
    assert raw.count(unknown) == 1, "the input lost its unknown field"
    reply = unary(protocol, f"{SERVICE}/ModelInfer")(unknown + raw if before else raw + unknown, timeout=20)
    served(read(pb.ModelInferResponse.FromString(reply)), summed())


CALLS = [method.name for method in pb.DESCRIPTOR.services_by_name["GRPCInferenceService"].methods]
HEALTH_CALLS = ["/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"]
NO_MESSAGE = b"\x0a\xff\xff\xff"
"""A field that is longer than its message."""


@pytest.mark.parametrize("path", [*(f"{SERVICE}/{name}" for name in CALLS), *HEALTH_CALLS])
def test_invalid_protobuf_is_invalid_argument_in_every_call(grpc_raw: GrpcProtocol, rest: Rest, path: str) -> None:
    """Every call, like ModelInfer, refuses it with INVALID_ARGUMENT, and counts it."""
    before = metric(rest.request("GET", "/metrics").body.decode(), "penstock_refused_total")
    streams = path.endswith(("ModelStreamInfer", "Watch"))
    make = grpc_raw.channel.stream_stream if streams else grpc_raw.channel.unary_unary
    call = make(path, request_serializer=same, response_deserializer=same)
    with pytest.raises(grpc.RpcError) as refusal:
        list(call(iter([NO_MESSAGE]), timeout=20)) if streams else call(NO_MESSAGE, timeout=20)
    assert refusal.value.code() == grpc.StatusCode.INVALID_ARGUMENT, refusal.value.details()
    assert metric(rest.request("GET", "/metrics").body.decode(), "penstock_refused_total") == before + 1


def test_messages_of_calls_without_tensors_have_a_small_limit(grpc_raw: GrpcProtocol) -> None:
    message = pb.ModelMetadataRequest(name="m" * (1 << 18)).SerializeToString()
    with pytest.raises(grpc.RpcError) as refusal:
        unary(grpc_raw, f"{SERVICE}/ModelMetadata")(message, timeout=20)
    assert refusal.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert refusal.value.details() == f"the message has {len(message)} bytes, at most 262144 are accepted"


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (b"\2\0\0\0\0", "the message has the compression flag 2, expected 0 or 1"),
        (b"\1\0\0\0\1x", "the message is compressed, but the call has no grpc-encoding"),
        (b"\0\0\0\0\0\0\0\0\0\0", "the call carries more than one message"),
        (b"\0\0\0", "the call's body ends within the prefix of a message"),
        (b"\0\0\0\0\5\x0a\3m", "the call's body ends within a message"),
        (b"", "the call carries no message"),
    ],
)
def test_d11_frame_errors_are_described(server: Server, tmp_path: Path, sent: bytes, message: str) -> None:
    assert f"grpc-message: {message}".lower() in curl(server, tmp_path, sent)
