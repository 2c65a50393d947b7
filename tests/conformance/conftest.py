"""One server and one in-process client for all cases, and the doors to them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from models import streams as stream_models
from models.protocol import GATE, MODELS, Gate
from penstock import Server, ServerConfig
from penstock.testing import Client

from .doors import Door, GrpcDoor, HttpDoor
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
def grpc_raw(server: Server) -> Iterator[GrpcDoor]:
    door = GrpcDoor("grpc-raw", server.grpc_url, typed=False)
    yield door
    door.channel.close()


@pytest.fixture(scope="session")
def grpc_typed(server: Server) -> Iterator[GrpcDoor]:
    door = GrpcDoor("grpc-typed", server.grpc_url, typed=True)
    yield door
    door.channel.close()


@pytest.fixture(scope="session")
def doors(rest: Rest, in_process: InProcess, grpc_raw: GrpcDoor, grpc_typed: GrpcDoor) -> dict[str, Door]:
    found: list[Door] = [
        HttpDoor("rest-json", rest, binary=False),
        HttpDoor("rest-binary", rest, binary=True),
        HttpDoor("in-process-json", in_process, binary=False),
        HttpDoor("in-process-binary", in_process, binary=True),
        grpc_raw,
        grpc_typed,
    ]
    return {door.name: door for door in found}


@pytest.fixture
def door(doors: dict[str, Door], request: pytest.FixtureRequest) -> Door:
    return doors[request.param]


@pytest.fixture(params=["rest", "in-process"])
def http(request: pytest.FixtureRequest, rest: Rest, in_process: InProcess) -> Transport:
    return rest if request.param == "rest" else in_process


@pytest.fixture
def gate() -> Iterator[Gate]:
    """The gate of `slow`, closed; it is opened at the end whatever happens."""
    GATE.reset()
    yield GATE
    GATE.opened.set()
