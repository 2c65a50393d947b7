"""Fair queueing: clients take turns within a level of priority."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as tgrpc
from tritonclient.utils import InferenceServerException

from http_by_hand import HttpResponse, json_body, metric_at, post
from penstock import Batching, Context, Level, Queueing, Sequences, Server, SignatureError, Tensor, model
from waiting import Gate, at_once, until

FLOATS = {"inputs": [Tensor("x", np.float32, [1])], "outputs": [Tensor("y", np.float32, [1])]}


class HeldQueue:
    """A server whose first request is held so that others queue, with the order of their execution."""

    def __init__(self, server: Server, gate: Gate, order: list[float]) -> None:
        self.server, self.gate, self.order = server, gate, order
        self.futures: list[Any] = []
        self.queued = 0
        self.headers: dict[str, dict[str, str]] = {}
        self.futures += at_once([lambda: self.send(0.0, {})])
        gate.await_entered()

    def send(self, value: float, headers: dict[str, str], **members: Any) -> HttpResponse:
        body = json_body({"x": np.array([[value]], np.float32)}, **members)
        return post(self.server.http_url, "/v2/models/m/infer", body, headers)

    def enqueue(self, value: float, client: str | None = None, **members: Any) -> None:
        """Sends a request and waits until it is queued."""
        headers = {} if client is None else {"x-tenant": client, **self.headers.get(client, {})}
        self.futures += at_once([lambda: self.send(value, headers, **members)])
        self.queued += 1
        until(
            lambda: metric_at(self.server.http_url, "penstock_queue_depth") == self.queued, "the request to be queued"
        )

    def execution_order(self) -> list[float]:
        self.gate.open()
        assert {future.result().status for future in self.futures} == {200}
        return self.order[1:]


@contextmanager
def held_queue(queueing: Queueing, settings: dict[str, Any] | None = None, **options: Any) -> Iterator[HeldQueue]:
    gate, order = Gate(), list[float]()

    def held(x: Any) -> Any:
        order.append(float(x[0, 0]))
        if len(order) == 1:
            gate.enter()
        return x

    options = {"batching": Batching(max_size=1), **FLOATS, **options}
    served: dict[str, Any] = {"http": "127.0.0.1:0", "grpc": "127.0.0.1:0", **(settings or {})}
    with Server(model(name="m", queueing=queueing, **options)(held), **served) as server:
        yield HeldQueue(server, gate, order)
        gate.open()


def test_busy_client_does_not_delay_others() -> None:
    with held_queue(Queueing(fair_by="header:X-Tenant")) as queue:
        for value in range(1, 7):
            queue.enqueue(value, "a")
        queue.enqueue(10, "b")
        queue.enqueue(20, "c")
        queue.enqueue(11, "b")
        assert queue.execution_order() == [1, 10, 20, 2, 11, 3, 4, 5, 6]


def test_each_key_is_a_client(tmp_path: Path) -> None:
    keys = {name: f"{name}-" + "k" * 30 for name in "ab"}
    digests = {name: hashlib.sha256(key.encode()).hexdigest() for name, key in keys.items()}
    texts = [f"[[key]]\nname = '{name}'\nsha256 = '{digest}'" for name, digest in digests.items()]
    anonymous = "[anonymous]\nscopes = ['inference', 'metrics']"
    (tmp_path / "keys.toml").write_text("\n".join([*texts, anonymous]))
    with held_queue(Queueing(fair_by="client"), {"keys_file": str(tmp_path / "keys.toml")}) as queue:
        queue.headers = {name: {"x-api-key": key} for name, key in keys.items()}
        for value in range(1, 5):
            queue.enqueue(value, "a")
        queue.enqueue(10, "b")
        assert queue.execution_order() == [1, 10, 2, 3, 4]


def test_without_fair_by_the_order_is_fifo() -> None:
    with held_queue(Queueing()) as queue:
        for value, client in enumerate(["a", "a", "a", "b"], 1):
            queue.enqueue(value, client)
        assert queue.execution_order() == [1, 2, 3, 4]


def test_requests_without_the_header_share_one_turn() -> None:
    with held_queue(Queueing(fair_by="header:x-tenant")) as queue:
        for value in (1, 2, 3):
            queue.enqueue(value)
        queue.enqueue(10, "b")
        assert queue.execution_order() == [1, 10, 2, 3]


def test_clients_take_turns_within_a_priority_level() -> None:
    with held_queue(Queueing(2, fair_by="header:x-tenant")) as queue:
        for value in (1, 2):
            queue.enqueue(value, "a")
        queue.enqueue(10, "b")
        for value in (3, 4):
            queue.enqueue(value, "a", parameters={"priority": 1})
        queue.enqueue(11, "b", parameters={"priority": 1})
        assert queue.execution_order() == [3, 11, 4, 1, 10, 2]


def test_one_client_cannot_fill_the_queue() -> None:
    with held_queue(Queueing(fair_by="header:x-tenant", max_rows_per_client=2)) as queue:
        queue.enqueue(1, "a")
        queue.enqueue(2, "a")
        refused = queue.send(3, {"x-tenant": "a"})
        assert refused.status == 429
        assert int(refused.headers["retry-after"]) >= 1
        assert refused.error() == (
            "model 'm' has 2 of its maximum of 2 rows of one client waiting, and the request has 1"
        )
        tensor = tgrpc.InferInput("x", [1, 1], "FP32")
        tensor.set_data_from_numpy(np.array([[4]], np.float32))
        expect_rejection = pytest.raises(InferenceServerException, match="rows of one client waiting")
        with tgrpc.InferenceServerClient(queue.server.grpc_url) as client, expect_rejection:
            client.infer("m", [tensor], headers={"x-tenant": "a"})
        queue.enqueue(10, "b")
        assert queue.execution_order() == [1, 10, 2]
        assert queue.send(5, {"x-tenant": "a"}).status == 200


def test_api_key_is_an_alias_of_the_authorization_header() -> None:
    assert Queueing(fair_by="api-key").fair_by == "header:authorization"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"fair_by": "peer"}, "Queueing: fair_by must be 'client', 'api-key' or 'header:NAME', not 'peer'"),
        ({"fair_by": "header:a b"}, "Queueing: fair_by must be 'client', 'api-key' or 'header:NAME', not 'header:a b'"),
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
def test_invalid_fairness_settings_are_rejected(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Queueing(**arguments)


def test_fair_by_is_rejected_with_sequences() -> None:
    def stateful(x: Any, ctx: Context) -> Any:
        return x

    with pytest.raises(SignatureError, match="so their clients take no turns"):
        model(queueing=Queueing(fair_by="api-key"), sequences=Sequences(), **FLOATS)(stateful)
