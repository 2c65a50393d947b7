"""gRPC reflection, both versions, with gRPC's own client (case D27, T61)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_reflection.v1alpha import reflection_pb2 as pb
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from penstock import Server

from .protocols import GrpcProtocol

VERSIONS = ("v1", "v1alpha")
SERVICES = {
    "inference.GRPCInferenceService",
    "grpc.health.v1.Health",
    "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
}
ROOT = Path(__file__).resolve().parents[2]


def reflect(channel: grpc.Channel, version: str, **request: Any) -> pb.ServerReflectionResponse:
    """One reflection request. Both versions have the same messages under two names."""
    call = channel.stream_stream(
        f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
        request_serializer=pb.ServerReflectionRequest.SerializeToString,
        response_deserializer=pb.ServerReflectionResponse.FromString,
    )
    (response,) = call(iter([pb.ServerReflectionRequest(**request)]), timeout=20)
    return response


@pytest.mark.trap("T61")
@pytest.mark.parametrize("version", VERSIONS)
def test_d27_list(grpc_raw: GrpcProtocol, version: str) -> None:
    response = reflect(grpc_raw.channel, version, list_services="")
    assert {service.name for service in response.list_services_response.service} == SERVICES


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("symbol", [*sorted(SERVICES), "inference.ModelInferRequest", "inference.ModelConfig"])
def test_d27_describe(grpc_raw: GrpcProtocol, version: str, symbol: str) -> None:
    response = reflect(grpc_raw.channel, version, file_containing_symbol=symbol)
    (raw,) = response.file_descriptor_response.file_descriptor_proto
    file = FileDescriptorProto.FromString(raw)
    names = {one.name for one in (*file.service, *file.message_type)}
    assert symbol.rpartition(".")[2] in names
    assert symbol.rpartition(".")[0] == file.package


@pytest.mark.parametrize("version", VERSIONS)
def test_d27_unknown_symbol(grpc_raw: GrpcProtocol, version: str) -> None:
    with pytest.raises(grpc.RpcError) as refusal:
        reflect(grpc_raw.channel, version, file_containing_symbol="inference.Nobody")
    assert refusal.value.code() == grpc.StatusCode.NOT_FOUND


def test_d27_every_call_of_the_proto_file_is_described(grpc_raw: GrpcProtocol) -> None:
    pool = DescriptorPool(ProtoReflectionDescriptorDatabase(grpc_raw.channel))
    service = pool.FindServiceByName("inference.GRPCInferenceService")
    written = [
        line.split("(")[0].removeprefix("  rpc ")
        for line in (ROOT / "proto" / "open_inference.proto").read_text().splitlines()
        if line.startswith("  rpc ")
    ]
    assert [method.name for method in service.methods] == written
    assert pool.FindServiceByName("grpc.health.v1.Health").methods_by_name["List"]


def test_reflection_can_be_disabled() -> None:
    from models.same import same

    with (
        Server(same, http=None, grpc="127.0.0.1:0", grpc_reflection=False) as server,
        grpc.insecure_channel(server.grpc_url) as channel,
        pytest.raises(grpc.RpcError) as refusal,
    ):
        reflect(channel, "v1", list_services="")
    assert refusal.value.code() == grpc.StatusCode.UNIMPLEMENTED
