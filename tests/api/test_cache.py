"""Response cache: keys, isolation of clients, eviction and request coalescing."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as tgrpc

from http_by_hand import HttpResponse, binary_body, connect, get, infer, json_body, metric_at, post
from penstock import (
    Batching,
    Cache,
    Context,
    InvalidInput,
    Model,
    RowErrors,
    Sequences,
    Server,
    SignatureError,
    Tensor,
    model,
)
from penstock.testing import Client
from waiting import Gate, at_once, until

FLOATS = {"inputs": [Tensor("x", np.float32, [2])], "outputs": [Tensor("y", np.float32, [2])]}
TWO = {**FLOATS, "outputs": [Tensor("y", np.float32, [2]), Tensor("z", np.float32, [2])]}
DOCUMENT = Path(__file__).parents[2] / "docs/caching.md"


def x(*values: float) -> dict[str, Any]:
    return {"x": np.array(values or (1, 2), np.float32)}


class CountingServer:
    """A served model and the recorded calls of its handler."""

    def __init__(self, handler: Callable[..., Any], server: Server, calls: list[Any]) -> None:
        self.name, self.server, self.calls = getattr(handler, "__name__", "m"), server, calls

    def infer_json(
        self, inputs: dict[str, Any] | None = None, headers: dict[str, str] | None = None, **body: Any
    ) -> HttpResponse:
        return post(self.server.http_url, "/v2/models/m/infer", json_body(inputs or x(), **body), headers)

    def statistics(self) -> dict[str, Any]:
        (stats,) = get(self.server.http_url, "/v2/models/m/stats").json()["model_stats"]
        return dict(stats)

    def metric(self, name: str) -> float:
        return metric_at(self.server.http_url, f"penstock_cache_{name}", model="m")


@contextmanager
def serving(
    handler: Callable[..., Any] | None = None, cache: Cache | None = None, **options: Any
) -> Iterator[CountingServer]:
    calls: list[Any] = []

    def plain(x: Any) -> Any:
        calls.append(x.copy())
        return handler(x) if handler else x * 2

    served: Model[Any, Any] = model(name="m", cache=cache or Cache(), **{**FLOATS, **options})(plain)
    with Server(served, http="127.0.0.1:0", grpc="127.0.0.1:0") as server:
        yield CountingServer(plain, server, calls)


def test_equal_request_is_not_computed_again() -> None:
    with serving() as served:
        responses = [served.infer_json().json()["outputs"] for _ in range(3)]
        assert responses[0][0]["data"] == [2, 4]
        assert responses == responses[:1] * 3
        assert served.infer_json(x(1, 3)).json()["outputs"][0]["data"] == [2, 6]
        assert len(served.calls) == 2
        stats = served.statistics()
        durations = stats["inference_stats"]
        counts = {key: total["count"] for key, total in durations.items()}
        assert (counts["success"], counts["queue"], counts["cache_hit"], counts["cache_miss"]) == (4, 4, 2, 2)
        assert counts["compute_infer"] == counts["compute_input"] == counts["compute_output"] == 2
        assert durations["cache_hit"]["ns"] > 0
        assert durations["cache_miss"]["ns"] > 0
        assert (stats["inference_count"], stats["execution_count"]) == (2, 2)
        assert [served.metric(name) for name in ("hits_total", "misses_total", "evictions_total")] == [2, 2, 0]
        assert served.metric("bytes") > 0


def test_requests_are_equal_across_protocols_and_encodings() -> None:
    with serving() as served:
        served.infer_json()
        assert infer(served.server.http_url, "m", x()).array("y").tolist() == [2, 4]
        instances = json.dumps({"inputs": {"x": [1, 2]}}).encode()
        assert post(served.server.http_url, "/v1/models/m:predict", instances).json() == {"outputs": [2, 4]}
        tensor = tgrpc.InferInput("x", [2], "FP32")
        tensor.set_data_from_numpy(x()["x"])
        with tgrpc.InferenceServerClient(served.server.grpc_url) as client:
            assert client.infer("m", [tensor]).as_numpy("y").tolist() == [2, 4]
            assert client.get_model_config("m").config.response_cache.enable
            (stats,) = client.get_inference_statistics("m").model_stats
            assert (stats.inference_stats.cache_hit.count, stats.inference_stats.cache_miss.count) == (3, 1)
        assert len(served.calls) == 1


def test_every_output_selection_is_served_from_the_cache() -> None:
    with serving(lambda x: (x * 2, x * 3), **TWO) as served:
        one = served.infer_json(outputs=[{"name": "z"}]).json()["outputs"]
        assert [(output["name"], output["data"]) for output in one] == [("z", [3, 6])]
        classes = [{"name": "y", "parameters": {"classification": 1}}]
        (best,) = served.infer_json(outputs=classes).json()["outputs"]
        assert best["data"] == ["4.000000:1"]
        both = served.infer_json().json()["outputs"]
        assert [output["data"] for output in both] == [[2, 4], [3, 6]]
        assert len(served.calls) == 1


def test_batches_are_cached_per_request() -> None:
    with serving(batching=Batching(max_size=8)) as served:
        rows = {"x": np.arange(6, dtype=np.float32).reshape(3, 2)}
        first = infer(served.server.http_url, "m", rows).array("y")
        assert infer(served.server.http_url, "m", rows).array("y").tolist() == first.tolist()
        # Equal values in another shape are a different request.
        assert infer(served.server.http_url, "m", {"x": rows["x"][:1]}).array("y").tolist() == [[0, 2]]
        assert [len(call) for call in served.calls] == [3, 1]


def test_clients_with_different_credentials_share_nothing() -> None:
    # A cache hit, or its latency, would reveal another client's request.
    with serving(cache=Cache(vary=["X-Tenant"])) as served:
        credentials: list[dict[str, str]] = [
            {},
            {"authorization": "Bearer a"},
            {"authorization": "Bearer b"},
            {"cookie": "session=1"},
            {"x-api-key": "1"},
            {"proxy-authorization": "1"},
            {"x-tenant": "1"},
            {"x-tenant": "2"},
        ]
        for _ in range(2):
            assert {served.infer_json(headers=headers).status for headers in credentials} == {200}
        assert len(served.calls) == len(credentials)
        served.infer_json(headers={"x-other": "1", "x-tenant": "1"})
        assert len(served.calls) == len(credentials)


def test_clients_of_different_access_rules_share_nothing() -> None:
    calls: list[int] = []

    def plain(x: Any) -> Any:
        calls.append(1)
        return x

    rules = "inference:team=one;inference:team=two"
    served = model(name="m", cache=Cache(), **FLOATS)(plain)
    with Server(served, http="127.0.0.1:0", grpc=None, restricted_access=rules) as server:
        for team in ("one", "two", "one", "two"):
            assert post(server.http_url, "/v2/models/m/infer", json_body(x()), {"team": team}).status == 200
        assert post(server.http_url, "/v2/models/m/infer", json_body(x()), {"team": "three"}).status == 403
    assert len(calls) == 2


def test_context_attributes_are_part_of_the_cache_key() -> None:
    calls: list[str] = []

    def reads_context(x: Any, ctx: Context) -> Any:
        calls.append(ctx.request_id)
        return x * float(ctx.parameters.get("factor", 1))

    with Client(model(name="m", cache=Cache(), **FLOATS)(reads_context)) as client:

        def infer_json(headers: dict[str, str] | None = None, **body: Any) -> Any:
            return client.post("/v2/models/m/infer", json_body(x(), **body), headers=headers).json()["outputs"][0][
                "data"
            ]

        for _ in range(2):
            assert infer_json() == [1, 2]
            assert infer_json(parameters={"factor": 3}) == [3, 6]
            assert infer_json(parameters={"factor": 4}) == [4, 8]
            assert infer_json(id="a") == [1, 2]
            assert infer_json({"x-seen": "1"}) == [1, 2]
        assert calls == ["", "", "", "a", ""]


def test_per_caller_false_keys_on_parameters_and_outputs_only() -> None:
    calls: list[tuple[str, ...]] = []

    def reads_context(x: Any, ctx: Context) -> Any:
        calls.append(ctx.requests[0].outputs)
        return x * float(ctx.parameters.get("factor", 1))

    with Client(model(name="m", cache=Cache(per_caller=False), **FLOATS)(reads_context)) as client:

        def infer_json(headers: dict[str, str] | None = None, **body: Any) -> Any:
            response = client.post("/v2/models/m/infer", json_body(x(), **body), headers=headers)
            return response.json()["outputs"][0]["data"]

        for number in range(2):
            assert infer_json(id=str(number)) == [1, 2]
            assert infer_json({"x-seen": str(number)}) == [1, 2]
            assert infer_json(parameters={"factor": 3}) == [3, 6]
            assert infer_json(outputs=[{"name": "y"}]) == [1, 2]
            assert infer_json({"authorization": "me"}) == [1, 2]
        assert calls == [("y",)] * 4


def test_errors_are_not_cached() -> None:
    def failing(x: Any) -> Any:
        if len(served.calls) == 1:
            raise InvalidInput("not now")
        if len(served.calls) == 2:
            raise RuntimeError("broken")
        return x

    with serving(failing) as served:
        assert [served.infer_json().status for _ in range(4)] == [400, 500, 200, 200]
        assert len(served.calls) == 3
        counts = {key: total["count"] for key, total in served.statistics()["inference_stats"].items()}
        assert (counts["success"], counts["fail"], counts["cache_hit"], counts["cache_miss"]) == (2, 2, 1, 3)


def test_request_with_a_failed_row_is_not_cached() -> None:
    def failing(x: Any) -> Any:
        if len(served.calls) == 1:
            raise RowErrors({1: InvalidInput("no such row")}, x)
        return x

    with serving(failing, batching=Batching(max_size=8)) as served:
        rows = {"x": np.ones((2, 2), np.float32)}
        assert [infer(served.server.http_url, "m", rows).status for _ in range(3)] == [400, 200, 200]
        assert len(served.calls) == 2


def test_cached_response_is_isolated_from_handler_writes() -> None:
    # Large enough to be sent without a copy; the handler reuses its array.
    shape = {"inputs": [Tensor("x", np.float32, [-1])], "outputs": [Tensor("y", np.float32, [-1])]}
    buffer = np.zeros(1 << 20, np.float32)

    def reusing(x: Any) -> Any:
        buffer[:] = x * 2
        x[:] = -1
        return buffer

    with serving(reusing, **shape) as served:
        ones, twos = {"x": np.ones(1 << 20, np.float32)}, {"x": np.full(1 << 20, 2, np.float32)}
        url = served.server.http_url
        assert (infer(url, "m", ones).array("y") == 2).all()
        assert (infer(url, "m", twos).array("y") == 4).all()
        assert (infer(url, "m", ones).array("y") == 2).all()
        assert len(served.calls) == 2


def test_entries_are_evicted_by_size_and_age() -> None:
    with serving(cache=Cache(max_bytes=4000)) as served:
        for number in range(40):
            served.infer_json(x(number, number))
        assert served.metric("evictions_total") > 0
        assert 0 < served.metric("bytes") <= 4000
        served.infer_json(x(39, 39))
        assert len(served.calls) == 40
        served.infer_json(x(0, 0))
        assert len(served.calls) == 41
    with serving(cache=Cache(ttl=timedelta(milliseconds=50))) as served:
        served.infer_json()
        until(lambda: served.infer_json().status == 200 and len(served.calls) == 2, "the response to expire")
        assert served.metric("evictions_total") == 1
    with serving(cache=Cache(max_bytes=10)) as served:
        assert [served.infer_json().status for _ in range(2)] == [200, 200]
        assert (len(served.calls), served.metric("bytes")) == (2, 0)


def await_in_flight(served: CountingServer, count: int) -> None:
    in_flight = lambda: metric_at(served.server.http_url, "penstock_in_flight", model="m")  # noqa: E731
    until(lambda: in_flight() == count, f"{count} requests in flight")


def test_concurrent_equal_requests_are_coalesced() -> None:
    gate = Gate()

    def held(x: Any) -> Any:
        gate.enter()
        return x * 2

    with serving(held, instances=4) as served:
        followers = at_once([served.infer_json] * 6)
        gate.await_entered()
        await_in_flight(served, 6)
        gate.open()
        assert [future.result().json()["outputs"][0]["data"] for future in followers] == [[2, 4]] * 6
        assert len(served.calls) == 1
        assert [served.metric(name) for name in ("hits_total", "misses_total")] == [5, 1]


def test_coalesced_requests_survive_a_disconnect_of_the_first_client() -> None:
    gate = Gate()

    def held(x: Any) -> Any:
        gate.enter()
        return x * 2

    with serving(held) as served:
        body, headers = binary_body(x())
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        leader: socket.socket = connect(served.server.http_url)
        request = f"POST /v2/models/m/infer HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n{head}\r\n"
        leader.sendall(request.encode() + body)
        gate.await_entered()
        followers = at_once([served.infer_json] * 3)
        await_in_flight(served, 4)
        leader.close()
        await_in_flight(served, 3)
        gate.open()
        assert [future.result().json()["outputs"][0]["data"] for future in followers] == [[2, 4]] * 3


def test_coalesced_requests_are_recomputed_if_the_first_fails() -> None:
    gate = Gate()

    def failing(x: Any) -> Any:
        if len(served.calls) == 1:
            gate.enter()
            raise RuntimeError("broken")
        return x * 2

    with serving(failing) as served:
        first = at_once([served.infer_json])
        gate.await_entered()
        followers = at_once([served.infer_json] * 3)
        await_in_flight(served, 4)
        gate.open()
        assert first[0].result().status == 500
        assert [future.result().json()["outputs"][0]["data"] for future in followers] == [[2, 4]] * 3


def test_coalesced_requests_have_separate_deadlines() -> None:
    gate = Gate()

    def held(x: Any) -> Any:
        gate.enter()
        return x * 2

    with serving(held) as served:
        first = at_once([served.infer_json])
        gate.await_entered()
        late = served.infer_json(parameters={"timeout": 20_000})
        assert late.status == 504
        gate.open()
        assert first[0].result().status == 200


def test_model_config_reports_the_response_cache() -> None:
    with serving() as served:
        config = get(served.server.http_url, "/v2/models/m/config").json()
        assert config["response_cache"] == {"enable": True}


def test_cache_is_rejected_for_streams_and_sequences() -> None:
    def streaming(x: Any) -> Iterator[Any]:
        yield x

    def stateful(x: Any, ctx: Context) -> Any:
        return x

    with pytest.raises(SignatureError, match="the answers of a model that streams are not kept; leave cache out"):
        model(cache=Cache(), **FLOATS)(streaming)
    with pytest.raises(SignatureError, match="in a sequence equal requests have different answers; leave cache out"):
        model(cache=Cache(), sequences=Sequences(), **FLOATS)(stateful)
    with pytest.raises(SignatureError, match=r"model 'stateful': cache must be a Cache, not 3"):
        model(cache=3, **FLOATS)(stateful)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_bytes": 0}, "Cache: max_bytes must be an integer of 1 or more, not 0"),
        ({"max_bytes": True}, "Cache: max_bytes must be an integer of 1 or more, not True"),
        ({"ttl": 0}, "Cache: ttl must be more than 0 seconds or None, not 0"),
        ({"ttl": timedelta(-1)}, "Cache: ttl must be more than 0 seconds or None, not datetime.timedelta(days=-1)"),
        ({"vary": "a b"}, "Cache: vary: 'a b' is not a header's name"),
    ],
)
def test_invalid_cache_settings_are_rejected(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Cache(**arguments)


def test_documented_cache_example_hits_the_cache() -> None:
    code = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)[0]
    namespace: dict[str, Any] = {"__name__": "app"}
    exec(compile(code, "caching.md", "exec"), namespace)
    with Client(namespace["double"]) as client:
        body = json_body({"x": np.ones(16, np.float32)})
        for _ in range(2):
            assert client.post("/v2/models/double/infer", body).json()["outputs"][0]["data"] == [2] * 16
        stats = client.get("/v2/models/double/stats").json()["model_stats"][0]["inference_stats"]
    assert (stats["cache_hit"]["count"], stats["cache_miss"]["count"]) == (1, 1)
