"""Model statistics, equal over REST and gRPC (cases F7 to F10, T36, T42)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import pytest
from google.protobuf.json_format import MessageToDict
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc

from http_by_hand import get, infer
from models.protocol import add, boom, ver_1, ver_2
from penstock import Server
from penstock.testing import Client

DURATIONS = {"success", "fail", "queue", "compute_input", "compute_infer", "compute_output", "cache_hit", "cache_miss"}
MODELS = (add, boom, ver_1, ver_2)


@pytest.fixture
def server() -> Iterator[Server]:
    """A separate server, because statistics count from its start."""
    with Server(*MODELS, http="127.0.0.1:0", grpc="127.0.0.1:0") as server:
        yield server


def rows(count: int) -> dict[str, Any]:
    return {name: np.ones((count, 4), np.float32) for name in "ab"}


def over_rest(server: Server, path: str = "/v2/models/stats") -> list[dict[str, Any]]:
    response = get(server.http_url, path)
    assert response.status == 200, response.body
    stats: list[dict[str, Any]] = response.json()["model_stats"]
    return stats


def over_grpc(server: Server, **query: str) -> pb.ModelStatisticsResponse:
    with grpc.insecure_channel(server.grpc_url) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        return stub.ModelStatistics(pb.ModelStatisticsRequest(**query), timeout=20)


@pytest.mark.parametrize("batch", [1, 3, 8])
def test_f7_counts_after_some_requests(server: Server, batch: int) -> None:
    count = 5
    for _ in range(count):
        assert infer(server.http_url, "add", rows(batch)).status == 200
    (stats,) = over_rest(server, "/v2/models/add/stats")
    assert (stats["name"], stats["version"]) == ("add", "1")
    assert stats["inference_count"] == count * batch
    assert 1 <= stats["execution_count"] <= count
    assert stats["last_inference"] > 1_700_000_000_000
    durations = stats["inference_stats"]
    assert set(durations) == DURATIONS
    for key in ("success", "queue", "compute_input", "compute_infer", "compute_output"):
        assert durations[key]["count"] == count, key
        assert durations[key]["ns"] > 0, key
    for key in ("fail", "cache_hit", "cache_miss"):
        assert durations[key] == {"count": 0, "ns": 0}
    parts = sum(durations[key]["ns"] for key in ("queue", "compute_input", "compute_infer", "compute_output"))
    assert parts <= durations["success"]["ns"]
    by_size = {one["batch_size"]: one for one in stats["batch_stats"]}
    assert sum(size * one["compute_infer"]["count"] for size, one in by_size.items()) == count * batch
    assert sum(one["compute_infer"]["count"] for one in by_size.values()) == stats["execution_count"]
    assert (stats["memory_usage"], stats["response_stats"]) == ([], {})


@pytest.mark.trap("T42")
def test_f7_every_key_is_present_before_the_first_request(server: Server) -> None:
    # T42: perf_analyzer reads all eight unconditionally, and aborts if one is missing.
    for stats in over_rest(server):
        assert stats["inference_stats"] == {key: {"count": 0, "ns": 0} for key in DURATIONS}
        assert (stats["last_inference"], stats["inference_count"], stats["execution_count"]) == (0, 0, 0)
        assert stats["batch_stats"] == []


@pytest.mark.trap("T36")
@pytest.mark.parametrize("path", ["none/stats", "ver/versions/9/stats", "ver/versions/abc/stats"])
def test_f8_unknown_model_or_version(server: Server, path: str) -> None:
    # T36: not 400, as in other servers.
    response = get(server.http_url, f"/v2/models/{path}")
    assert response.status == 404
    assert f"'{path.partition('/')[0]}'" in response.json()["error"]


@pytest.mark.parametrize("query", [{"name": "none"}, {"name": "ver", "version": "9"}])
def test_f8_unknown_model_or_version_over_grpc(server: Server, query: dict[str, str]) -> None:
    with pytest.raises(grpc.RpcError) as refusal:
        over_grpc(server, **query)
    assert refusal.value.code() == grpc.StatusCode.NOT_FOUND


def test_f8_version_requires_a_name(server: Server) -> None:
    with pytest.raises(grpc.RpcError) as refusal:
        over_grpc(server, version="1")
    assert refusal.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "'1'" in refusal.value.details()


def numbers(document: Any) -> Any:
    """Converts texts to integers, because protobuf's JSON writes 64-bit integers as text."""
    if isinstance(document, dict):
        return {key: numbers(value) for key, value in document.items()}
    if isinstance(document, list):
        return [numbers(value) for value in document]
    return int(document) if isinstance(document, str) and document.isdigit() else document


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/v2/models/stats", {}),
        ("/v2/models/add/stats", {"name": "add"}),
        ("/v2/models/ver/stats", {"name": "ver"}),
        ("/v2/models/ver/versions/1/stats", {"name": "ver", "version": "1"}),
    ],
)
def test_f9_statistics_are_equal_over_both_protocols(server: Server, path: str, query: dict[str, str]) -> None:
    for count in (1, 4, 8, 4):
        infer(server.http_url, "add", rows(count))
    infer(server.http_url, "boom", {"x": np.ones(1, np.float32)})
    message = MessageToDict(
        over_grpc(server, **query), preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    assert numbers(message["model_stats"]) == numbers(over_rest(server, path))


def test_f9_names_versions_and_order(server: Server) -> None:
    rows_found = [(stats["name"], stats["version"]) for stats in over_rest(server)]
    assert rows_found == [("add", "1"), ("boom", "1"), ("ver", "1"), ("ver", "2")]
    assert [stats["version"] for stats in over_rest(server, "/v2/models/ver/stats")] == ["1", "2"]


def test_f10_failed_requests(server: Server) -> None:
    one = {"x": np.ones(1, np.float32)}
    assert infer(server.http_url, "boom", one).status == 500
    (stats,) = over_rest(server, "/v2/models/boom/stats")
    assert stats["inference_stats"]["fail"]["count"] == 1
    assert stats["inference_stats"]["fail"]["ns"] > 0
    assert (stats["inference_stats"]["success"]["count"], stats["inference_count"]) == (0, 0)
    assert stats["execution_count"] == 1
    # Refused before the handler runs.
    assert infer(server.http_url, "boom", {"zzz": np.ones(1, np.float32)}).status == 400
    (stats,) = over_rest(server, "/v2/models/boom/stats")
    assert (stats["inference_stats"]["fail"]["count"], stats["execution_count"]) == (2, 1)


def test_split_request_counts_as_one_request() -> None:
    from penstock import Batching, Tensor, model

    split = model(
        lambda x: x,
        name="split",
        inputs=[Tensor("x", np.float32, [])],
        outputs=[Tensor("y", np.float32, [])],
        batching=Batching(max_size=4, oversize="split"),
    )
    with Client(split) as client:
        client.infer("split", {"x": np.arange(10, dtype=np.float32)})
        (stats,) = json.loads(client.get("/v2/models/split/stats").body)["model_stats"]
    assert (stats["inference_count"], stats["execution_count"]) == (10, 3)
    assert {stats["inference_stats"][key]["count"] for key in ("success", "queue", "compute_infer")} == {1}
