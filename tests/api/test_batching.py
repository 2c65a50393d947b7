"""Dynamic batching: gathering, size limits, delays, splitting and bounded queues."""

from __future__ import annotations

from typing import Any

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

from held import Held
from http_by_hand import binary_body, infer, metric, metric_at
from penstock import Batching, InvalidInput, Overloaded, Server, Tensor, Threads, model
from penstock.testing import Client
from waiting import Gate, at_once, until

HOUR = 3600.0


def test_queued_requests_form_one_batch_in_order() -> None:
    held = Held(Batching(max_size=8))
    held.run([1, 2, 1, 3])
    assert held.calls == [[0], [1, 2, 2, 3, 4, 4, 4]]


def test_batch_never_exceeds_max_size() -> None:
    held = Held(Batching(max_size=4))
    held.run([1, 1, 1, 1, 1, 1])
    assert held.sizes == [1, 4, 2]


def test_request_is_not_split_to_fill_a_batch() -> None:
    held = Held(Batching(max_size=4))
    held.run([3, 3, 1])
    # The last request does not overtake the second.
    assert held.calls == [[0], [1, 1, 1], [2, 2, 2, 3]]


def test_rows_of_different_shapes_do_not_share_a_batch() -> None:
    held = Held(Batching(max_size=8))
    held.run([1, 1, 1, 1], widths=[2, 5, 2, 5])
    assert held.calls == [[0], [1, 3], [2, 4]]


def test_requests_with_and_without_an_optional_input_do_not_share_a_batch() -> None:
    gate, calls = Gate(), []

    @model(
        inputs=[Tensor("x", np.float32, [1]), Tensor("bias", np.float32, [1], optional=True)],
        outputs=[Tensor("y", np.float32, [1])],
        batching=Batching(max_size=8),
    )
    def m(x: Any, bias: Any = None) -> Any:
        calls.append((len(x), bias is None))
        if len(calls) == 1:
            gate.enter()
        return x if bias is None else x + bias

    one, bias = np.ones((1, 1), np.float32), np.full((1, 1), 5, np.float32)
    with Server(m, http="127.0.0.1:0", grpc=None) as server:
        url = server.http_url
        futures = at_once([lambda: infer(url, "m", {"x": one})])
        gate.await_entered()
        for index, inputs in enumerate([{"x": one}, {"x": one, "bias": bias}, {"x": one}, {"x": one, "bias": bias}]):
            futures += at_once([lambda inputs=inputs: infer(url, "m", inputs)])
            until(lambda index=index: metric_at(url, "penstock_queue_depth") == index + 1)
        gate.open()
        responses = [future.result().array("y").tolist() for future in futures]
    assert responses == [[[1]], [[1]], [[6]], [[1]], [[6]]]
    assert calls == [(1, True), (2, True), (2, False)]


def test_without_dynamic_batching_each_request_is_one_call() -> None:
    held = Held(Batching(max_size=8, dynamic=False))
    held.run([2, 1, 3])
    assert held.calls == [[0], [1, 1], [2], [3, 3, 3]]


def test_max_size_1_keeps_the_batch_axis() -> None:
    held = Held(Batching(max_size=1))
    held.run([1, 1])
    assert held.sizes == [1, 1, 1]


def test_without_batching_inputs_have_no_batch_axis() -> None:
    shapes = []

    @model(inputs=[Tensor("x", np.float32, [2])], outputs=[Tensor("y", np.float32, [2])])
    def m(x: Any) -> Any:
        shapes.append(x.shape)
        return x

    with Client(m) as client:
        for future in at_once([lambda: client.infer("m", {"x": np.ones(2, np.float32)})] * 5):
            future.result()
        assert shapes == [(2,)] * 5
        with pytest.raises(InvalidInput, match=r"shape \[1, 2\]"):
            client.infer("m", {"x": np.ones((1, 2), np.float32)})


