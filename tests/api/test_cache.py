"""Answers that are kept: for whom, until when, and what is never kept."""

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

from http_by_hand import Answer, binary_body, connect, get, infer, json_body, metric_at, post
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


class Counted:
    """A served model, and how often its handler was called."""

    def __init__(self, handler: Callable[..., Any], server: Server, calls: list[Any]) -> None:
        self.name, self.server, self.calls = getattr(handler, "__name__", "m"), server, calls

    def ask(self, inputs: dict[str, Any] | None = None, headers: dict[str, str] | None = None, **body: Any) -> Answer:
        return post(self.server.http_url, "/v2/models/m/infer", json_body(inputs or x(), **body), headers)

    def statistics(self) -> dict[str, Any]:
        (stats,) = get(self.server.http_url, "/v2/models/m/stats").json()["model_stats"]
        return dict(stats)

    def metric(self, name: str) -> float:
        return metric_at(self.server.http_url, f"penstock_cache_{name}", model="m")


@contextmanager
def serving(handler: Callable[..., Any] | None = None, cache: Cache | None = None, **options: Any) -> Iterator[Counted]:
    calls: list[Any] = []

    def plain(x: Any) -> Any:
        calls.append(x.copy())
        return handler(x) if handler else x * 2

    served: Model[Any, Any] = model(name="m", cache=cache or Cache(), **{**FLOATS, **options})(plain)
    with Server(served, http="127.0.0.1:0", grpc="127.0.0.1:0") as server:
        yield Counted(plain, server, calls)


def test_an_equal_request_is_not_computed_again() -> None:
    with serving() as served:
        answers = [served.ask().json()["outputs"] for _ in range(3)]
        assert answers[0][0]["data"] == [2, 4]
        assert answers == answers[:1] * 3
        assert served.ask(x(1, 3)).json()["outputs"][0]["data"] == [2, 6]
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


def test_it_is_the_same_request_over_every_protocol_and_in_every_form() -> None:
    with serving() as served:
        served.ask()
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


def test_each_selection_of_outputs_is_served_by_what_is_kept() -> None:
    with serving(lambda x: (x * 2, x * 3), **TWO) as served:
        one = served.ask(outputs=[{"name": "z"}]).json()["outputs"]
        assert [(output["name"], output["data"]) for output in one] == [("z", [3, 6])]
        classes = [{"name": "y", "parameters": {"classification": 1}}]
        (best,) = served.ask(outputs=classes).json()["outputs"]
        assert best["data"] == ["4.000000:1"]
        both = served.ask().json()["outputs"]
        assert [output["data"] for output in both] == [[2, 4], [3, 6]]
        assert len(served.calls) == 1


def test_a_batch_is_kept_by_its_requests() -> None:
    with serving(batching=Batching(max_size=8)) as served:
        rows = {"x": np.arange(6, dtype=np.float32).reshape(3, 2)}
        first = infer(served.server.http_url, "m", rows).array("y")
        assert infer(served.server.http_url, "m", rows).array("y").tolist() == first.tolist()
        # The same numbers in another shape are another request.
        assert infer(served.server.http_url, "m", {"x": rows["x"][:1]}).array("y").tolist() == [[0, 2]]
        assert [len(call) for call in served.calls] == [3, 1]


