"""Headers that become parameters (case F25)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from tritonclient.grpc import service_pb2 as pb

from models.protocol import add, parameters
from penstock import Server
from penstock.testing import Client

from .content import add as plain
from .content import one
from .protocols import GrpcProtocol, HttpProtocol
from .transports import Rest

PATTERN = "^x-tenant|color|^timeout$|priority|sequence_|headers$|^binary_data_output$|triton"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    patterns = {"http_header_forward_pattern": PATTERN, "grpc_header_forward_pattern": PATTERN}
    with Server(add, parameters, http="127.0.0.1:0", grpc="127.0.0.1:0", **patterns) as server:  # type: ignore[arg-type]
        yield server


class Ask:
    """Sends a request to `parameters` with further headers; what came of it, and the parameters that were seen."""

    def __init__(self, server: Server, protocol: str) -> None:
        self.protocol = protocol
        self.http = HttpProtocol("rest", Rest(server.http_url), binary=False)
        self.grpc = GrpcProtocol("grpc", server.grpc_url, typed=False)

    def __call__(self, headers: dict[str, str], model: str = "parameters", **changes: Any) -> tuple[int, Any]:
        call = plain(**changes) if model == "add" else one(model, **changes)
        if self.protocol == "http":
            body, own = self.http.encode(call)
            reply = self.http.transport.request("POST", f"/v2/models/{model}/infer", body, {**own, **headers})
            seen = reply.json().get("parameters", {}) if reply.status == 200 else reply.refusal(400)
            return reply.status, seen
        metadata = [(name.lower(), value) for name, value in headers.items()]
        answer = self.grpc.send(self.grpc.message(call), metadata=metadata)
        return answer.status, answer.parameters if answer.status == 200 else answer.message


@pytest.fixture(params=["http", "grpc"])
def ask(server: Server, request: pytest.FixtureRequest) -> Ask:
    return Ask(server, request.param)


def test_f25_matching_headers_become_parameters(ask: Ask) -> None:
    headers = {"X-Tenant-Id": "7", "Favourite-COLOR": "blue", "Not-X-Tenant": "no", "Other": "no"}
    status, seen = ask(headers, parameters={"own": 1})
    assert status == 200
    forwarded = {"x-tenant-id": "7", "favourite-color": "blue"}
    assert {name: value for name, value in seen.items() if not name.startswith("type_of_")} == {**forwarded, "own": 1}
    assert seen["type_of_x-tenant-id"] == "str"


def test_f25_a_header_wins_over_a_parameter_of_its_name(ask: Ask) -> None:
    status, seen = ask({"color": "header"}, parameters={"color": "request"})
    assert (status, seen["color"]) == (200, "header")


@pytest.mark.parametrize(
    "name",
    [
        *("timeout", "priority", "sequence_id", "sequence_start", "sequence_end", "headers", "binary_data_output"),
        *("triton_x", "triton_enable_empty_final_response"),
    ],
)
@pytest.mark.parametrize("model", ["parameters", "add"])
def test_f25_reserved_names_are_refused(ask: Ask, name: str, model: str) -> None:
    # Of a model that does not look at its context, too.
    status, message = ask({name: "1"}, model)
    assert status == 400
    assert f"header '{name}'" in message
    assert "reserved" in message


def test_f25_a_header_that_comes_twice_is_one_parameter(server: Server) -> None:
    protocol = GrpcProtocol("grpc", server.grpc_url, typed=False)
    answer = protocol.send(protocol.message(one("parameters")), metadata=[("color", "red"), ("color", "blue")])
    assert answer.parameters["color"] == "red, blue"


def test_f25_without_a_pattern_nothing_is_forwarded() -> None:
    body, _ = HttpProtocol("rest", Rest("http://localhost:1"), binary=False).encode(one("parameters"))
    with Client(parameters) as client:
        answer = client.post("/v2/models/parameters/infer", body, headers={"color": "blue", "timeout": "1"})
    assert answer.status == 200
    assert "parameters" not in answer.json()


def test_f25_a_compressed_call_is_forwarded_too(server: Server) -> None:
    protocol = GrpcProtocol("grpc", server.grpc_url, typed=False)
    message: pb.ModelInferRequest = protocol.message(one("parameters", id="long " * 1000))
    answer = protocol.send(message, metadata=[("color", "red")], compression=grpc.Compression.Gzip)
    assert answer.parameters["color"] == "red"