def batch_sizes(batching: Batching, count: int) -> list[int]:
    """Sizes of the batches formed by requests that clients send independently."""
    sizes = []

    def handle(x: Any) -> Any:
        sizes.append(len(x))
        return x

    options = {"inputs": [Tensor("x", np.float32, [1])], "outputs": [Tensor("y", np.float32, [1])]}
    with Client(model(handle, name="m", batching=batching, **options)) as client:
        futures = []
        for _ in range(count):
            futures += at_once([lambda: client.infer("m", {"x": np.ones((1, 1), np.float32)})])
        for future in futures:
            future.result(timeout=20)
    return sizes


def test_max_delay_waits_for_a_full_batch() -> None:
    assert batch_sizes(Batching(max_size=4, max_delay=HOUR), 8) == [4, 4]


def test_max_delay_limits_the_wait_for_a_full_batch() -> None:
    assert sum(batch_sizes(Batching(max_size=64, max_delay=0.05), 3)) == 3


def test_without_hold_single_requests_start_immediately() -> None:
    with Client(model(lambda x: x, name="m", batching=Batching(max_size=64, hold=False), **one_float())) as client:
        for _ in range(5):
            client.infer("m", {"x": np.ones((1, 1), np.float32)})
        text = client.get("/metrics").body.decode()
    assert metric(text, "penstock_batches_total", reason="idle") == 5


def one_float() -> dict[str, Any]:
    return {"inputs": [Tensor("x", np.float32, [1])], "outputs": [Tensor("y", np.float32, [1])]}


def test_preferred_sizes_cut_a_batch_and_requeue_the_rest() -> None:
    held = Held(Batching(max_size=8, preferred_sizes=[2, 4], max_delay=0.02))
    held.run([1] * 7, first=4)
    assert held.sizes == [4, 4, 2, 1]


def test_full_preferred_size_starts_before_the_delay_expires() -> None:
    assert batch_sizes(Batching(max_size=8, preferred_sizes=[3], max_delay=HOUR), 6) == [3, 3]


def test_draining_does_not_wait_for_max_delay() -> None:
    with Server(
        model(lambda x: x, name="m", batching=Batching(max_size=8, max_delay=HOUR), **one_float()),
        http="127.0.0.1:0",
        grpc=None,
    ) as server:
        url = server.http_url
        (future,) = at_once([lambda: infer(url, "m", {"x": np.ones((1, 1), np.float32)})])
        until(lambda: metric_at(url, "penstock_queue_depth") == 1)
        assert server.stop() == []
    assert future.result().status == 200


@pytest.mark.parametrize("dynamic", [True, False])
def test_oversize_request_is_rejected(dynamic: bool) -> None:
    served = model(lambda x: x, name="m", batching=Batching(max_size=4, dynamic=dynamic), **one_float())
    with Client(served) as client:
        assert len(client.infer("m", {"x": np.ones((4, 1), np.float32)})["y"]) == 4
        with pytest.raises(InvalidInput) as raised:
            client.infer("m", {"x": np.ones((5, 1), np.float32)})
    assert str(raised.value) == "input 'x' has a batch of 5 rows, model 'm' accepts at most 4"


@pytest.mark.parametrize("rows", [4, 5, 8, 11])
def test_oversize_request_is_split_and_rejoined_if_configured(rows: int) -> None:
    sizes = []

    @model(
        inputs=[Tensor("x", np.float32, [-1]), Tensor("name", bytes, [])],
        outputs=[Tensor("y", np.float32, [-1]), Tensor("name", bytes, [])],
        batching=Batching(max_size=4, oversize="split"),
    )
    def m(x: Any, name: Any) -> Any:
        sizes.append(len(x))
        return x * 10, name

    x = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3)
    names = [f"row {index}".encode() * index for index in range(rows)]
    with Client(m) as client:
        outputs = client.infer("m", {"x": x, "name": names})
    assert np.array_equal(outputs["y"], x * 10)
    assert outputs["name"].tolist() == names
    assert max(sizes) <= 4
    assert sum(sizes) == rows


def test_failing_part_fails_only_its_split_request() -> None:
    def handle(x: Any) -> Any:
        if (x == 9).any():
            raise InvalidInput("nine")
        return x

    served = model(handle, name="m", batching=Batching(max_size=2, oversize="split"), **one_float())
    with Client(served) as client:
        with pytest.raises(InvalidInput, match=r"^nine$"):
            client.infer("m", {"x": np.arange(8, 12, dtype=np.float32).reshape(4, 1)})
        assert len(client.infer("m", {"x": np.zeros((5, 1), np.float32)})["y"]) == 5


