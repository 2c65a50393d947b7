"""Routes, health and metadata over REST (cases A, except those in test_phases.py)."""

from __future__ import annotations

import json
from urllib.parse import quote

import numpy as np
import pytest

from penstock import Server, ServerConfig, Tensor, model
from penstock.testing import Client

from .content import one, tensor
from .protocols import GrpcProtocol, HttpProtocol, refused, served
from .transports import InProcess, Rest, Transport

GETS = [
    "/v2",
    "/v2/health/live",
    "/v2/health/ready",
    "/v2/models",
    "/v2/models/add",
    "/v2/models/add/ready",
    "/v2/models/ver/versions/1",
    "/v2/models/ver/versions/1/ready",
]


def ok(reply: object) -> dict[str, object]:
    assert reply.status == 200, reply
    assert reply.headers["content-type"] == "application/json"
    return json.loads(reply.body)


def test_a1_live(http: Transport) -> None:
    assert ok(http.request("GET", "/v2/health/live")) == {"live": True}


@pytest.mark.trap("T12")
def test_a2_ready(http: Transport) -> None:
    assert ok(http.request("GET", "/v2/health/ready")) == {"ready": True, "live": True}


@pytest.mark.trap("T9")
def test_a5_post_to_a_get_route(http: Transport) -> None:
    assert http.request("POST", "/v2/health/live").refusal(405) == "Method Not Allowed"


@pytest.mark.parametrize("path", ["/v2", "/v2/"])
def test_a6_server_metadata(http: Transport, path: str) -> None:
    metadata = ok(http.request("GET", path))
    assert metadata["name"] == "penstock"
    assert isinstance(metadata["version"], str)
    assert metadata["version"]
    assert {"binary_tensor_data", "parameters"} <= set(metadata["extensions"])


@pytest.mark.trap("T9")
@pytest.mark.parametrize(
    ("path", "nearest"),
    [
        ("/nope", None),
        ("/v2/nope", "/v2/models/{model}"),
        ("/v2/models/add/", "/v2/models/{model}"),
        ("/v2/models/add/infer/", "/v2/models/{model}/infer"),
        ("/v2/models/add/infr", "/v2/models/{model}/infer"),
        ("//v2", "/v2"),
        ("/V2", "/v2"),
    ],
)
def test_a7_unknown_path(http: Transport, path: str, nearest: str | None) -> None:
    hint = f": the nearest path is {nearest}" if nearest else ""
    assert http.request("GET", path).refusal(404) == f"Not Found{hint}"


@pytest.mark.trap("T40")
def test_a8_model_metadata_leads_with_the_batch_axis(http: Transport) -> None:
    metadata = ok(http.request("GET", "/v2/models/add"))
    assert metadata == {
        "name": "add",
        "versions": ["1"],
        "platform": metadata["platform"],
        "inputs": [
            {"name": "a", "datatype": "FP32", "shape": [-1, 4]},
            {"name": "b", "datatype": "FP32", "shape": [-1, 4]},
        ],
        "outputs": [{"name": "sum", "datatype": "FP32", "shape": [-1, 4]}],
    }
    assert isinstance(metadata["platform"], str)


@pytest.mark.trap("T40")
def test_a9_versions_of_a_model(http: Transport) -> None:
    assert ok(http.request("GET", "/v2/models/ver"))["versions"] == ["1", "2"]


def test_a10_one_version_of_a_model(http: Transport) -> None:
    assert ok(http.request("GET", "/v2/models/ver/versions/1"))["versions"] == ["1"]


def test_a11_unknown_model(http: Transport) -> None:
    assert "'none'" in http.request("GET", "/v2/models/none").refusal(404)


def test_a12_unknown_version(http: Transport) -> None:
    message = http.request("GET", "/v2/models/ver/versions/9").refusal(404)
    assert "'ver'" in message
    assert "'9'" in message


def test_a13_non_numeric_version(http: Transport) -> None:
    assert "'abc'" in http.request("GET", "/v2/models/ver/versions/abc").refusal(404)


@pytest.mark.parametrize("path", ["/v2/models/add/ready", "/v2/models/add/versions/1/ready"])
def test_a14_model_ready(http: Transport, path: str) -> None:
    assert ok(http.request("GET", path)) == {"name": "add", "ready": True}


@pytest.mark.parametrize("path", ["/v2/models/none/ready", "/v2/models/add/versions/9/ready"])
def test_a16_ready_of_an_unknown_model(http: Transport, path: str) -> None:
    http.request("GET", path).refusal(404)


def spaced() -> object:
    x = Tensor("x", np.float32, [-1])
    return model(lambda x: x, name="a bü", inputs=[x], outputs=[Tensor("y", np.float32, [-1])])


@pytest.mark.trap("T48")
def test_a17_name_with_a_space_and_an_umlaut() -> None:
    config = ServerConfig(http="127.0.0.1:0", grpc="127.0.0.1:0")
    expected = tensor("y", "FP32", [1.0])
    with Server(spaced(), config=config) as server, Client(spaced()) as client:
        for transport in (Rest(server.http_url), InProcess(client)):
            assert ok(transport.request("GET", "/v2/models/a%20b%C3%BC"))["name"] == "a bü"
            assert ok(transport.request("GET", f"/v2/models/{quote('a bü')}/ready")) == {"name": "a bü", "ready": True}
            for binary in (False, True):
                response = HttpProtocol("http", transport, binary=binary).infer(one("a bü"))
                assert served(response, expected).model == "a bü"
        protocol = GrpcProtocol("grpc", server.grpc_url, typed=False)
        assert served(protocol.infer(one("a bü")), expected).model == "a bü"
        refused(protocol.infer(one("a b")), 404, "'a b'")
        protocol.channel.close()


@pytest.mark.parametrize("path", GETS)
def test_a18_unknown_query_is_ignored(http: Transport, path: str) -> None:
    plain = ok(http.request("GET", path))
    assert ok(http.request("GET", f"{path}?unknown=1&x=%20&")) == plain


def test_a19_list_of_models(http: Transport) -> None:
    document = ok(http.request("GET", "/v2/models"))
    assert list(document) == ["models"]
    assert {"add", "ver", "ident_BF16"} <= set(document["models"])
    assert document["models"].count("ver") == 1


def test_a20_head_of_a_health_route(rest: Rest) -> None:
    for path in ("/v2/health/ready", "/v2/health/live"):
        reply = rest.request("HEAD", path)
        assert reply.status == 200
        assert reply.body == b""
        assert int(reply.headers["content-length"]) == len(rest.request("GET", path).body)
