"""Batches bounded by the cost of their rows."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import pytest

from held import Held
from http_by_hand import get, infer, metric_at
from penstock import Batching, Cost, Dim, InvalidInput, Processes, Server, SignatureError, Tensor, model
from penstock.testing import Client
from waiting import Gate, at_once, until

TOKENS = Dim("x")
FLOATS: dict[str, Any] = {"inputs": [Tensor("x", np.float32, [-1])], "outputs": [Tensor("y", np.float32, [-1])]}


def test_batch_cost_never_exceeds_max_cost() -> None:
    held = Held(Batching(max_size=64, cost=TOKENS, max_cost=10))
    held.run([1, 1, 1, 1, 2, 1], widths=[3] * 6)
    # Rows cost 3: three share a batch, and a request of two rows is not split.
    assert held.calls == [[0], [1, 2, 3], [4, 5, 5], [6]]


def test_max_size_still_limits_a_batch_with_a_cost() -> None:
    held = Held(Batching(max_size=2, cost=TOKENS, max_cost=100))
    held.run([1, 1, 1])
    assert held.sizes == [1, 2, 1]


def test_quadratic_cost_limits_a_batch() -> None:
    held = Held(Batching(cost=TOKENS**2 + 4 * TOKENS + 1, max_cost=66))
    # A row of 4 costs 16 + 16 + 1.
    held.run([1, 1, 1], widths=[4] * 3)
    assert held.sizes == [1, 2, 1]


def test_too_costly_request_is_rejected_with_the_numbers() -> None:
    served = model(lambda x: x, name="m", batching=Batching(cost=TOKENS, max_cost=10), **FLOATS)
    with Server(served, http="127.0.0.1:0", grpc=None) as server:
        for shape, text in [
            ((3, 4), "the request costs 12, 4 for each of its 3 rows, model 'm' accepts at most 10"),
            ((1, 11), "a row of the request costs 11, model 'm' computes at most 10"),
        ]:
            refused = infer(server.http_url, "m", {"x": np.ones(shape, np.float32)})
            assert (refused.status, refused.error()) == (400, text)
        assert infer(server.http_url, "m", {"x": np.ones((2, 5), np.float32)}).status == 200


def test_too_costly_request_is_split_if_configured() -> None:
    rows = list[int]()

    def handle(x: Any) -> Any:
        rows.append(len(x))
        return x * 10

    served = model(handle, name="m", batching=Batching(cost=TOKENS, max_cost=10, oversize="split"), **FLOATS)
    with Client(served) as client:
        x = np.arange(28, dtype=np.float32).reshape(7, 4)
        assert (client.infer("m", {"x": x})["y"] == x * 10).all()
        assert sorted(rows) == [1, 2, 2, 2]
        with pytest.raises(InvalidInput, match="a row of the request costs 11"):
            client.infer("m", {"x": np.ones((1, 11), np.float32)})


def test_cost_appears_in_reasons_settings_and_estimates() -> None:
    gate = Gate()

    def handle(x: Any) -> Any:
        gate.enter()
        return x

    served = model(handle, name="m", batching=Batching(max_delay=3600.0, cost=TOKENS, max_cost=4), **FLOATS)
    with Server(served, http="127.0.0.1:0", grpc=None, batching_debug="read") as server:
        url = server.http_url
        gate.open()
        # Only the cost limit ends the delay of an hour: the second request reaches it.
        futures = at_once([lambda: infer(url, "m", {"x": np.ones((1, 2), np.float32)})])
        until(lambda: metric_at(url, "penstock_queue_depth") == 1)
        futures += at_once([lambda: infer(url, "m", {"x": np.ones((1, 2), np.float32)})])
        assert [future.result().status for future in futures] == [200, 200]
        assert metric_at(url, "penstock_batches_total", reason="cost") == 1
        (report,) = get(url, "/debug/batching").json()["models"]
        config = get(url, "/v2/models/m/config").json()
    assert report["max_cost"] == 4
    assert [(decision["reason"], decision["rows"], decision["cost"]) for decision in report["decisions"]] == [
        ("cost", 2, 4)
    ]
    assert report["learned"]["row_seconds"] is None
    assert report["learned"]["cost_seconds"] >= 0
    assert config["parameters"]["max_cost"] == {"string_value": "4"}


async def double_async(x: Any) -> Any:
    return x * 2


def double(x: Any) -> Any:
    return x * 2


@pytest.mark.parametrize("target", [double, double_async], ids=["process", "async"])
def test_max_cost_applies_to_processes_and_async_handlers(target: Any) -> None:
    instances = Processes(1) if target is double else 1
    options = {"batching": Batching(cost=TOKENS, max_cost=6), "instances": instances, **FLOATS}
    with Client(model(target, name="m", **options)) as client:
        infer_row = lambda value: client.infer("m", {"x": np.full((1, 3), value, np.float32)})["y"].tolist()  # noqa: E731
        futures = at_once([lambda value=value: infer_row(value) for value in range(9)])
        assert [future.result() for future in futures] == [[[value * 2] * 3] for value in range(9)]
        with pytest.raises(InvalidInput, match="costs 9"):
            client.infer("m", {"x": np.ones((3, 3), np.float32)})


def test_cost_formulas_combine_compare_and_pickle() -> None:
    width = Dim("image", 1)
    assert Dim("image") * width == width * Dim("image")
    assert (TOKENS + 2) * 3 == 3 * TOKENS + 6
    assert (TOKENS + 1) ** 2 == TOKENS**2 + 2 * TOKENS + 1
    assert repr(2 * Dim("image") * width + 10) == "10 + 2 * Dim('image') * Dim('image', 1)"
    assert repr(TOKENS) == "Dim('x')"
    assert pickle.loads(pickle.dumps(TOKENS * 2)) == TOKENS * 2
    assert isinstance(pickle.loads(pickle.dumps(TOKENS)), Dim)
    json.dumps((TOKENS * 2).terms)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Dim(""), "the tensor must be the name of an input"),
        (lambda: Dim("x", -1), "the axis must be an integer of 0 or more, not -1"),
        (lambda: TOKENS + -1, "no number below 0 like -1"),
        (lambda: TOKENS**0, "power of 1 to 8, not 0"),
        (lambda: (TOKENS**5) ** 2, "multiply at most 8 sizes, not 10"),
        (lambda: TOKENS * 2**63, "is too large for a cost"),
        (lambda: Batching(cost=len, max_cost=1), "not <built-in function len>; the server computes it"),  # type: ignore[arg-type]
        (lambda: Batching(cost=TOKENS), "max_cost must be an integer of 1 or more, not None"),
        (lambda: Batching(cost=TOKENS, max_cost=0), "max_cost must be an integer of 1 or more, not 0"),
        (lambda: Batching(max_cost=3), "cost must be made of Dim"),
    ],
)
def test_invalid_costs_are_rejected(make: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text.replace("(", r"\(").replace("*", r"\*")):
        make()


def test_cost_must_refer_to_declared_input_axes() -> None:
    for cost, text in [
        (Dim("z"), r"model 'm': cost has Dim\('z'\), which is none of the inputs \(x\)"),
        (Dim("x", 1), r"cost has Dim\('x', 1\), and input 'x' has 1 axes without the batch's"),
    ]:
        with pytest.raises(SignatureError, match=text):
            model(lambda x: x, name="m", batching=Batching(cost=cost, max_cost=1), **FLOATS)


def test_constant_cost_limits_rows() -> None:
    held = Held(Batching(cost=Cost({(): 2}), max_cost=5))
    held.run([1, 1, 1])
    assert held.sizes == [1, 2, 1]
