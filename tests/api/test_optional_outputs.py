"""Outputs that a handler may leave out: the answer does not have them, by whatever way it goes."""

from __future__ import annotations

import json
from typing import Any

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

from http_by_hand import json_body, post
from penstock import (
    Answers,
    Batching,
    Cache,
    Context,
    HandlerError,
    Model,
    Pipeline,
    Processes,
    Server,
    SignatureError,
    Step,
    Tensor,
    model,
)
from penstock.testing import Client
from waiting import at_once

X = np.array([[1.0], [2.0]], np.float32)


def served(handler: Any, **options: Any) -> Model[..., Any]:
    """A model whose output `maybe` is optional, and `sure` is not."""
    outputs = [Tensor("maybe", np.float32, [1], optional=True), Tensor("sure", np.float32, [1])]
    return model(
        handler,
        name="m",
        inputs=[Tensor("x", np.float32, [1])],
        outputs=outputs,
        **{"batching": Batching(8), **options},
    )


def without(x: Any) -> dict[str, Any]:
    return {"sure": x * 2}


WAYS: dict[str, Any] = {
    "a dict": without,
    "None in a dict": lambda x: {"maybe": None, "sure": x * 2},
    "None in a tuple": lambda x: (None, x * 2),
    "answers": lambda x: Answers([{"sure": x * 2}]),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_is_left_out_is_not_in_the_answer(way: str) -> None:
    with Client(served(WAYS[way])) as client:
        for binary in (False, True):
            answered = client.infer("m", {"x": X}, binary=binary)
            assert {name: array.tolist() for name, array in answered.items()} == {"sure": [[2.0], [4.0]]}
        assert client.infer("m", {"x": X}, outputs=["maybe"]) == {}


def test_what_is_there_is_sent_as_ever() -> None:
    with Client(served(lambda x: (x, x * 2))) as client:
        assert sorted(client.infer("m", {"x": X})) == ["maybe", "sure"]


def test_each_request_of_a_batch_may_have_its_own() -> None:
    def handle(x: Any, ctx: Context) -> Any:
        first, own = 0, []
        for one in ctx.requests:
            rows = x[first : first + one.rows]
            first += one.rows
            own.append({"sure": rows} if rows[0, 0] % 2 else {"sure": rows, "maybe": rows * 3})
        return Answers(own)

    with Client(served(handle, batching=Batching(8, max_delay=0.05))) as client:
        calls = [lambda n=n: client.infer("m", {"x": np.full((1, 1), n, np.float32)}) for n in range(8)]
        for number, call in enumerate(at_once(calls)):
            found = {name: array.item() for name, array in call.result().items()}
            assert found == ({"sure": number} if number % 2 else {"sure": number, "maybe": number * 3})


def test_over_the_wire_and_from_processes() -> None:
    v1 = json.dumps({"instances": [[1.0], [2.0]]}).encode()
    for instances in (1, Processes(1)):
        with Server(served(without, instances=instances), http="127.0.0.1:0", grpc="127.0.0.1:0") as server:
            answer = post(server.http_url, "/v2/models/m/infer", json_body({"x": X}))
            assert [output["name"] for output in answer.json()["outputs"]] == ["sure"]
            answer = post(server.http_url, "/v1/models/m:predict", v1)
            assert answer.json() == {"predictions": [{"sure": [2.0]}, {"sure": [4.0]}]}
            request = service_pb2.ModelInferRequest(model_name="m", raw_input_contents=[X.tobytes()])
            request.inputs.add(name="x", datatype="FP32", shape=[2, 1])
            with grpc.insecure_channel(server.grpc_url) as channel:
                message = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(request, timeout=20)
            assert [output.name for output in message.outputs] == ["sure"]
            assert list(message.raw_output_contents) == [(X * 2).tobytes()]


def test_a_kept_answer_lacks_it_too() -> None:
    with Client(served(without, cache=Cache())) as client:
        for _ in range(2):
            assert list(client.infer("m", {"x": X})) == ["sure"]


def test_a_request_in_parts_has_it_in_all_or_in_none() -> None:
    parts = Batching(1, oversize="split")
    with Client(served(without, batching=parts)) as client:
        assert client.infer("m", {"x": X})["sure"].tolist() == [[2.0], [4.0]]
    some = served(lambda x: (x if x[0, 0] > 1 else None, x), batching=parts)
    text = "an output was left out for some rows of a split request"
    with Client(some) as client, pytest.raises(HandlerError, match=text):
        client.infer("m", {"x": X})


def test_others_may_not_be_left_out() -> None:
    text = "returned no output 'sure', declared 'maybe', 'sure'"
    with Client(served(lambda x: {"maybe": x})) as client, pytest.raises(HandlerError, match=text):
        client.infer("m", {"x": X})


def test_no_step_of_a_pipeline_hands_on_what_may_be_missing() -> None:
    pipeline = Pipeline("p", [Step("m")], inputs=["x"], outputs=["sure"])
    with pytest.raises(SignatureError, match="output 'maybe' of step 'm' is optional, and may be missing"):
        Server(served(without), pipeline, http="127.0.0.1:0", grpc=None)
