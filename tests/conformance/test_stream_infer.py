"""ModelStreamInfer (cases E1 to E10, traps T24, T31 and T32)."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import grpc
import pytest
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc

from models.streams import TAP
from penstock import Server

EMPTY_FINAL = "triton_enable_empty_final_response"


@pytest.fixture(scope="module")
def stub(streams: Server) -> Iterator[Any]:
    with grpc.insecure_channel(streams.grpc_url.split("://")[-1]) as channel:
        yield service_pb2_grpc.GRPCInferenceServiceStub(channel)


def request(model: str, value: int, name: str = "", *, empty_final: bool | None = None) -> Any:
    message = pb.ModelInferRequest(model_name=model, id=name)
    tensor = message.inputs.add(name="n", datatype="INT32", shape=[1])
    tensor.contents.int_contents.append(value)
    if model in ("rows", "together"):
        tensor.shape[:] = [1, 1]
    if empty_final is not None:
        message.parameters[EMPTY_FINAL].bool_param = empty_final
    return message


def scale(values: list[float], name: str) -> Any:
    message = pb.ModelInferRequest(model_name="scale", id=name)
    tensor = message.inputs.add(name="x", datatype="FP32", shape=[1, len(values)])
    tensor.contents.fp32_contents.extend(values)
    return message


def summaries(messages: Iterable[Any]) -> list[tuple[str, list[int] | str, bool]]:
    """Request id, values or error, and final flag of each response."""
    got = []
    for message in messages:
        response = message.infer_response
        final = response.parameters["triton_final_response"]
        assert final.WhichOneof("parameter_choice") == "bool_param"
        assert len(response.raw_output_contents) == len(response.outputs)
        values = [int.from_bytes(raw[:4], "little", signed=True) for raw in response.raw_output_contents]
        got.append((response.id, message.error_message or values, final.bool_param))
    return got


@pytest.mark.trap("T31")
def test_e1_responses_are_ordered_and_final_t31(stub: Any) -> None:
    responses = list(stub.ModelStreamInfer(iter(scale([float(i)], str(i)) for i in range(50)), timeout=20))
    assert [(a.infer_response.id, a.error_message) for a in responses] == [(str(i), "") for i in range(50)]
    assert all(a.infer_response.parameters["triton_final_response"].bool_param for a in responses)
    assert all((a.infer_response.model_name, a.infer_response.model_version) == ("scale", "1") for a in responses)


def test_e2_stream_of_three(stub: Any) -> None:
    plain = summaries(stub.ModelStreamInfer(iter([request("stream3", 5, "a")]), timeout=20))
    assert plain == [("a", [5], False), ("a", [6], False), ("a", [7], False)]
    with_end = summaries(stub.ModelStreamInfer(iter([request("stream3", 5, "a", empty_final=True)]), timeout=20))
    assert with_end == [*plain, ("a", [], True)]
    marked = summaries(stub.ModelStreamInfer(iter([request("stream1", 5, "a", empty_final=True)]), timeout=20))
    assert marked == [("a", [5], True)]


def test_e3_stream_of_none(stub: Any) -> None:
    assert list(stub.ModelStreamInfer(iter([request("stream0", 1, "a", empty_final=False)]), timeout=20)) == []
    (end,) = stub.ModelStreamInfer(iter([request("stream0", 1, "a", empty_final=True)]), timeout=20)
    response = end.infer_response
    assert (end.error_message, response.id, response.model_name, response.model_version) == ("", "a", "stream0", "1")
    assert not response.outputs
    assert response.parameters["triton_final_response"].bool_param


@pytest.mark.trap("T32")
def test_e4_error_does_not_end_the_stream_t32(stub: Any) -> None:
    sent: queue.Queue[Any] = queue.Queue()
    responses = stub.ModelStreamInfer(iter(sent.get, None), timeout=20)
    sent.put(request("stream_err", 1, "a"))
    first = summaries([next(responses) for _ in range(3)])
    assert first == [("a", [1], False), ("a", [2], False), ("a", "the third chunk is missing", True)]
    sent.put(request("stream1", 9, "b"))
    assert summaries([next(responses)]) == [("b", [9], True)]
    sent.put(None)
    assert list(responses) == []
    assert responses.code() == grpc.StatusCode.OK


def test_e5_invalid_request_is_answered_in_the_stream(stub: Any) -> None:
    bad = request("stream3", 1, "a")
    bad.inputs[0].datatype = "FP32"
    unknown = request("nobody", 1, "b")
    responses = stub.ModelStreamInfer(iter([bad, unknown, request("stream1", 1, "c")]), timeout=20)
    got = {response[0]: response[1:] for response in summaries(responses)}
    assert got["a"] == ("input 'n' has datatype FP32, model 'stream3' expects INT32", True)
    assert got["b"] == ("unknown model 'nobody'", True)
    assert got["c"] == ([1], True)
    assert responses.code() == grpc.StatusCode.OK


@pytest.mark.trap("T32")
def test_e6_strict_stream_ends_with_the_status(stub: Any) -> None:
    bad = request("stream3", 1, "a")
    bad.inputs[0].datatype = "FP32"
    metadata = [("triton_grpc_error", "true")]
    responses = stub.ModelStreamInfer(iter([bad]), timeout=20, metadata=metadata)
    with pytest.raises(grpc.RpcError) as raised:
        list(responses)
    assert raised.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert raised.value.details() == "input 'n' has datatype FP32, model 'stream3' expects INT32"
    TAP.reset()
    sent: queue.Queue[Any] = queue.Queue()
    responses = stub.ModelStreamInfer(iter(sent.get, None), timeout=20, metadata=metadata)
    sent.put(request("endless", 1, "x"))
    next(responses)
    sent.put(request("nobody", 1, "y"))
    with pytest.raises(grpc.RpcError) as raised:
        list(responses)
    sent.put(None)
    assert raised.value.code() == grpc.StatusCode.NOT_FOUND
    assert TAP.closed.wait(20), "requests in flight continue"


def test_e7_half_closed_stream_gets_all_responses(stub: Any) -> None:
    TAP.reset()
    responses = stub.ModelStreamInfer(iter([request("stepped", 3, "a", empty_final=True)]), timeout=20)
    got = []
    for _ in range(3):
        TAP.go_on.release()
        got.append(next(responses))
    got.extend(responses)
    assert summaries(got) == [("a", [0], False), ("a", [1], False), ("a", [2], False), ("a", [], True)]
    assert responses.code() == grpc.StatusCode.OK


def test_e8_cancelled_call_cancels_its_handlers(stub: Any) -> None:
    TAP.reset()
    responses = stub.ModelStreamInfer(iter([request("endless", 1, "a")]), timeout=20)
    next(responses)
    responses.cancel()
    assert TAP.closed.wait(20)
    assert TAP.cancelled.is_set()


def test_e9_models_share_a_stream_with_distinct_request_ids(stub: Any) -> None:
    messages = [request("stream3", 1, "s"), scale([2.0], "f"), request("stream3", 10, "t"), scale([3.0], "g")]
    responses = list(stub.ModelStreamInfer(iter(messages), timeout=20))
    by_id: dict[str, list[Any]] = {}
    for response in responses:
        by_id.setdefault(response.infer_response.id, []).append(response)
    assert [values for _, values, _ in summaries(by_id["s"])] == [[1], [2], [3]]
    assert [values for _, values, _ in summaries(by_id["t"])] == [[10], [11], [12]]
    once = [response.infer_response.id for response in responses if response.infer_response.model_name == "scale"]
    assert once == ["f", "g"]


def test_e10_streaming_model_refuses_unary_infer(stub: Any) -> None:
    with pytest.raises(grpc.RpcError) as raised:
        stub.ModelInfer(request("stream3", 1), timeout=20)
    assert raised.value.code() == grpc.StatusCode.UNIMPLEMENTED
    assert raised.value.details() == (
        "model 'stream3' streams its answers: call generate_stream or infer_stream, or ModelStreamInfer over gRPC"
    )


@pytest.mark.trap("T24")
def test_stream_responses_are_triton_messages_t24(stub: Any) -> None:
    # Field 1 of the message is the error text, not the model's name.
    (response,) = stub.ModelStreamInfer(iter([request("stream1", 1, "a")]), timeout=20)
    assert response.error_message == ""
    assert response.infer_response.model_name == "stream1"


def test_stream_call_has_a_deadline(stub: Any) -> None:
    TAP.reset()
    responses = stub.ModelStreamInfer(iter([request("endless", 1, "a")]), timeout=0.3)
    with pytest.raises(grpc.RpcError) as raised:
        list(responses)
    assert raised.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    assert TAP.closed.wait(20)


def test_unread_grpc_stream_pauses_the_generator(stub: Any) -> None:
    TAP.reset()
    responses = stub.ModelStreamInfer(iter([request("endless", 0, "a")]), timeout=60)
    next(responses)
    before = -1
    for _ in range(400):
        if TAP.yielded == before:
            break
        before = TAP.yielded
        threading.Event().wait(0.05)
    paused_at = TAP.yielded
    threading.Event().wait(0.2)
    assert TAP.yielded == paused_at < 5_000_000
    for _ in range(paused_at + 1):
        next(responses)
    assert TAP.yielded > paused_at
    responses.cancel()
    assert TAP.closed.wait(20)
