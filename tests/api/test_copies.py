"""Counted copies of tensor bytes per step, as documented in docs/copies.md."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

from http_by_hand import infer, json_body, metric_at, post
from penstock import Batching, Model, Server, Tensor, _core, model
from waiting import Gate, at_once, until

COUNT = 1 << 18
SIZE = COUNT * 4
X = np.arange(COUNT, dtype=np.float32)
NONE = {"receive": 0, "gather": 0, "hand-in": 0, "hand-out": 0, "encode": 0}


def served_model(handler: Callable[..., Any], **options: Any) -> Model[..., Any]:
    settings: dict[str, Any] = {
        "inputs": [Tensor("x", np.float32, [-1])],
        "outputs": [Tensor("y", np.float32, [-1])],
        **options,
    }
    return model(handler, name="m", **settings)


def copied(call: Callable[[], Any]) -> dict[str, int]:
    """Bytes copied at each step during `call`."""
    before = _core.copied_bytes()
    call()
    return {step: total - before[step] for step, total in _core.copied_bytes().items()}


def over_rest(server: Server, x: Any = X) -> None:
    assert infer(server.http_url, "m", {"x": x}).status == 200


def over_grpc(server: Server, x: Any = X) -> None:
    request = service_pb2.ModelInferRequest(model_name="m", raw_input_contents=[x.tobytes()])
    request.inputs.add(name="x", datatype="FP32", shape=x.shape)
    with grpc.insecure_channel(server.grpc_url, options=[("grpc.max_receive_message_length", -1)]) as channel:
        service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(request)


TRANSPORTS = pytest.mark.parametrize("transport", [over_rest, over_grpc])


def copies_of_request(
    handler: Callable[..., Any], transport: Callable[..., None] = over_rest, **options: Any
) -> dict[str, int]:
    with Server(served_model(handler, **options), http="127.0.0.1:0", grpc="127.0.0.1:0") as server:
        return copied(lambda: transport(server))


@TRANSPORTS
def test_large_new_output_costs_one_copy_in_all(transport: Callable[..., None]) -> None:
    assert copies_of_request(lambda x: x + 1, transport) == {**NONE, "receive": SIZE}


@TRANSPORTS
@pytest.mark.parametrize("container", [lambda y: (y,), lambda y: {"y": y}], ids=["tuple", "dict"])
def test_new_container_adds_no_copy(container: Callable[[Any], Any], transport: Callable[..., None]) -> None:
    assert copies_of_request(lambda x: container(x + 1), transport) == {**NONE, "receive": SIZE}


@TRANSPORTS
def test_retained_output_is_copied_once(transport: Callable[..., None]) -> None:
    retained = []

    def retain(x: Any) -> Any:
        retained.append(x + 1)
        return retained[-1]

    assert copies_of_request(retain, transport) == {**NONE, "receive": SIZE, "hand-out": SIZE}


@pytest.mark.parametrize(
    "make_output", [lambda x: x[:], lambda x: (x + 1)[:], lambda x: np.frombuffer((x + 1).tobytes(), np.float32)]
)
def test_output_over_foreign_memory_is_copied_once(make_output: Callable[[Any], Any]) -> None:
    assert copies_of_request(make_output) == {**NONE, "receive": SIZE, "hand-out": SIZE}


@TRANSPORTS
def test_small_output_is_copied_and_joined_to_the_response_head(transport: Callable[..., None]) -> None:
    assert copies_of_request(lambda x: x[:100] + 1, transport) == {
        **NONE,
        "receive": SIZE,
        "hand-out": 400,
        "encode": 400,
    }


def test_json_input_is_parsed_in_place() -> None:
    x = X[:20_000]
    with Server(served_model(lambda x: x + 1), http="127.0.0.1:0", grpc=None) as server:
        counted = copied(lambda: post(server.http_url, "/v2/models/m/infer", json_body({"x": x})))
    assert (counted["gather"], counted["hand-in"], counted["hand-out"]) == (0, 0, 0)


@TRANSPORTS
def test_batch_of_two_adds_one_copy_of_its_inputs(transport: Callable[..., None]) -> None:
    gate, sizes = Gate(), []

    def hold(x: Any) -> Any:
        sizes.append(len(x))
        if len(sizes) == 1:
            gate.enter()
        return x + 1

    served = served_model(
        hold,
        inputs=[Tensor("x", np.float32, [COUNT])],
        outputs=[Tensor("y", np.float32, [COUNT])],
        batching=Batching(max_size=8),
    )
    with Server(served, http="127.0.0.1:0", grpc="127.0.0.1:0") as server:
        (first,) = at_once([lambda: over_rest(server, X[None])])
        gate.await_entered()

        def send_two() -> None:
            both = at_once([lambda: transport(server, X[None])] * 2)
            until(lambda: metric_at(server.http_url, "penstock_queue_depth") == 2)
            gate.open()
            for future in [first, *both]:
                future.result()

        counted = copied(send_two)
    assert sizes == [1, 2]
    assert counted == {**NONE, "receive": 2 * SIZE, "gather": 2 * SIZE}


def test_full_single_request_batch_is_not_gathered() -> None:
    with Server(
        served_model(
            lambda x: x + 1,
            inputs=[Tensor("x", np.float32, [COUNT // 4])],
            outputs=[Tensor("y", np.float32, [COUNT // 4])],
            batching=Batching(max_size=8),
        ),
        http="127.0.0.1:0",
        grpc=None,
    ) as server:
        assert copied(lambda: over_rest(server, X.reshape(4, -1))) == {**NONE, "receive": SIZE}


def test_widened_bfloat16_is_copied_on_both_sides() -> None:
    narrow = (X % 1000).astype(np.float16)

    def send_bf16(server: Server) -> None:
        request = service_pb2.ModelInferRequest(model_name="m", raw_input_contents=[narrow.tobytes()])
        request.inputs.add(name="x", datatype="BF16", shape=narrow.shape)
        with grpc.insecure_channel(server.grpc_url, options=[("grpc.max_receive_message_length", -1)]) as channel:
            service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(request)

    half = SIZE // 2
    options = {"inputs": [Tensor("x", "BF16", [-1])], "outputs": [Tensor("y", "BF16", [-1])]}
    expected = {**NONE, "receive": half, "hand-in": half, "hand-out": half}
    assert copies_of_request(lambda x: x * 2, send_bf16, **options) == expected
    ml_dtypes = pytest.importorskip("ml_dtypes")
    options = {
        "inputs": [Tensor("x", ml_dtypes.bfloat16, [-1])],
        "outputs": [Tensor("y", ml_dtypes.bfloat16, [-1])],
    }
    assert copies_of_request(np.copy, send_bf16, **options) == {**NONE, "receive": half}


def test_split_request_parts_are_copied_and_gathered_once() -> None:
    served = served_model(
        lambda x: x + 1,
        inputs=[Tensor("x", np.float32, [COUNT // 8])],
        outputs=[Tensor("y", np.float32, [COUNT // 8])],
        batching=Batching(max_size=4, oversize="split"),
    )
    with Server(served, http="127.0.0.1:0", grpc=None) as server:
        counted = copied(lambda: over_rest(server, X.reshape(8, -1)))
    assert counted == {**NONE, "receive": SIZE, "hand-in": SIZE, "gather": SIZE}