def test_callers_with_other_credentials_share_nothing() -> None:
    # An answer, and the time that it takes, would say what another has asked.
    with serving(cache=Cache(vary=["X-Tenant"])) as served:
        callers: list[dict[str, str]] = [
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
            assert {served.ask(headers=headers).status for headers in callers} == {200}
        assert len(served.calls) == len(callers)
        served.ask(headers={"x-other": "1", "x-tenant": "1"})
        assert len(served.calls) == len(callers)


def test_callers_by_the_servers_own_rules_share_nothing() -> None:
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


def test_what_a_context_shows_is_a_part_of_the_request() -> None:
    calls: list[str] = []

    def seeing(x: Any, ctx: Context) -> Any:
        calls.append(ctx.request_id)
        return x * float(ctx.parameters.get("factor", 1))

    with Client(model(name="m", cache=Cache(), **FLOATS)(seeing)) as client:

        def ask(headers: dict[str, str] | None = None, **body: Any) -> Any:
            return client.post("/v2/models/m/infer", json_body(x(), **body), headers=headers).json()["outputs"][0][
                "data"
            ]

        for _ in range(2):
            assert ask() == [1, 2]
            assert ask(parameters={"factor": 3}) == [3, 6]
            assert ask(parameters={"factor": 4}) == [4, 8]
            assert ask(id="a") == [1, 2]
            assert ask({"x-seen": "1"}) == [1, 2]
        assert calls == ["", "", "", "a", ""]


def test_a_handler_that_says_so_answers_by_parameters_and_outputs_alone() -> None:
    calls: list[tuple[str, ...]] = []

    def seeing(x: Any, ctx: Context) -> Any:
        calls.append(ctx.requests[0].outputs)
        return x * float(ctx.parameters.get("factor", 1))

    with Client(model(name="m", cache=Cache(per_caller=False), **FLOATS)(seeing)) as client:

        def ask(headers: dict[str, str] | None = None, **body: Any) -> Any:
            answered = client.post("/v2/models/m/infer", json_body(x(), **body), headers=headers)
            return answered.json()["outputs"][0]["data"]

        for number in range(2):
            assert ask(id=str(number)) == [1, 2]
            assert ask({"x-seen": str(number)}) == [1, 2]
            assert ask(parameters={"factor": 3}) == [3, 6]
            assert ask(outputs=[{"name": "y"}]) == [1, 2]
            assert ask({"authorization": "me"}) == [1, 2]
        assert calls == [("y",)] * 4


def test_errors_are_not_kept() -> None:
    def failing(x: Any) -> Any:
        if len(served.calls) == 1:
            raise InvalidInput("not now")
        if len(served.calls) == 2:
            raise RuntimeError("broken")
        return x

    with serving(failing) as served:
        assert [served.ask().status for _ in range(4)] == [400, 500, 200, 200]
        assert len(served.calls) == 3
        counts = {key: total["count"] for key, total in served.statistics()["inference_stats"].items()}
        assert (counts["success"], counts["fail"], counts["cache_hit"], counts["cache_miss"]) == (2, 2, 1, 3)


def test_a_request_of_which_a_row_failed_is_not_kept() -> None:
    def failing(x: Any) -> Any:
        if len(served.calls) == 1:
            raise RowErrors({1: InvalidInput("no such row")}, x)
        return x

    with serving(failing, batching=Batching(max_size=8)) as served:
        rows = {"x": np.ones((2, 2), np.float32)}
        assert [infer(served.server.http_url, "m", rows).status for _ in range(3)] == [400, 200, 200]
        assert len(served.calls) == 2


def test_what_is_kept_cannot_be_changed_by_a_handler() -> None:
    # Large enough to be borrowed from the handler, which keeps its array and writes to it later.
    shape = {"inputs": [Tensor("x", np.float32, [-1])], "outputs": [Tensor("y", np.float32, [-1])]}
    kept = np.zeros(1 << 20, np.float32)

    def reusing(x: Any) -> Any:
        kept[:] = x * 2
        x[:] = -1
        return kept

    with serving(reusing, **shape) as served:
        ones, twos = {"x": np.ones(1 << 20, np.float32)}, {"x": np.full(1 << 20, 2, np.float32)}
        url = served.server.http_url
        assert (infer(url, "m", ones).array("y") == 2).all()
        assert (infer(url, "m", twos).array("y") == 4).all()
        assert (infer(url, "m", ones).array("y") == 2).all()
        assert len(served.calls) == 2


def test_old_answers_go_by_room_and_by_age() -> None:
    with serving(cache=Cache(max_bytes=4000)) as served:
        for number in range(40):
            served.ask(x(number, number))
        assert served.metric("evictions_total") > 0
        assert 0 < served.metric("bytes") <= 4000
        served.ask(x(39, 39))
        assert len(served.calls) == 40
        served.ask(x(0, 0))
        assert len(served.calls) == 41
    with serving(cache=Cache(ttl=timedelta(milliseconds=50))) as served:
        served.ask()
        until(lambda: served.ask().status == 200 and len(served.calls) == 2, "the answer to be too old")
        assert served.metric("evictions_total") == 1
    with serving(cache=Cache(max_bytes=10)) as served:
        assert [served.ask().status for _ in range(2)] == [200, 200]
        assert (len(served.calls), served.metric("bytes")) == (2, 0)


def waits_for(served: Counted, count: int) -> None:
    flying = lambda: metric_at(served.server.http_url, "penstock_in_flight", model="m")  # noqa: E731
    until(lambda: flying() == count, f"{count} requests under way")


def test_what_many_ask_at_once_is_computed_once() -> None:
    gate = Gate()

    def held(x: Any) -> Any:
        gate.enter()
        return x * 2

    with serving(held, instances=4) as served:
        asked = at_once([served.ask] * 6)
        gate.await_entered()
        waits_for(served, 6)
        gate.open()
        assert [future.result().json()["outputs"][0]["data"] for future in asked] == [[2, 4]] * 6
        assert len(served.calls) == 1
        assert [served.metric(name) for name in ("hits_total", "misses_total")] == [5, 1]


def test_who_waits_is_answered_when_the_one_who_asked_first_leaves() -> None:
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
        asked = at_once([served.ask] * 3)
        waits_for(served, 4)
        leader.close()
        waits_for(served, 3)
        gate.open()
        assert [future.result().json()["outputs"][0]["data"] for future in asked] == [[2, 4]] * 3


def test_who_waits_is_answered_when_the_one_who_asked_first_fails() -> None:
    gate = Gate()

    def failing(x: Any) -> Any:
        if len(served.calls) == 1:
            gate.enter()
            raise RuntimeError("broken")
        return x * 2

    with serving(failing) as served:
        first = at_once([served.ask])
        gate.await_entered()
        asked = at_once([served.ask] * 3)
        waits_for(served, 4)
        gate.open()
        assert first[0].result().status == 500
        assert [future.result().json()["outputs"][0]["data"] for future in asked] == [[2, 4]] * 3


def test_a_deadline_is_each_ones_own() -> None:
    gate = Gate()

    def held(x: Any) -> Any:
        gate.enter()
        return x * 2

    with serving(held) as served:
        first = at_once([served.ask])
        gate.await_entered()
        late = served.ask(parameters={"timeout": 20_000})
        assert late.status == 504
        gate.open()
        assert first[0].result().status == 200


def test_the_configuration_says_whether_there_is_a_cache() -> None:
    with serving() as served:
        config = get(served.server.http_url, "/v2/models/m/config").json()
        assert config["response_cache"] == {"enable": True}


def test_a_declaration_that_cannot_be_kept_is_refused() -> None:
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
def test_settings_out_of_their_range_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Cache(**arguments)


def test_the_documents_example_keeps_its_answers() -> None:
    code = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)[0]
    namespace: dict[str, Any] = {"__name__": "app"}
    exec(compile(code, "caching.md", "exec"), namespace)
    with Client(namespace["double"]) as client:
        body = json_body({"x": np.ones(16, np.float32)})
        for _ in range(2):
            assert client.post("/v2/models/double/infer", body).json()["outputs"][0]["data"] == [2] * 16
        stats = client.get("/v2/models/double/stats").json()["model_stats"][0]["inference_stats"]
    assert (stats["cache_hit"]["count"], stats["cache_miss"]["count"]) == (1, 1)
