"""R6, D17: `InferenceGRPCClient` and the synchronous `InferenceServerClient` of 0.13."""

from __future__ import annotations

import asyncio
import contextlib
import pickle
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import numpy as np
import pytest

from penstock import Server, Tensor, model
from penstock.compat.kserve.errors import InvalidInput
from penstock.compat.kserve.inference_client import (
    InferenceGRPCClient,
    InferenceServerClient,
    RpcError,
)
from penstock.compat.kserve.protocol.infer_type import InferInput, InferRequest, InferResponse

READY = b"\x08\x01"
Responder = Callable[[int, bytes, grpc.ServicerContext], bytes]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    tensors: Any = {"inputs": [Tensor("x", np.float32, [-1])], "outputs": [Tensor("y", np.float32, [-1])]}
    double = model(name="double", **tensors)(lambda x: x * 2)
    with Server(double, http=None, grpc="127.0.0.1:0") as server:
        yield server.grpc_address


class Counting(grpc.GenericRpcHandler):
    """Handles every call by a function of its number, message and context."""

    def __init__(self, respond: Responder) -> None:
        self.respond = respond
        self.calls = 0
        self.metadata: list[dict[str, Any]] = []
        self._lock = threading.Lock()

    def service(self, details: Any) -> Any:
        return grpc.unary_unary_rpc_method_handler(self._respond)

    def _respond(self, message: bytes, context: grpc.ServicerContext) -> bytes:
        with self._lock:
            number = self.calls
            self.calls += 1
            self.metadata.append(dict(context.invocation_metadata()))
        return self.respond(number, message, context)


@contextlib.contextmanager
def counting(respond: Responder) -> Iterator[tuple[str, Counting]]:
    handler = Counting(respond)
    server = grpc.server(ThreadPoolExecutor(2), handlers=[handler])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}", handler
    server.stop(None).wait()


def request(binary: bool = True, rows: int = 1) -> InferRequest:
    x = InferInput("x", [rows], "FP32", parameters={"own": 1})
    x.set_data_from_numpy(np.ones(rows, np.float32), binary_data=binary)
    return InferRequest("double", [x], request_id="7", parameters={"a": "b", "n": 3, "t": True})


def call(url: str, method: str, *arguments: Any, of: dict[str, Any] | None = None, **options: Any) -> Any:
    async def run() -> Any:
        async with InferenceGRPCClient(url, **(of or {})) as client:
            return await getattr(client, method)(*arguments, **options)

    return asyncio.run(run())


@pytest.mark.parametrize("binary", [False, True])
def test_r6_grpc_infer(url: str, binary: bool) -> None:
    response = call(url, "infer", request(binary))
    assert isinstance(response, InferResponse)
    assert (response.id, response.model_name) == ("7", "double")
    assert response.outputs[0].as_numpy().tolist() == [2]


def test_r6_grpc_health(url: str) -> None:
    assert call(url, "is_server_live") is True
    assert call(url, "is_server_ready") is True
    assert call(url, "is_model_ready", "double") is True


def test_r6_grpc_concurrent_requests(url: str) -> None:
    async def main() -> list[Any]:
        async with InferenceGRPCClient(url) as client:
            return await asyncio.gather(*(client.infer(request(rows=n)) for n in range(1, 30)))

    assert [len(response.outputs[0].as_numpy()) for response in asyncio.run(main())] == list(range(1, 30))


def test_r6_grpc_accepts_only_infer_requests(url: str) -> None:
    with pytest.raises(InvalidInput, match="Invalid input format"):
        call(url, "infer", {"inputs": []})


def test_r6_grpc_errors_have_code_details_and_log_line(url: str, caplog: pytest.LogCaptureFixture) -> None:
    unknown_model = request()
    unknown_model.model_name = "unknown"
    with pytest.raises(RpcError, match="unknown") as caught:
        call(url, "infer", unknown_model)
    error = caught.value
    assert isinstance(error, grpc.aio.AioRpcError)
    assert error.code() is grpc.StatusCode.NOT_FOUND
    assert "unknown" in error.details()
    assert str(error).startswith("StatusCode.NOT_FOUND: ")
    assert pickle.loads(pickle.dumps(error)).code() is grpc.StatusCode.NOT_FOUND
    assert "Failed to infer: StatusCode.NOT_FOUND" in caplog.text


def test_r6_grpc_unreachable_server_is_unavailable() -> None:
    with pytest.raises(grpc.RpcError) as caught:
        call("127.0.0.1:1", "is_server_ready", of={"retries": 0})
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize(("retries", "expected"), [(0, 1), (1, 2), (3, 4)])
def test_r6_grpc_retries_while_the_server_is_unavailable(retries: int, expected: int) -> None:
    def refuse(_: int, __: bytes, context: grpc.ServicerContext) -> bytes:
        context.abort(grpc.StatusCode.UNAVAILABLE, "later")
        return b""

    with counting(refuse) as (address, handler):
        with pytest.raises(grpc.RpcError, match="later"):
            call(address, "infer", request(), of={"retries": retries})
        assert handler.calls == expected


