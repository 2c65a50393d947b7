"""Compressed gRPC responses, which both sides must enable."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc as tgrpc

from models.protocol import identity
from penstock import Server
from penstock.config import ServerConfig

from .content import one
from .protocols import GrpcProtocol

ENCODINGS = ("gzip", "deflate", "zstd")
LONG = "penstock " * 1000


@pytest.fixture(scope="module", params=ENCODINGS)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    config = ServerConfig(http="127.0.0.1:0", grpc="127.0.0.1:0", grpc_compression=request.param)
    with Server(identity("FP32"), config=config) as server:
        yield server


def response(server: Server, folder: Path, *headers: str) -> tuple[str, int, int]:
    """The head of the response to a curl call, its compressed flag, and its length."""
    version = subprocess.run(["curl", "--version"], capture_output=True, text=True, check=False)
    if "HTTP2" not in version.stdout:
        pytest.skip("there is no curl with HTTP/2")
    raw = GrpcProtocol("grpc", server.grpc_url, typed=False).message(one("ident_FP32", id=LONG)).SerializeToString()
    (folder / "body").write_bytes(struct.pack(">BI", 0, len(raw)) + raw)
    command = ["curl", "-sS", "--http2-prior-knowledge", "-m", "20", "-D", "-", "-o", str(folder / "out")]
    for header in ("content-type: application/grpc", "te: trailers", *headers):
        command += ["-H", header]
    path = "inference.GRPCInferenceService/ModelInfer"
    command += ["--data-binary", f"@{folder / 'body'}", f"http://{server.grpc_url}/{path}"]
    head = subprocess.run(command, capture_output=True, text=True, check=True).stdout.lower()
    flag, length = struct.unpack_from(">BI", (folder / "out").read_bytes())
    return head, flag, length


def test_client_that_accepts_gzip_gets_gzip(server: Server, tmp_path: Path) -> None:
    encoding = server.config.grpc_compression
    head, flag, length = response(server, tmp_path, f"grpc-accept-encoding: identity, {encoding}")
    assert f"grpc-encoding: {encoding}" in head
    assert flag == 1
    assert length < len(LONG) / 10


@pytest.mark.parametrize("accepted", [[], ["grpc-accept-encoding: identity"], ["grpc-accept-encoding: snappy"]])
def test_other_clients_get_uncompressed_responses(server: Server, tmp_path: Path, accepted: list[str]) -> None:
    head, flag, length = response(server, tmp_path, *accepted)
    assert "grpc-encoding" not in head
    assert flag == 0
    assert length > len(LONG)


def test_response_compression_is_off_by_default(tmp_path: Path) -> None:
    with Server(identity("FP32"), http=None, grpc="127.0.0.1:0") as server:
        head, flag, _ = response(server, tmp_path, "grpc-accept-encoding: gzip, deflate, zstd")
    assert ("grpc-encoding" in head, flag) == (False, 0)


@pytest.mark.parametrize("algorithm", [None, "gzip", "deflate"])
def test_tritonclient_reads_compressed_responses(server: Server, algorithm: Any) -> None:
    sent = np.zeros(10_000, np.float32)
    tensor = tgrpc.InferInput("x", [10_000], "FP32")
    tensor.set_data_from_numpy(sent)
    with tgrpc.InferenceServerClient(server.grpc_url) as client:
        found = client.infer("ident_FP32", [tensor], compression_algorithm=algorithm).as_numpy("y")
    np.testing.assert_array_equal(found, sent)


def test_refusals_keep_their_status_with_compression(server: Server) -> None:
    protocol = GrpcProtocol("grpc", server.grpc_url, typed=False)
    refused = protocol.send(protocol.message(one("nobody")), compression=grpc.Compression.Gzip)
    assert (refused.status, "'nobody'" in refused.message) == (404, True)
