"""Clients that take turns: who asks for much waits behind itself only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as tgrpc
from tritonclient.utils import InferenceServerException

from http_by_hand import Answer, json_body, metric_at, post
from penstock import Batching, Context, Level, Queueing, Sequences, Server, SignatureError, Tensor, model
from waiting import Gate, at_once, until

FLOATS = {"inputs": [Tensor("x", np.float32, [1])], "outputs": [Tensor("y", np.float32, [1])]}


class Line:
    """A server whose first request is held, so that all others wait; and in which order they are computed."""

    def __init__(self, server: Server, gate: Gate, order: list[float]) -> None:
        self.server, self.gate, self.order = server, gate, order
        self.asked: list[Any] = []
        self.waiting = 0
        self.asked += at_once([lambda: self.ask(0.0, {})])
        gate.await_entered()

    def ask(self, value: float, headers: dict[str, str], **members: Any) -> Answer:
        body = json_body({"x": np.array([[value]], np.float32)}, **members)
        return post(self.server.http_url, "/v2/models/m/infer", body, headers)

    def put(self, value: float, client: str | None = None, **members: Any) -> None:
        """Lets a request wait behind all that came before."""
        headers = {} if client is None else {"x-tenant": client}
        self.asked += at_once([lambda: self.ask(value, headers, **members)])
        self.waiting += 1
        until(lambda: metric_at(self.server.http_url, "penstock_queue_depth") == self.waiting, "it to wait")

    def computed(self) -> list[float]:
        self.gate.open()
        assert {future.result().status for future in self.asked} == {200}
        return self.order[1:]


@contextmanager
def line(queueing: Queueing, **options: Any) -> Iterator[Line]:
    gate, order = Gate(), list[float]()

    def held(x: Any) -> Any:
        order.append(float(x[0, 0]))
        if len(order) == 1:
            gate.enter()
        return x

    options = {"batching": Batching(max_size=1), **FLOATS, **options}
    with Server(model(name="m", queueing=queueing, **options)(held), http="127.0.0.1:0", grpc="127.0.0.1:0") as server:
        yield Line(server, gate, order)
        gate.open()


def test_one_who_asks_for_much_waits_behind_itself_only() -> None:
    with line(Queueing(fair_by="header:X-Tenant")) as one:
        for value in range(1, 7):
            one.put(value, "a")
        one.put(10, "b")
        one.put(20, "c")
        one.put(11, "b")
        assert one.computed() == [1, 10, 20, 2, 11, 3, 4, 5, 6]


def test_without_it_the_order_is_that_of_arrival() -> None:
    with line(Queueing()) as one:
        for value, client in enumerate(["a", "a", "a", "b"], 1):
            one.put(value, client)
        assert one.computed() == [1, 2, 3, 4]


def test_who_names_no_client_is_one_of_them() -> None:
    with line(Queueing(fair_by="header:x-tenant")) as one:
        for value in (1, 2, 3):
            one.put(value)
        one.put(10, "b")
        assert one.computed() == [1, 10, 2, 3]


def test_turns_are_taken_within_a_level_of_priority() -> None:
    with line(Queueing(2, fair_by="header:x-tenant")) as one:
        for value in (1, 2):
            one.put(value, "a")
        one.put(10, "b")
        for value in (3, 4):
            one.put(value, "a", parameters={"priority": 1})
        one.put(11, "b", parameters={"priority": 1})
        assert one.computed() == [3, 11, 4, 1, 10, 2]


def test_one_client_cannot_fill_the_queue() -> None:
    with line(Queueing(fair_by="header:x-tenant", max_rows_per_client=2)) as one:
        one.put(1, "a")
        one.put(2, "a")
        refused = one.ask(3, {"x-tenant": "a"})
        assert refused.status == 429
        assert int(refused.headers["retry-after"]) >= 1
        assert refused.error() == (
            "model 'm' has 2 of its maximum of 2 rows of one client waiting, and the request has 1"
        )
        tensor = tgrpc.InferInput("x", [1, 1], "FP32")
        tensor.set_data_from_numpy(np.array([[4]], np.float32))
        refusal = pytest.raises(InferenceServerException, match="rows of one client waiting")
        with tgrpc.InferenceServerClient(one.server.grpc_url) as client, refusal:
            client.infer("m", [tensor], headers={"x-tenant": "a"})
        one.put(10, "b")
        assert one.computed() == [1, 10, 2]
        assert one.ask(5, {"x-tenant": "a"}).status == 200


def test_the_key_of_the_server_tells_clients_apart() -> None:
    assert Queueing(fair_by="api-key").fair_by == "authorization"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"fair_by": "peer"}, "Queueing: fair_by must be 'api-key' or 'header:NAME', not 'peer'"),
        ({"fair_by": "header:a b"}, "Queueing: fair_by must be 'api-key' or 'header:NAME', not 'header:a b'"),
        ({"max_rows_per_client": 3}, "Queueing: max_rows_per_client needs fair_by, to tell clients apart"),
        (
            {"fair_by": "api-key", "levels": {1: Level(timeout=1.0, on_timeout="delay")}},
            "Queueing: fair_by goes with on_timeout='reject' only",
        ),
        (
            {"fair_by": "api-key", "max_rows_per_client": 0},
            "Queueing: max_rows_per_client must be an integer of 1 or more, or None, not 0",
        ),
    ],
)
def test_settings_that_cannot_be_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Queueing(**arguments)


def test_sequences_keep_their_order() -> None:
    def stateful(x: Any, ctx: Context) -> Any:
        return x

    with pytest.raises(SignatureError, match="so their clients take no turns"):
        model(queueing=Queueing(fair_by="api-key"), sequences=Sequences(), **FLOATS)(stateful)