def test_r6_grpc_other_errors_are_not_retried() -> None:
    def refuse(_: int, __: bytes, context: grpc.ServicerContext) -> bytes:
        context.abort(grpc.StatusCode.INTERNAL, "no")
        return b""

    with counting(refuse) as (address, handler):
        with pytest.raises(grpc.RpcError) as caught:
            call(address, "infer", request())
        assert (caught.value.code(), handler.calls) == (grpc.StatusCode.INTERNAL, 1)


def test_r6_grpc_metadata_accepts_all_forms() -> None:
    forms = [{"X-A": "1"}, [("x-a", "1")], (("X-a", "1"),), grpc.aio.Metadata(("x-a", "1"))]
    with counting(lambda *_: READY) as (address, handler):
        for headers in forms:
            assert call(address, "is_server_ready", headers=headers)
        call(address, "is_server_ready", headers=[("x-a", "1"), ("x-a", "2"), ("x-b-bin", b"\x00")])
    assert [seen["x-a"] for seen in handler.metadata] == ["1", "1", "1", "1", "1,2"]
    assert handler.metadata[-1]["x-b-bin"] == b"\x00"


def test_r6_grpc_timeouts_are_deadline_exceeded() -> None:
    def wait(_: int, __: bytes, context: grpc.ServicerContext) -> bytes:
        cancelled = threading.Event()
        context.add_callback(cancelled.set)
        cancelled.wait(20)
        return b""

    with counting(wait) as (address, _):
        for of, options in [({"timeout": 0.1}, {}), ({}, {"timeout": 0.1})]:
            with pytest.raises(grpc.RpcError) as caught:
                call(address, "is_server_live", of=of, **options)
            assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED


def test_r6_grpc_timeout_none_sends_no_deadline() -> None:
    remaining: list[float | None] = []

    def record(_: int, __: bytes, context: grpc.ServicerContext) -> bytes:
        remaining.append(context.time_remaining())
        return READY

    with counting(record) as (address, _):
        call(address, "is_server_live", timeout=None)
        call(address, "is_server_live")
    # Without a deadline grpc reports centuries.
    assert (remaining[0] or 0) > 1e9
    assert 0 < (remaining[1] or 0) <= 60


def test_r6_grpc_message_sizes_are_unbounded_by_default(url: str) -> None:
    rows = 3 << 20
    assert len(call(url, "infer", request(rows=rows)).outputs[0].as_numpy()) == rows
    for name in ("grpc.max_send_message_length", "grpc.max_receive_message_length"):
        with pytest.raises(grpc.RpcError) as caught:
            call(url, "infer", request(rows=1000), of={"channel_args": [(name, 1000)], "retries": 0})
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_r6_grpc_grpcio_options_select_grpcio(url: str) -> None:
    for channel_args in ([("grpc.lb_policy_name", "round_robin")], [("grpc.service_config", "{}")]):
        assert call(url, "infer", request(), of={"channel_args": channel_args}).outputs[0].as_numpy().tolist() == [2]
    creds = grpc.local_channel_credentials()
    with pytest.raises(grpc.RpcError):
        call("127.0.0.1:1", "is_server_live", of={"creds": creds, "retries": 0})


def test_r6_grpc_certificates_are_file_paths(tmp_path: Any) -> None:
    with pytest.raises(ValueError, match=r"ca\.pem"):
        InferenceGRPCClient("localhost:1", use_ssl=True, root_certificates=str(tmp_path / "ca.pem"))


def test_r6_synchronous_client_of_0_13(url: str) -> None:
    with InferenceServerClient(url) as client:
        message = client.infer(request(), client_timeout=20, headers={"x-a": "1"})
    assert (message.model_name, message.id) == ("double", "7")
    assert InferResponse.from_grpc(message).outputs[0].as_numpy().tolist() == [2]


def test_r6_synchronous_client_raises_grpc_errors(url: str) -> None:
    unknown_model = request()
    unknown_model.model_name = "unknown"
    client = InferenceServerClient(url, verbose=True)
    with pytest.raises(grpc.RpcError, match="unknown") as caught:
        client.infer(unknown_model)
    assert isinstance(caught.value, grpc.Call)
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    client.close()
    with pytest.raises(RpcError, match="closed"):
        client.infer(request())


def test_r6_grpc_requests_include_parameters() -> None:
    from penstock.compat.kserve.protocol.grpc.grpc_predict_v2_pb2 import ModelInferRequest

    seen: list[InferRequest] = []

    def record(_: int, message: bytes, __: grpc.ServicerContext) -> bytes:
        seen.append(InferRequest.from_grpc(ModelInferRequest.FromString(message)))
        return b"\n\x01m"

    with counting(record) as (address, _):
        assert call(address, "infer", request()).model_name == "m"
    assert seen[0].id == "7"
    assert seen[0].parameters["n"].int64_param == 3
    assert dict(seen[0].inputs[0].parameters)["own"] is not None
