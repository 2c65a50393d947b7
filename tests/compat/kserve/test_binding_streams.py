"""Streaming models over V1, V2 and gRPC."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import AsyncIterator
from typing import Any

import grpc
import numpy as np
import pytest
import requests
from kserve_serving import ROW, message_of, serving
from tritonclient.grpc import service_pb2_grpc

from penstock.compat.kserve._model import handler_kind
from penstock.compat.kserve.model import Model
from penstock.compat.kserve.protocol.infer_type import InferOutput, InferResponse
from waiting import PATIENCE, until


class Words(Model):
    """Streams words, and waits after each while `proceed` is not set."""

    def __init__(self) -> None:
        super().__init__("m")
        self.closed = threading.Event()
        self.proceed = threading.Event()
        self.proceed.set()
        self.load()

    async def predict(self, payload: Any, headers: Any = None) -> AsyncIterator[str]:
        async def words() -> AsyncIterator[str]:
            try:
                for word in ("one ", "zwei ", "trois"):
                    yield word
                    while not self.proceed.is_set():
                        await asyncio.sleep(0.005)
            finally:
                self.closed.set()

        return words()


class Generator(Model):
    """A model whose `predict` is an async generator."""

    async def predict(self, payload: Any, headers: Any = None) -> Any:  # type: ignore[override]
        for word in (b"one ", "zwei ", {"n": 3}):
            yield word


class UndetectedStream(Model):
    """A model whose stream cannot be detected from its code."""

    def predict(self, payload: Any, headers: Any = None) -> Any:
        return _chunks()


class UndetectedAsyncStream(Model):
    async def predict(self, payload: Any, headers: Any = None) -> Any:
        return _chunks()


async def _chunks() -> Any:
    for chunk in ("one ", "zwei"):
        yield chunk


class Tensors(Model):
    async def predict(self, payload: Any, headers: Any = None) -> Any:
        async def steps() -> Any:
            for step in (1, 2):
                output = InferOutput("y", [1], "INT64", [step])
                yield InferResponse(payload.id, "m", [output])

        return steps()


def ready(model: Any) -> Any:
    model.load()
    return model


def test_streaming_models_are_detected() -> None:
    assert [handler_kind.is_streaming(model) for model in (Words(), Generator("m"), Tensors("m"))] == [True] * 3
    assert not handler_kind.is_streaming(Model("m"))
    assert not handler_kind.is_streaming(UndetectedAsyncStream("m"))


def test_s16_v1_streams_chunks() -> None:
    model = Words()
    model.proceed.clear()
    with serving(model) as served:
        response = requests.post(
            f"{served.http}/v1/models/m:predict", json={"instances": []}, stream=True, timeout=PATIENCE
        )
        chunks = response.iter_content(None)
        assert next(chunks) == b"one "
        model.proceed.set()
        rest = b"".join(chunks)
    assert (response.status_code, rest) == (200, b"zwei trois")


def test_s16_predict_may_be_a_generator_of_mixed_chunks() -> None:
    with serving(ready(Generator("m"))) as served:
        assert served.predict({"instances": []}).content == b'one zwei {"n":3}\n'


@pytest.mark.parametrize("kind", [UndetectedStream, UndetectedAsyncStream])
def test_s16_undetected_streams_are_joined(kind: type[Model]) -> None:
    with serving(ready(kind("m"))) as served:
        assert served.predict({"instances": []}).content == b"one zwei"


def test_s16_client_disconnect_closes_the_generator() -> None:
    model = Words()
    model.proceed.clear()
    with serving(model) as served:
        response = requests.post(
            f"{served.http}/v1/models/m:predict", json={"instances": []}, stream=True, timeout=PATIENCE
        )
        assert next(response.iter_content(None)) == b"one "
        response.close()
        until(model.closed.is_set)


def test_s16_streaming_models_may_return_plain_results() -> None:
    class Either(Words):
        async def predict(self, payload: Any, headers: Any = None) -> Any:
            return await super().predict(payload) if payload["instances"] else {"predictions": []}

    with serving(Either()) as served:
        plain, chunks = served.predict({"instances": []}), served.predict({"instances": [1]})
    assert (plain.json(), plain.headers["content-type"]) == ({"predictions": []}, "application/json")
    assert chunks.text == "one zwei trois"


def test_s16_exception_before_the_first_chunk_is_the_response() -> None:
    class Fails(Model):
        async def predict(self, payload: Any, headers: Any = None) -> Any:  # type: ignore[override]
            if payload["instances"] == []:
                raise ValueError("nothing to do")
            yield "never"

    with serving(ready(Fails("m"))) as served:
        response = served.predict({"instances": []})
    assert (response.status_code, response.json()) == (500, {"error": "ValueError : nothing to do"})


def test_s16_grpc_streams_tensors() -> None:
    with serving(ready(Tensors("m"))) as served, grpc.insecure_channel(served.grpc) as channel:
        messages: queue.Queue[Any] = queue.Queue()
        messages.put(message_of(x=ROW))
        messages.put(None)
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        responses = list(stub.ModelStreamInfer(iter(messages.get, None), timeout=PATIENCE))
    values = [
        np.frombuffer(one.infer_response.raw_output_contents[0], np.int64).tolist()
        for one in responses
        if one.infer_response.raw_output_contents
    ]
    assert [one.error_message for one in responses if one.error_message] == []
    assert values == [[1], [2]]


def test_s16_v2_streams_tensors_as_events() -> None:
    with serving(ready(Tensors("m"))) as served:
        body = {"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": [1]}]}
        response = served.post("/v2/models/m/infer_stream", body)
        refused = served.infer(body)
    assert response.text.count("data:") >= 2
    assert '"data":[1]' in response.text
    assert '"data":[2]' in response.text
    assert refused.status_code == 500


def test_s16_text_over_v2_is_a_tensor() -> None:
    with serving(Words()) as served:
        response = served.post(
            "/v2/models/m/infer_stream",
            {"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": [1]}]},
        )
    assert '"data":["zwei "]' in response.text
