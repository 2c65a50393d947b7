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


class InferWithHeaders:
    """Sends a request to `parameters` with further headers; returns the status and the parameters seen."""

    def __init__(self, server: Server, protocol: str) -> None:
        self.protocol = protocol
        self.http = HttpProtocol("rest", Rest(server.http_url), binary=False)
        self.grpc = GrpcProtocol("grpc", server.grpc_url, typed=False)

    def __call__(self, headers: dict[str, str], model: str = "parameters", **changes: Any) -> tuple[int, Any]:
        call = plain(**changes) if model == "add" else one(model, **changes)
        if self.protocol == "http":
            body, body_headers = self.http.encode(call)
            reply = self.http.transport.request("POST", f"/v2/models/{model}/infer", body, {**body_headers, **headers})
            parameters = reply.json().get("parameters", {}) if reply.status == 200 else reply.refusal(400)
            return reply.status, parameters
        metadata = [(name.lower(), value) for name, value in headers.items()]
        response = self.grpc.send(self.grpc.message(call), metadata=metadata)
        return response.status, response.parameters if response.status == 200 else response.message


@pytest.fixture(params=["http", "grpc"])
def infer_with(server: Server, request: pytest.FixtureRequest) -> InferWithHeaders:
    return InferWithHeaders(server, request.param)


def test_f25_matching_headers_become_parameters(infer_with: InferWithHeaders) -> None:
    headers = {"X-Tenant-Id": "7", "Favourite-COLOR": "blue", "Not-X-Tenant": "no", "Other": "no"}
    status, parameters = infer_with(headers, parameters={"own": 1})
    assert status == 200
    forwarded = {"x-tenant-id": "7", "favourite-color": "blue"}
    assert {name: value for name, value in parameters.items() if not name.startswith("type_of_")} == {
        **forwarded,
        "own": 1,
    }
    assert parameters["type_of_x-tenant-id"] == "str"


def test_f25_header_overrides_a_parameter_of_the_same_name(infer_with: InferWithHeaders) -> None:
    status, parameters = infer_with({"color": "header"}, parameters={"color": "request"})
    assert (status, parameters["color"]) == (200, "header")


@pytest.mark.parametrize(
    "name",
    [
        *("timeout", "priority", "sequence_id", "sequence_start", "sequence_end", "headers", "binary_data_output"),
        *("triton_x", "triton_enable_empty_final_response"),
    ],
)
@pytest.mark.parametrize("model", ["parameters", "add"])
def test_f25_reserved_names_are_rejected(infer_with: InferWithHeaders, name: str, model: str) -> None:
    # Also for a model that does not read its context.
    status, message = infer_with({name: "1"}, model)
    assert status == 400
    assert f"header '{name}'" in message
    assert "reserved" in message


def test_f25_repeated_header_is_one_parameter(server: Server) -> None:
    protocol = GrpcProtocol("grpc", server.grpc_url, typed=False)
    response = protocol.send(protocol.message(one("parameters")), metadata=[("color", "red"), ("color", "blue")])
    assert response.parameters["color"] == "red, blue"


def test_f25_without_a_pattern_nothing_is_forwarded() -> None:
    body, _ = HttpProtocol("rest", Rest("http://localhost:1"), binary=False).encode(one("parameters"))
    with Client(parameters) as client:
        response = client.post("/v2/models/parameters/infer", body, headers={"color": "blue", "timeout": "1"})
    assert response.status == 200
    assert "parameters" not in response.json()


def test_f25_headers_of_compressed_calls_are_forwarded(server: Server) -> None:
    protocol = GrpcProtocol("grpc", server.grpc_url, typed=False)
    message: pb.ModelInferRequest = protocol.message(one("parameters", id="long " * 1000))
    response = protocol.send(message, metadata=[("color", "red")], compression=grpc.Compression.Gzip)
    assert response.parameters["color"] == "red"
