"""Served pipelines: concurrent branches, overlapping stages, and no copies between steps."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from http_by_hand import metric_at
from penstock import Batching, Context, InvalidInput, LoadError, Pipeline, Server, Step, Tensor, _core, model
from penstock.testing import Client
from repositories import Repository, RepositoryClient
from waiting import PATIENCE, Gate, at_once, until

X: Any = {"inputs": [Tensor("x", np.float32, [1])], "outputs": [Tensor("y", np.float32, [1])]}
LARGE: Any = {"inputs": [Tensor("x", np.float32, [-1])], "outputs": [Tensor("y", np.float32, [-1])]}
ONE = np.ones(1, np.float32)
BYTES = 1 << 20

CHAIN = [Step("first", {"x": "x"}, {"y": "between"}), Step("second", {"x": "between"}, {"y": "y"})]


def address(array: Any) -> int:
    # `ctypes` keeps a reference until the next garbage collection.
    return int(array.__array_interface__["data"][0])


def times(name: str, factor: float, **options: Any) -> Any:
    return model(name=name, **{**X, **options})(lambda x: x * factor)


def chain(**options: Any) -> Pipeline:
    return Pipeline("p", CHAIN, inputs=["x"], outputs=["y"], **options)


def metric(client: Client, line: str) -> bool:
    return line in client.get("/metrics").body.decode()


@model(name="sum", inputs=[Tensor("a", np.float32, [1]), Tensor("b", np.float32, [1])], outputs=X["outputs"])
def add(a, b):
    return a + b


BRANCHES = [
    Step(add, {"a": "left", "b": "right"}, {"y": "y"}),
    Step("two", {"x": "x"}, {"y": "left"}),
    Step("three", {"x": "x"}, {"y": "right"}),
]


def test_pipeline_runs_its_steps_and_appears_as_a_model() -> None:
    batched: Any = {"batching": Batching(max_size=8)}
    with Client(times("first", 2, **batched), times("second", 3, **batched), chain(description="Six times.")) as client:
        response = client.infer("p", {"x": np.float32([[1], [2]])}, request_id="r")
        assert response["y"].tolist() == [[6.0], [12.0]]
        assert client.last_response is not None
        assert client.last_response.json()["id"] == "r"
        metadata = client.get("/v2/models/p").json()
        assert metadata["platform"] == "penstock_pipeline"
        assert metadata["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 1]}]
        assert metadata["outputs"] == [{"name": "y", "datatype": "FP32", "shape": [-1, 1]}]
        assert client.get("/v2/models/p/config").json()["name"] == "p"
        assert client.get("/v2/models/p/ready").status == 200
        statistics = client.get("/v2/models/p/stats").json()["model_stats"][0]
        assert statistics["inference_stats"]["success"]["count"] == 1
        assert "/v2/models/p/infer" in client.get("/openapi.json").json()["paths"]
        assert metric(client, 'penstock_requests_total{model="first",version="1",protocol="inprocess",outcome="ok"} 1')


def test_branches_run_concurrently() -> None:
    both = threading.Barrier(2, timeout=PATIENCE)

    def branch(name: str, factor: int) -> Any:
        def handler(x):
            both.wait()
            return x * factor

        return model(name=name, **X)(handler)

    pipeline = Pipeline("p", BRANCHES, inputs=["x"], outputs=["y", "left"])
    with Client(branch("two", 2), branch("three", 3), add, pipeline) as client:
        response = client.infer("p", {"x": ONE * 7})
    assert {name: value.tolist() for name, value in response.items()} == {"y": [35.0], "left": [14.0]}


def test_stages_overlap_and_batch_separately() -> None:
    # Gates of the first and second batch of each stage; later batches pass.
    gates = {"first": [Gate(), Gate()], "second": [Gate()]}
    sizes: dict[str, list[int]] = {"first": [], "second": []}

    def stage(name: str) -> Any:
        def handler(x):
            sizes[name].append(len(x))
            for gate in gates[name][len(sizes[name]) - 1 :][:1]:
                gate.enter()
            return x * 2

        return model(name=name, batching=Batching(max_size=8, hold=False), **X)(handler)

    with Client(stage("first"), stage("second"), chain()) as client:
        calls = [lambda i=i: client.infer("p", {"x": np.float32([[i]])})["y"].tolist() for i in range(5)]
        futures = at_once(calls[:1])
        gates["first"][0].await_entered()
        futures += at_once(calls[1:4])
        until(lambda: metric(client, 'penstock_queue_depth{model="first",version="1"} 3'))
        gates["first"][0].open()
        # One request is in the second stage while three are in the first; then these queue with a fifth.
        gates["first"][1].await_entered()
        gates["second"][0].await_entered()
        gates["first"][1].open()
        until(lambda: metric(client, 'penstock_queue_depth{model="second",version="1"} 3'))
        futures += at_once(calls[4:])
        until(lambda: metric(client, 'penstock_queue_depth{model="second",version="1"} 4'))
        gates["second"][0].open()
        assert [future.result(PATIENCE) for future in futures] == [[[4.0 * i]] for i in range(5)]
    assert sizes == {"first": [1, 3, 1], "second": [1, 4]}


def test_no_copy_between_steps() -> None:
    """Each step writes to its input, which is the array that the previous step returned."""
    addresses: dict[str, int] = {}

    def stage(name: str) -> Any:
        def handler(x):
            addresses[f"{name} input"] = address(x)
            x += 1
            response = x * 2
            addresses[f"{name} output"] = address(response)
            return response

        return model(name=name, **LARGE)(handler)

    with Client(stage("first"), stage("second"), chain()) as client:
        before = _core.copied_bytes()
        response = client.infer("p", {"x": np.zeros(BYTES // 4, np.float32)})["y"]
        after = _core.copied_bytes()
    assert (response.min(), response.max()) == (6, 6)
    assert addresses["second input"] == addresses["first output"]
    assert {step: after[step] - before[step] for step in after if after[step] != before[step]} == {"receive": BYTES}


def test_tensor_with_several_consumers_is_copied_for_each() -> None:
    gate = threading.Barrier(2, timeout=PATIENCE)

    def stage(name: str, factor: float) -> Any:
        def handler(x):
            gate.wait()
            x *= factor
            gate.wait()
            return x[:1]

        return model(name=name, **LARGE)(handler)

    summed = [Tensor("a", np.float32, [-1]), Tensor("b", np.float32, [-1])]
    add = model(name="sum", inputs=summed, outputs=LARGE["outputs"])(lambda a, b: a * 10 + b)
    pipeline = Pipeline("p", BRANCHES, inputs=["x"], outputs=["y"])
    with Client(stage("two", 2), stage("three", 3), add, pipeline) as client:
        assert client.infer("p", {"x": np.ones(BYTES, np.float32)})["y"].tolist() == [23.0]


def test_texts_bytes_and_bfloat16_pass_between_steps() -> None:
    datatypes = {"text": str, "raw": bytes, "half": "BF16"}
    tensors = [Tensor(name, datatype, [-1]) for name, datatype in datatypes.items()]
    optional = Tensor("suffix", str, [-1], optional=True)

    @model(name="first", inputs=[*tensors, optional], outputs=tensors)
    def first(text, raw, half, suffix):
        return {"text": text[::-1].copy(), "raw": raw, "half": half}

    @model(name="second", inputs=tensors, outputs=tensors)
    def second(text, raw, half):
        return {"text": text + "!", "raw": raw[::-1].copy(), "half": half * 2}

    names = {name: f"{name} of first" for name in datatypes}
    last = {name: f"{name} of second" for name in datatypes}
    steps = [Step(first, None, names), Step(second, names, last)]
    pipeline = Pipeline("p", steps, inputs=[*datatypes, "suffix"], outputs=[*last.values()])
    with Client(first, second, pipeline) as client:
        response = client.infer(
            "p",
            {"text": np.array(["ä", "b"], object), "raw": np.array([b"\xff", b"x"], object), "half": np.float32([1.5])},
        )
    assert response["text of second"].tolist() == [b"b!", "ä!".encode()]
    assert response["raw of second"].tolist() == [b"x", b"\xff"]
    assert response["half of second"].tolist() == [3.0]


def test_step_error_is_the_response_and_cancels_the_others() -> None:
    gate, cancelled = Gate(), threading.Event()

    @model(name="two", **X)
    def two(x, ctx: Context):
        gate.enter()
        until(lambda: ctx.cancelled)
        cancelled.set()
        return x

    @model(name="three", **X)
    def three(x):
        gate.await_entered()
        gate.open()
        raise InvalidInput("input 'x' is not accepted")

    pipeline = Pipeline("p", BRANCHES, inputs=["x"], outputs=["y"])
    with Client(two, three, add, pipeline) as client:
        with pytest.raises(InvalidInput, match="input 'x' is not accepted"):
            client.infer("p", {"x": ONE})
        assert cancelled.wait(PATIENCE)


def test_pipelines_can_be_steps_and_peers() -> None:
    outer = Pipeline(
        "outer", [Step("p", {"x": "x"}, {"y": "z"}), Step("first", {"x": "z"}, {"y": "y"})], inputs=["x"], outputs=["y"]
    )

    @model(name="calling", calls=["outer"], **X)
    def calling(x, ctx: Context):
        return ctx.models["outer"](x) + 1

    with Client(outer, calling, chain(), times("second", 3), times("first", 2)) as client:
        assert client.infer("calling", {"x": ONE})["y"].tolist() == [13.0]


def test_step_may_name_a_version() -> None:
    steps = [Step("first", {"x": "x"}, {"y": "between"}, version=1), CHAIN[1]]
    pipeline = Pipeline("p", steps, inputs=["x"], outputs=["y"])
    versions = [times("first", 2), times("first", 20, version=2)]
    with Client(*versions, times("second", 3), chain(version=2), pipeline) as client:
        assert client.infer("p", {"x": ONE}, version="1")["y"].tolist() == [6.0]
        assert client.infer("p", {"x": ONE})["y"].tolist() == [60.0]


def test_step_models_are_replaced_under_load_without_loss() -> None:
    with Server(times("first", 2), times("second", 3), chain(), http="127.0.0.1:0", grpc=None) as server:
        client, done = RepositoryClient(server.http_url), threading.Event()
        document = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [1]}]}

        def send() -> str:
            status, response = client("POST", "/v2/models/p/infer", document)
            return str(response["outputs"][0]["data"] if status == 200 else response)

        def send_repeatedly() -> set[str]:
            responses = {send()}
            while not done.is_set():
                responses.add(send())
            return responses

        senders = at_once([send_repeatedly] * 2)
        for factor in (5, 7):
            server.reload(lambda factor=factor: [times("first", factor), times("second", 3), chain()])
            assert send() == f"[{3.0 * factor}]"
        done.set()
        for sender in senders:
            assert sender.result(PATIENCE) <= {"[6.0]", "[15.0]", "[21.0]"}


def test_unloaded_step_model_is_named_in_the_error() -> None:
    with Server(
        times("first", 2), times("second", 3), chain(), http="127.0.0.1:0", grpc=None, model_control="explicit"
    ) as server:
        client = RepositoryClient(server.http_url)
        assert client.unload("second")[0] == 200
        document = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [1]}]}
        assert client("POST", "/v2/models/p/infer", document) == (503, {"error": "model 'second' is not loaded"})


def test_client_disconnect_cancels_the_steps() -> None:
    gate, computed = Gate(), []

    @model(name="first", **X)
    def first(x):
        if x[0] == 0:
            gate.enter()
        computed.append(float(x[0]))
        return x

    with Server(first, times("second", 3), chain(), http="127.0.0.1:0", grpc=None) as server:
        client = RepositoryClient(server.http_url)

        def send(name: str, value: int) -> int:
            document = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [value]}]}
            return client("POST", f"/v2/models/{name}/infer", document)[0]

        (held,) = at_once([lambda: send("first", 0)])
        gate.await_entered()
        body = b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[1]}]}'
        host, port = client.address.split(":")
        with socket.create_connection((host, int(port)), timeout=PATIENCE) as connection:
            head = f"POST /v2/models/p/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
            connection.sendall(head.encode() + body)
            until(lambda: metric_at(server.http_url, "penstock_in_flight", model="first") == 2)
        until(lambda: metric_at(server.http_url, "penstock_in_flight", model="first") == 1)
        gate.open()
        assert held.result(PATIENCE) == 200
        assert send("p", 2) == 200
    assert computed == [0, 2]


def test_pipeline_in_a_repository_is_rejected_with_advice(tmp_path: Path) -> None:
    Repository(tmp_path / "models").write(
        "p",
        "1",
        """
        from penstock import Pipeline, Step

        p = Pipeline("p", [Step("first")], inputs=["x"], outputs=["y"])
        """,
    )
    with pytest.raises(LoadError, match=r"model\.py has a Pipeline: give it to the server, beside the models that are"):
        Server(times("first", 2), repository=tmp_path / "models", http="127.0.0.1:0", grpc=None).start()