def test_empty_batch_gets_a_result_or_an_error_that_names_the_input() -> None:
    with Client(model(lambda x: x, name="m", batching=Batching(max_size=4), **one_float())) as client:
        body, headers = binary_body({"x": np.ones((0, 1), np.float32)})
        response = client.post("/v2/models/m/infer", body, headers=headers)
        if response.status != 200:
            assert response.status == 400
            assert "'x'" in response.error()
        # In either case the next request succeeds.
        assert client.infer("m", {"x": np.ones((1, 1), np.float32)})["y"].tolist() == [[1]]


@pytest.mark.parametrize(("dialect", "status"), [("penstock", 429), ("triton", 503), ("kserve", 429)])
def test_full_queue_rejects_with_retry_after(dialect: Any, status: int) -> None:
    gate = Gate()

    def handle(x: Any) -> Any:
        gate.enter()
        return x

    served = model(handle, name="m", max_queue=2, **one_float())
    with Server(served, http="127.0.0.1:0", grpc="127.0.0.1:0", dialect=dialect) as server:
        url = server.http_url

        def send() -> Any:
            return infer(url, "m", {"x": np.ones(1, np.float32)})

        futures = at_once([send])
        gate.await_entered()
        futures += at_once([send] * 2)
        until(lambda: metric_at(url, "penstock_queue_depth") == 2)
        refused = send()
        assert (refused.status, refused.error()) == (status, "model 'm' has its maximum of 2 requests waiting")
        assert int(refused.headers["retry-after"]) >= 1
        request = service_pb2.ModelInferRequest(model_name="m", raw_input_contents=[bytes(4)])
        request.inputs.add(name="x", datatype="FP32", shape=[1])
        with grpc.insecure_channel(server.grpc_url) as channel, pytest.raises(grpc.RpcError) as raised:
            service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(request)
        expected = grpc.StatusCode.RESOURCE_EXHAUSTED if status == 429 else grpc.StatusCode.UNAVAILABLE
        assert raised.value.code() is expected
        gate.open()
        assert [future.result().status for future in futures] == [200] * 3
        assert send().status == 200


def test_in_process_client_raises_overloaded() -> None:
    gate = Gate()

    def handle(x: Any) -> Any:
        gate.enter()
        return x

    with Client(model(handle, name="m", max_queue=1, **one_float())) as client:

        def send() -> Any:
            return client.infer("m", {"x": np.ones(1, np.float32)})

        futures = at_once([send])
        gate.await_entered()
        futures += at_once([send])
        until(lambda: metric(client.get("/metrics").body.decode(), "penstock_queue_depth") == 1)
        with pytest.raises(Overloaded):
            send()
        gate.open()
        for future in futures:
            future.result()


@pytest.mark.parametrize("instances", [1, 3])
def test_concurrent_clients_receive_their_own_rows(instances: int) -> None:
    @model(
        inputs=[Tensor("x", np.int64, [3])],
        outputs=[Tensor("y", np.int64, [3]), Tensor("text", bytes, [])],
        batching=Batching(max_size=16),
        instances=Threads(instances),
    )
    def m(x: Any) -> Any:
        return x + 1, [str(row[0]) * (row[0] % 5) for row in x]

    def run_client(url: str, number: int) -> None:
        for index in range(40):
            value = number * 1000 + index
            x = np.full((1 + index % 3, 3), value, np.int64)
            response = infer(
                url, "m", {"x": x}, id=str(value), outputs=[{"name": "y", "parameters": {"binary_data": True}}]
            )
            assert response.json()["id"] == str(value)
            assert np.array_equal(response.array("y"), x + 1)

    with Server(m, http="127.0.0.1:0", grpc=None) as server:
        for future in at_once([lambda number=number: run_client(server.http_url, number) for number in range(12)]):
            future.result()
        assert metric_at(server.http_url, "penstock_requests_total", outcome="ok") == 480
