"""One server and one in-process client for all cases, and the protocols to them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from models import streams as stream_models
from models.protocol import GATE, MODELS, Gate
from penstock import Server, ServerConfig
from penstock.testing import Client

from .protocols import AnyProtocol, GrpcProtocol, HttpProtocol
from .transports import InProcess, Rest, Transport


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    config = ServerConfig(http="127.0.0.1:0", grpc="127.0.0.1:0")
    with Server(*MODELS, config=config) as server:
        yield server


@pytest.fixture(scope="session")
def streams() -> Iterator[Server]:
    with Server(*stream_models.MODELS, http="127.0.0.1:0", grpc="127.0.0.1:0") as server:
        yield server


@pytest.fixture(scope="session")
def in_process() -> Iterator[InProcess]:
    with Client(*MODELS) as client:
        yield InProcess(client)


@pytest.fixture(scope="session")
def rest(server: Server) -> Rest:
    return Rest(server.http_url)


@pytest.fixture(scope="session")
def grpc_raw(server: Server) -> Iterator[GrpcProtocol]:
    protocol = GrpcProtocol("grpc-raw", server.grpc_url, typed=False)
    yield protocol
    protocol.channel.close()


@pytest.fixture(scope="session")
def grpc_typed(server: Server) -> Iterator[GrpcProtocol]:
    protocol = GrpcProtocol("grpc-typed", server.grpc_url, typed=True)
    yield protocol
    protocol.channel.close()


@pytest.fixture(scope="session")
def protocols(
    rest: Rest, in_process: InProcess, grpc_raw: GrpcProtocol, grpc_typed: GrpcProtocol
) -> dict[str, AnyProtocol]:
    protocols_list: list[AnyProtocol] = [
        HttpProtocol("rest-json", rest, binary=False),
        HttpProtocol("rest-binary", rest, binary=True),
        HttpProtocol("in-process-json", in_process, binary=False),
        HttpProtocol("in-process-binary", in_process, binary=True),
        grpc_raw,
        grpc_typed,
    ]
    return {protocol.name: protocol for protocol in protocols_list}


@pytest.fixture
def protocol(protocols: dict[str, AnyProtocol], request: pytest.FixtureRequest) -> AnyProtocol:
    return protocols[request.param]


@pytest.fixture(params=["rest", "in-process"])
def http(request: pytest.FixtureRequest, rest: Rest, in_process: InProcess) -> Transport:
    return rest if request.param == "rest" else in_process


@pytest.fixture
def gate() -> Iterator[Gate]:
    """The gate of `slow`, closed; teardown always opens it."""
    GATE.reset()
    yield GATE
    GATE.opened.set()
