"""Optional outputs: omitted outputs are absent from the response on every transport."""

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


def optional_output_model(handler: Any, **options: Any) -> Model[..., Any]:
    """A model with the optional output `maybe` and the required output `sure`."""
    outputs = [Tensor("maybe", np.float32, [1], optional=True), Tensor("sure", np.float32, [1])]
    return model(
        handler,
        name="m",
        inputs=[Tensor("x", np.float32, [1])],
        outputs=outputs,
        **{"batching": Batching(8), **options},
    )


def omit_optional(x: Any) -> dict[str, Any]:
    return {"sure": x * 2}


OMISSIONS: dict[str, Any] = {
    "a dict": omit_optional,
    "None in a dict": lambda x: {"maybe": None, "sure": x * 2},
    "None in a tuple": lambda x: (None, x * 2),
    "answers": lambda x: Answers([{"sure": x * 2}]),
}


@pytest.mark.parametrize("omission", OMISSIONS)
def test_omitted_output_is_absent_from_the_response(omission: str) -> None:
    with Client(optional_output_model(OMISSIONS[omission])) as client:
        for binary in (False, True):
            outputs = client.infer("m", {"x": X}, binary=binary)
            assert {name: array.tolist() for name, array in outputs.items()} == {"sure": [[2.0], [4.0]]}
        assert client.infer("m", {"x": X}, outputs=["maybe"]) == {}


def test_returned_optional_output_is_sent() -> None:
    with Client(optional_output_model(lambda x: (x, x * 2))) as client:
        assert sorted(client.infer("m", {"x": X})) == ["maybe", "sure"]


def test_batched_requests_may_omit_outputs_separately() -> None:
    def handle(x: Any, ctx: Context) -> Any:
        first, answers = 0, []
        for request in ctx.requests:
            rows = x[first : first + request.rows]
            first += request.rows
            answers.append({"sure": rows} if rows[0, 0] % 2 else {"sure": rows, "maybe": rows * 3})
        return Answers(answers)

    with Client(optional_output_model(handle, batching=Batching(8, max_delay=0.05))) as client:
        calls = [lambda n=n: client.infer("m", {"x": np.full((1, 1), n, np.float32)}) for n in range(8)]
        for number, call in enumerate(at_once(calls)):
            values = {name: array.item() for name, array in call.result().items()}
            assert values == ({"sure": number} if number % 2 else {"sure": number, "maybe": number * 3})


def test_omitted_output_is_absent_on_the_wire_and_from_processes() -> None:
    v1 = json.dumps({"instances": [[1.0], [2.0]]}).encode()
    for instances in (1, Processes(1)):
        with Server(
            optional_output_model(omit_optional, instances=instances), http="127.0.0.1:0", grpc="127.0.0.1:0"
        ) as server:
            response = post(server.http_url, "/v2/models/m/infer", json_body({"x": X}))
            assert [output["name"] for output in response.json()["outputs"]] == ["sure"]
            response = post(server.http_url, "/v1/models/m:predict", v1)
            assert response.json() == {"predictions": [{"sure": [2.0]}, {"sure": [4.0]}]}
            request = service_pb2.ModelInferRequest(model_name="m", raw_input_contents=[X.tobytes()])
            request.inputs.add(name="x", datatype="FP32", shape=[2, 1])
            with grpc.insecure_channel(server.grpc_url) as channel:
                message = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(request, timeout=20)
            assert [output.name for output in message.outputs] == ["sure"]
            assert list(message.raw_output_contents) == [(X * 2).tobytes()]


def test_cached_response_lacks_the_omitted_output() -> None:
    with Client(optional_output_model(omit_optional, cache=Cache())) as client:
        for _ in range(2):
            assert list(client.infer("m", {"x": X})) == ["sure"]


def test_split_request_must_omit_an_output_in_all_parts() -> None:
    splitting = Batching(1, oversize="split")
    with Client(optional_output_model(omit_optional, batching=splitting)) as client:
        assert client.infer("m", {"x": X})["sure"].tolist() == [[2.0], [4.0]]
    sometimes = optional_output_model(lambda x: (x if x[0, 0] > 1 else None, x), batching=splitting)
    text = "an output was left out for some rows of a split request"
    with Client(sometimes) as client, pytest.raises(HandlerError, match=text):
        client.infer("m", {"x": X})


def test_required_output_may_not_be_omitted() -> None:
    text = "returned no output 'sure', declared 'maybe', 'sure'"
    with Client(optional_output_model(lambda x: {"maybe": x})) as client, pytest.raises(HandlerError, match=text):
        client.infer("m", {"x": X})


def test_pipeline_step_must_not_pass_on_an_optional_output() -> None:
    pipeline = Pipeline("p", [Step("m")], inputs=["x"], outputs=["sure"])
    with pytest.raises(SignatureError, match="output 'maybe' of step 'm' is optional, and may be missing"):
        Server(optional_output_model(omit_optional), pipeline, http="127.0.0.1:0", grpc=None)
