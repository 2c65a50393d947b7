"""Batching of rows of several requests, on request."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from kserve_serving import RunningServer, request_of, serving

from penstock import Batching
from penstock.compat.kserve._request.bind import BindOptions
from penstock.compat.kserve.errors import InvalidInput
from penstock.compat.kserve.model import Model
from penstock.compat.kserve.protocol.infer_type import InferOutput, InferRequest, InferResponse
from waiting import Gate, at_once, until


class Doubles(Model):
    """Doubles rows and records the rows of each call. A call with the row 0 waits at the gate."""

    def __init__(self) -> None:
        super().__init__("m")
        self.gate = Gate()
        self.calls: list[Any] = []
        self.load()

    def predict(self, payload: Any, headers: Any = None) -> Any:
        rows = payload.inputs[0].as_numpy() if isinstance(payload, InferRequest) else payload["instances"]
        if len(rows) and np.any(np.equal(rows[0], 0)):
            self.gate.enter()
        self.calls.append((payload, headers))
        if isinstance(payload, InferRequest):
            return InferResponse(payload.id, "m", [InferOutput("y", list(rows.shape), "FP32", rows * 2)])
        if -1 in rows:
            raise InvalidInput("a row is below 0")
        return {"predictions": [2 * row for row in rows], "k": payload.get("k")}

    @property
    def sizes(self) -> list[int]:
        """Returns the number of rows of each call."""
        return [
            payload.inputs[0].shape[0] if isinstance(payload, InferRequest) else len(payload["instances"])
            for payload, _ in self.calls
        ]


class DoublesLater(Doubles):
    async def preprocess(self, payload: Any, headers: Any = None) -> Any:
        return payload


ONE_THREAD = BindOptions(instances=1, batching=Batching(max_size=8))


def compute_queued(served: RunningServer, model: Doubles, calls: list[Any], first: Any) -> list[Any]:
    """Returns the results of calls that are queued while the first one is computed."""
    (first_call,) = at_once([first])
    model.gate.await_entered()
    waiting = at_once(calls)
    until(lambda: _depth(served) >= len(calls), "all calls to wait")
    model.gate.open()
    first_call.result()
    return [call.result() for call in waiting]


def _depth(served: RunningServer) -> float:
    import requests

    for line in requests.get(f"{served.http}/metrics", timeout=20).text.splitlines():
        if line.startswith("penstock_queue_depth"):
            return float(line.split()[-1])
    return 0.0


@pytest.fixture(params=[Doubles])
def model(request: pytest.FixtureRequest) -> Doubles:
    instance: Doubles = request.param()
    return instance


def test_v1_requests_are_batched_and_results_split(model: Doubles) -> None:
    with serving(model, options=ONE_THREAD) as served:
        bodies = [{"instances": [one, one + 1]} for one in (1, 3, 5)]
        responses = compute_queued(
            *(served, model, [(lambda body=body: served.predict(body).json()) for body in bodies]),
            lambda: served.predict({"instances": [0]}),
        )
    assert [response["predictions"] for response in responses] == [[2, 4], [6, 8], [10, 12]]
    assert sorted(model.sizes) == [1, 6]


def test_v2_requests_are_batched_and_results_split(model: Doubles) -> None:
    zero, one, two = (np.full((rows, 2), rows, np.float32) for rows in (0, 1, 2))
    zero = np.zeros((1, 2), np.float32)
    with serving(model, options=ONE_THREAD) as served:
        responses = compute_queued(
            *(served, model, [lambda: served.infer(request_of(x=one)).json()]),
            lambda: served.infer(request_of(x=zero)),
        )
        model.gate = Gate()
        responses = compute_queued(
            served,
            model,
            [lambda: served.infer(request_of(x=one)).json(), lambda: served.infer(request_of(x=two)).json()],
            lambda: served.infer(request_of(x=zero)),
        )
    assert [response["outputs"][0]["data"] for response in responses] == [[2, 2], [4, 4, 4, 4]]
    assert [response["outputs"][0]["shape"] for response in responses] == [[1, 2], [2, 2]]
    assert model.sizes[-1] == 3


def test_different_parameters_and_shapes_are_not_batched(model: Doubles) -> None:
    with serving(model, options=ONE_THREAD) as served:
        wide = np.ones((1, 3), np.float32)
        responses = compute_queued(
            served,
            model,
            [
                lambda: served.predict({"instances": [1], "k": 1}).json(),
                lambda: served.predict({"instances": [2], "k": 2}).json(),
                lambda: served.predict({"instances": [3], "k": 1}).json(),
                lambda: served.infer(request_of(x=wide)).json()["outputs"][0]["shape"],
            ],
            lambda: served.predict({"instances": [0]}),
        )
    assert responses[:3] == [
        {"predictions": [2], "k": 1},
        {"predictions": [4], "k": 2},
        {"predictions": [6], "k": 1},
    ]
    assert responses[3] == [1, 3]
    assert sorted(model.sizes) == [1, 1, 1, 2]


def test_batches_pass_only_the_common_headers(model: Doubles) -> None:
    with serving(model, options=ONE_THREAD) as served:
        compute_queued(
            served,
            model,
            [(lambda one=one: served.predict({"instances": [1]}, x_own=one, x_all="a")) for one in "ab"],
            lambda: served.predict({"instances": [0]}),
        )
    headers = model.calls[-1][1]
    assert headers["x-all"] == "a"
    assert "x-own" not in headers


def test_invalid_request_in_a_batch_fails_alone(model: Doubles) -> None:
    with serving(model, options=ONE_THREAD) as served:
        responses = compute_queued(
            served,
            model,
            [(lambda one=one: served.predict({"instances": [one]}).status_code) for one in (1, -1, 2)],
            lambda: served.predict({"instances": [0]}),
        )
    assert responses == [200, 400, 200]


def test_unparsable_requests_do_not_delay_others(model: Doubles) -> None:
    with serving(model, options=ONE_THREAD) as served:
        responses = compute_queued(
            served,
            model,
            [
                lambda: served.predict(b"{", content_type="application/json").status_code,
                lambda: served.predict({"instances": [1]}).json()["predictions"],
            ],
            lambda: served.predict({"instances": [0]}),
        )
    assert responses == [400, [2]]


def test_batches_do_not_exceed_max_size() -> None:
    model = Doubles()
    with serving(model, options=ONE_THREAD) as served:
        compute_queued(
            served,
            model,
            [(lambda: served.predict({"instances": [1] * 5}).status_code) for _ in range(3)],
            lambda: served.predict({"instances": [0]}),
        )
    assert sorted(model.sizes) == [1, 5, 5, 5]


def test_results_with_a_wrong_row_count_are_not_split() -> None:
    class Sums(Doubles):
        def predict(self, payload: Any, headers: Any = None) -> Any:
            return {"predictions": [sum(super().predict(payload, headers)["predictions"])]}

    model = Sums()
    with serving(model, options=ONE_THREAD) as served:
        responses = compute_queued(
            served,
            model,
            [(lambda one=one: served.predict({"instances": [one, one]}).json()) for one in (1, 2)],
            lambda: served.predict({"instances": [0]}),
        )
    # Each request was computed again alone.
    assert responses == [{"predictions": [4]}, {"predictions": [8]}]


def test_async_models_are_batched() -> None:
    class Later(Model):
        def __init__(self) -> None:
            super().__init__("m")
            self.sizes: list[int] = []
            self.load()

        async def predict(self, payload: Any, headers: Any = None) -> Any:
            self.sizes.append(len(payload["instances"]))
            return {"predictions": payload["instances"]}

    model = Later()
    barrier = threading.Barrier(4)

    def call(one: int, served: RunningServer) -> Any:
        barrier.wait(20)
        return served.predict({"instances": [one]}).json()["predictions"]

    with serving(model, options=BindOptions(batching=Batching(max_size=4, max_delay=0.5))) as served:
        calls = at_once((lambda one=one: call(one, served)) for one in range(4))
        assert [one.result() for one in calls] == [[0], [1], [2], [3]]
    assert sum(model.sizes) == 4
    assert max(model.sizes) > 1
