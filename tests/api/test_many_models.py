"""Several models, and several versions of one, in one server."""

from __future__ import annotations

from typing import Any

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

from http_by_hand import get, infer
from penstock import NotFound, Server, StartupError, Tensor, model
from penstock.testing import Client
from waiting import Gate, at_once


@model(inputs=[Tensor("x", np.float32, [2])], outputs=[Tensor("y", np.float32, [2])], version=2)
def scale(x: Any) -> Any:
    return x * 2


TENTH = scale.with_options(version=10)
TENTH_TIMES = model(lambda x: x * 10, name="scale", version=10, inputs=scale.inputs, outputs=scale.outputs)
NEGATE = model(lambda x: -x, name="negate", inputs=scale.inputs, outputs=scale.outputs)
X = np.ones(2, np.float32)


def first_element(response: Any) -> float:
    return float(response["y"][0])


def test_models_and_versions_are_addressed_by_name() -> None:
    with Client(scale, TENTH_TIMES, NEGATE) as client:
        assert first_element(client.infer("negate", {"x": X})) == -1
        assert first_element(client.infer("scale", {"x": X}, version="2")) == 2
        assert first_element(client.infer("scale", {"x": X}, version="10")) == 10
        # Versions are compared as numbers, not as text.
        assert first_element(client.infer("scale", {"x": X})) == 10
        assert client.get("/v2/models/scale").json()["versions"] == ["2", "10"]
        assert client.get("/v2/models/scale/versions/2").json()["versions"] == ["2"]


def test_version_order_of_registration_does_not_matter() -> None:
    with Client(TENTH_TIMES, scale) as client:
        assert first_element(client.infer("scale", {"x": X})) == 10


@pytest.mark.parametrize(("name", "version"), [("other", None), ("scale", "3"), ("negate", "2"), ("scale", "02")])
def test_unknown_models_and_versions_are_not_found(name: str, version: str | None) -> None:
    with Client(scale, TENTH_TIMES, NEGATE) as client, pytest.raises(NotFound) as raised:
        client.infer(name, {"x": X}, version=version)
    assert name in str(raised.value)
    assert version is None or version in str(raised.value)


def test_versions_are_addressed_over_grpc() -> None:
    with (
        Server(scale, TENTH_TIMES, NEGATE, http=None, grpc="127.0.0.1:0") as server,
        grpc.insecure_channel(server.grpc_url) as channel,
    ):
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)

        def infer_over_grpc(name: str, version: str) -> tuple[str, float]:
            request = service_pb2.ModelInferRequest(
                model_name=name, model_version=version, raw_input_contents=[X.tobytes()]
            )
            request.inputs.add(name="x", datatype="FP32", shape=[2])
            response = stub.ModelInfer(request)
            return response.model_version, float(np.frombuffer(response.raw_output_contents[0], np.float32)[0])

        assert [infer_over_grpc("scale", "2"), infer_over_grpc("scale", ""), infer_over_grpc("negate", "1")] == [
            ("2", 2),
            ("10", 10),
            ("1", -1),
        ]
        with pytest.raises(grpc.RpcError) as raised:
            infer_over_grpc("scale", "9")
        assert raised.value.code() is grpc.StatusCode.NOT_FOUND


def test_full_queue_of_one_model_does_not_block_another() -> None:
    gate = Gate()

    def wait(x: Any) -> Any:
        gate.enter()
        return x

    slow = model(wait, name="slow", inputs=scale.inputs, outputs=scale.outputs, max_queue=1)
    with Server(slow, NEGATE, http="127.0.0.1:0", grpc=None) as server:
        url = server.http_url
        (held,) = at_once([lambda: infer(url, "slow", {"x": X})])
        gate.await_entered()
        assert [infer(url, "negate", {"x": X}).status for _ in range(20)] == [200] * 20
        assert get(url, "/v2/models/slow/ready").status == 200
        gate.open()
        assert held.result().status == 200


def test_duplicate_name_and_version_is_rejected() -> None:
    with pytest.raises(StartupError, match=r"model 'scale' version '10' is given twice; give one of them another name"):
        Server(TENTH, TENTH_TIMES)


def test_versions_may_have_different_signatures() -> None:
    wide = model(lambda x: x.sum(keepdims=True), name="scale", version=11, inputs=[Tensor("x", np.int64, [3])],
                 outputs=[Tensor("y", np.int64, [1])])  # fmt: skip
    with Client(scale, wide) as client:
        assert first_element(client.infer("scale", {"x": X}, version="2")) == 2
        assert first_element(client.infer("scale", {"x": np.arange(3)}, version="11")) == 3
