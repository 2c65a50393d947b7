"""1.7, 1.10, 3.1: requests of a callable, and the assignment of responses to clients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from bound import SharedCall, X, Y, bound, infer_together, rows, unexpected

from penstock.compat.pytriton._bind import bind
from penstock.compat.pytriton._model.binding import Binding
from penstock.compat.pytriton.decorators import batch, group_by_keys
from penstock.compat.pytriton.model_config import ModelConfig, Tensor
from penstock.compat.pytriton.proxy.types import Request, Response
from penstock.testing import Client
from waiting import Gate, at_once

Z = Tensor(name="z", dtype=np.int32, shape=(1,), optional=True)


def test_requests_of_a_batch_get_their_responses() -> None:
    shared = SharedCall(lambda requests: [{"y": request["x"] * 10} for request in requests])
    with bound(shared, max_batch_size=16) as client:
        responses = shared.infer(client, [{"x": rows(0)}, {"x": rows(1)}, {"x": rows(2, 3)}, {"x": rows(4)}])
    assert shared.sizes == [1, 3]
    assert [one["y"].ravel().tolist() for one in responses] == [[0], [10], [20, 30], [40]]


def test_joined_requests_share_one_array() -> None:
    bases = []

    def infer(requests: list[Request]) -> list[dict[str, Any]]:
        bases.append({id(request["x"].base) for request in requests})
        return [{"y": request["x"]} for request in requests]

    shared = SharedCall(infer)
    with bound(shared, max_batch_size=16) as client:
        shared.infer(client, [{"x": rows(0)}, {"x": rows(1)}, {"x": rows(2)}])
    assert len(bases[1]) == 1


def test_batch_decorator_joins_rows_of_all_requests() -> None:
    gate, seen = Gate(), []

    @batch
    def infer(x: Any) -> dict[str, Any]:
        seen.append(len(x))
        if len(seen) == 1:
            gate.enter()
        return {"y": x * 10}

    with bound(infer, max_batch_size=16) as client:
        responses = infer_together(client, gate, [{"x": rows(0)}, {"x": rows(1)}, {"x": rows(2, 3)}])
    assert seen == [1, 3]
    assert [one["y"].ravel().tolist() for one in responses] == [[0], [10], [20, 30]]


def test_responses_of_different_shapes_share_a_call() -> None:
    shared = SharedCall(lambda requests: [{"y": np.ones((1, int(one["x"][0, 0])), np.float32)} for one in requests])
    with bound(shared, max_batch_size=16) as client:
        responses = shared.infer(client, [{"x": rows(value)} for value in (1, 3, 0, 2)])
    assert shared.sizes == [1, 3]
    assert [one["y"].shape for one in responses] == [(1, 1), (1, 3), (1, 0), (1, 2)]


@pytest.mark.parametrize("grouped", [False, True])
def test_requests_with_different_optional_inputs_are_not_mixed(*, grouped: bool) -> None:
    def infer(x: Any, z: Any = None) -> dict[str, Any]:
        return {"y": x if z is None else x * z}

    shared = SharedCall(group_by_keys(batch(infer)) if grouped else one_by_one)
    with bound(shared, inputs=(X, Z), max_batch_size=16) as client:
        factor = np.array([[7]], np.int32)
        responses = shared.infer(client, [{"x": rows(0)}, {"x": rows(1)}, {"x": rows(2), "z": factor}, {"x": rows(3)}])
    assert [one["y"].ravel().tolist() for one in responses] == [[0], [1], [14], [3]]


def one_by_one(requests: list[Request]) -> list[dict[str, Any]]:
    return [{"y": np.prod([*one.values()], axis=0, dtype=np.float32)} for one in requests]


def test_parameters_keep_their_types() -> None:
    seen = []

    def infer(requests: list[Request]) -> list[dict[str, Any]]:
        seen.extend(request.parameters for request in requests)
        return [{"y": request["x"]} for request in requests]

    shared = SharedCall(infer)
    with bound(shared, max_batch_size=16) as client:
        client_parameters = {"a": 1, "b": True, "c": "text"}
        shared.infer(client, [{"x": rows(0)}, {"x": rows(1)}], parameters=client_parameters)
        client.infer("m", {"x": rows(0)})
    assert seen == [client_parameters, client_parameters, {}]
    assert [type(value) for value in seen[0].values()] == [int, bool, str]


def test_forwarded_headers_become_parameters() -> None:
    seen = []

    def infer(requests: list[Request]) -> list[dict[str, Any]]:
        seen.extend(request.parameters for request in requests)
        return [{"y": request["x"]} for request in requests]

    binding = Binding.of("m", infer, (X,), (Y,))
    with Client(bind(binding, unexpected), http_header_forward_pattern="header.*") as client:
        client.infer("m", {"x": rows(0)}, parameters={"a": 1}, headers={"header_divisor": "7", "other": "no"})
    assert seen[0]["a"] == 1
    assert seen[0]["header_divisor"] == "7"
    assert "other" not in seen[0]


def test_model_without_batching_gets_single_requests() -> None:
    seen = []

    def infer(requests: list[Request]) -> list[dict[str, Any]]:
        seen.append([request["x"].shape for request in requests])
        return [{"y": requests[0]["x"]}]

    with bound(infer, batching=False) as client:
        assert client.infer("m", {"x": np.ones(3, np.float32)})["y"].tolist() == [1, 1, 1]
    assert seen == [[(3,)]]


def test_unnamed_tensors_get_numbered_names() -> None:
    inputs = (Tensor((1,), np.float32), Tensor((1,), np.float32, "b"), Tensor((1,), np.float32))
    outputs = (Tensor((1,), np.float32), Tensor((1,), np.float32, "sum"))
    binding = Binding.of("m", lambda _: [], inputs, outputs)
    assert [tensor.name for tensor in binding.inputs] == ["INPUT_1", "b", "INPUT_3"]
    assert [tensor.name for tensor in binding.outputs] == ["OUTPUT_1", "sum"]
    assert binding.key == ("m", 1)

    @batch
    def total(**inputs: Any) -> list[Any]:
        return [inputs["INPUT_1"], inputs["INPUT_1"] + inputs["b"] + inputs["INPUT_3"]]

    with bound(total, inputs=inputs, outputs=outputs) as client:
        outputs = client.infer("m", {"INPUT_1": rows(1), "b": rows(2), "INPUT_3": rows(3)})
        assert (outputs["OUTPUT_1"].tolist(), outputs["sum"].tolist()) == ([[1]], [[6]])


def test_requests_and_responses_are_mappings() -> None:
    for kind in (Request, Response):
        named = kind({"a": rows(1)})
        named["b"] = rows(2)
        assert (len(named), list(named), "b" in named, "c" in named) == (2, ["a", "b"], True, False)
        assert [value.tolist() for value in named.values()] == [[[1]], [[2]]]
        assert {name: value.tolist() for name, value in named.items()} == {"a": [[1]], "b": [[2]]}
        del named["a"]
        assert list(named.keys()) == ["b"]
        assert not hasattr(named, "get")
    assert (Request({}).parameters, Request({}).span, Request({}).requested_output_names) == (None, None, None)


def test_traced_span_works_without_tracing() -> None:
    with Request({}).traced_span("step"):
        pass


def test_callables_of_a_list_are_separate_instances() -> None:
    gate = Gate()

    def instance(factor: float) -> Any:
        def infer(requests: list[Request]) -> list[dict[str, Any]]:
            gate.enter()
            return [{"y": request["x"] * factor} for request in requests]

        return infer

    with bound([instance(2), instance(3)], max_batch_size=1) as client:
        futures = at_once([lambda: client.infer("m", {"x": rows(1)})] * 2)
        # Both instances compute at the same time.
        gate.await_entered(2)
        gate.open()
        assert sorted(future.result()["y"][0, 0] for future in futures) == [2, 3]


def test_one_function_serves_two_models() -> None:
    @batch
    def echo(x: Any) -> list[Any]:
        return [x] * 1

    def model(name: str, output: str) -> Any:
        outputs = (Tensor(name=output, dtype=np.float32, shape=(-1,)),)
        return bind(Binding.of(name, echo, (X,), outputs, 1, ModelConfig()), unexpected)

    with Client(model("first", "a"), model("second", "b")) as client:
        assert list(client.infer("first", {"x": rows(1)})) == ["a"]
        assert list(client.infer("second", {"x": rows(1)})) == ["b"]
