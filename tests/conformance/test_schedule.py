"""Sequences, priorities and queue timeouts (cases F20 and F21, traps T29 and T69)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import grpc
import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient

from http_by_hand import metric
from models.protocol import Gate, impatient, slow
from penstock import Server, ServerConfig
from penstock.testing import Client
from waiting import at_once, until

from .content import Call, InferResponse, one, tensor
from .protocols import AnyProtocol, GrpcProtocol, HttpProtocol, on_all, on_grpc, refused, served
from .transports import InProcess, Rest, Transport

IDS = itertools.count(1000)


@pytest.fixture
def number() -> Iterator[int]:
    """Unique sequence ids."""
    return IDS


def step(identifier: int | str, value: float, *, start: bool = False, end: bool = False, rows: int = 1) -> Call:
    marks = {"sequence_id": identifier, "sequence_start": start, "sequence_end": end}
    return Call("stateful", (tensor("x", "FP32", [value] * rows, [rows, 1]),), parameters=marks)


def total(response: InferResponse) -> tuple[float, int]:
    assert response.status == 200, f"{response.status}: {response.message}"
    return response.output("total").values()[0], response.output("steps").values()[0]


@on_all
@pytest.mark.parametrize("kind", [int, str])
def test_f20_sequence_keeps_its_state(
    protocol: AnyProtocol, kind: type[int] | type[str], number: Iterator[int]
) -> None:
    first, other = kind(next(number)), kind(next(number))
    assert total(protocol.infer(step(first, 1.0, start=True))) == (1.0, 1)
    assert total(protocol.infer(step(other, 10.0, start=True))) == (10.0, 1)
    assert total(protocol.infer(step(first, 2.0))) == (3.0, 2)
    assert total(protocol.infer(step(other, 20.0, end=True))) == (30.0, 2)
    assert total(protocol.infer(step(first, 4.0, end=True))) == (7.0, 3)
    unknown = f"'{first}'" if kind is str else str(first)
    refused(protocol.infer(step(first, 1.0)), 400, f"sequence {unknown} must begin with sequence_start", "'stateful'")


@on_all
def test_f20_sequence_start_resets_the_state(protocol: AnyProtocol, number: Iterator[int]) -> None:
    identifier = next(number)
    assert total(protocol.infer(step(identifier, 5.0, start=True))) == (5.0, 1)
    assert total(protocol.infer(step(identifier, 1.0, start=True))) == (1.0, 1)
    assert total(protocol.infer(step(identifier, 1.0, end=True))) == (2.0, 2)
    assert total(protocol.infer(step(identifier, 3.0, start=True, end=True))) == (3.0, 1)


@on_all
def test_f20_invalid_sequence_requests(protocol: AnyProtocol, number: Iterator[int]) -> None:
    refused(protocol.infer(step(next(number), 1.0)), 400, "must begin with sequence_start")
    refused(protocol.infer(step(next(number), 1.0, end=True)), 400, "must begin with sequence_start")
    for none in (0, ""):
        refused(protocol.infer(step(none, 1.0, start=True)), 400, "'stateful'", "'sequence_id'")
    refused(protocol.infer(Call("stateful", (tensor("x", "FP32", [1.0], [1, 1]),))), 400, "'stateful'", "'sequence_id'")
    refused(protocol.infer(step("x" * 129, 1.0, start=True)), 400, "'sequence_id'", "129", "128")
    refused(protocol.infer(step(7, 1.0, start=True, rows=2)), 400, "sequence 7", "2 rows", "one row")


@on_all
def test_f20_model_without_sequences_ignores_sequence_parameters(protocol: AnyProtocol) -> None:
    # Like Triton: the model has no scheduler that reads them.
    call = one("ident_FP32", parameters={"sequence_id": 5, "sequence_end": True})
    served(protocol.infer(call), tensor("y", "FP32", [1.0]))


@on_all
def test_f20_one_sequence_too_many(protocol: AnyProtocol, transport: Transport, number: Iterator[int]) -> None:
    active = [next(number) for _ in range(8)]
    for identifier in active:
        total(protocol.infer(step(identifier, 1.0, start=True)))
    assert sequences(transport) == 8
    refused(protocol.infer(step(next(number), 1.0, start=True)), 429, "'stateful'", "8 sequences")
    for identifier in active:
        total(protocol.infer(step(identifier, 1.0, end=True)))
    assert sequences(transport) == 0


def sequences(transport: Transport) -> float:
    return metric(transport.request("GET", "/metrics").body.decode(), "penstock_sequences", model="stateful")


@pytest.fixture
def transport(protocol: AnyProtocol, rest: Rest, in_process: InProcess) -> Transport:
    return in_process if protocol.name.startswith("in-process") else rest


@pytest.mark.parametrize("kind", [int, str])
def test_f20_sequences_of_real_clients(server: Server, kind: type[int] | type[str], number: Iterator[int]) -> None:
    for module, url in ((httpclient, server.http_url.removeprefix("http://")), (grpcclient, server.grpc_url)):
        client, identifier = module.InferenceServerClient(url), kind(next(number))
        totals = []
        for index in range(4):
            tensor_in = module.InferInput("x", [1, 1], "FP32")
            tensor_in.set_data_from_numpy(np.full((1, 1), 2.0**index, np.float32))
            marks = {"sequence_id": identifier, "sequence_start": index == 0, "sequence_end": index == 3}
            totals.append(float(client.infer("stateful", [tensor_in], **marks).as_numpy("total")[0, 0]))
        assert totals == [1.0, 3.0, 7.0, 15.0]
        client.close()


def waiting(transport: Transport, model: str) -> float:
    return metric(transport.request("GET", "/metrics").body.decode(), "penstock_queue_depth", model=model)


@on_all
def test_f21_priorities_are_served_in_order(protocol: AnyProtocol, gate: Gate, transport: Transport) -> None:
    futures = at_once([lambda: protocol.infer(one("ranked", 0.0))])
    gate.await_entered()
    # 0 and values beyond the levels mean the default: here the second level.
    for count, (priority, value) in enumerate([(3, 6.0), (0, 3.0), (2, 4.0), (9, 5.0), (1, 1.0), (1, 2.0)], start=1):
        call = one("ranked", value, parameters={"priority": priority})
        futures += at_once([lambda call=call: protocol.infer(call)])
        until(lambda count=count: waiting(transport, "ranked") == count, "the request in the queue")
    gate.opened.set()
    for future in futures:
        assert future.result(timeout=20).status == 200
    assert gate.seen == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]


@pytest.mark.trap("T29")
@on_grpc
@pytest.mark.parametrize("field", ["uint64_param", "int64_param"])
def test_d16_t29_priority_of_both_integer_kinds(protocol: GrpcProtocol, gate: Gate, rest: Rest, field: str) -> None:
    futures = at_once([lambda: protocol.infer(one("ranked", 0.0))])
    gate.await_entered()
    for count, (priority, value) in enumerate([(3, 2.0), (1, 1.0)], start=1):
        message = protocol.message(one("ranked", value))
        setattr(message.parameters["priority"], field, priority)
        futures += at_once([lambda message=message: protocol.send(message)])
        until(lambda count=count: waiting(rest, "ranked") == count, "the request in the queue")
    gate.opened.set()
    for future in futures:
        assert future.result(timeout=20).status == 200
    assert gate.seen == [0.0, 1.0, 2.0]


@pytest.mark.trap("T69")
@on_all
def test_b66_t69_queue_timeout_of_the_model(protocol: AnyProtocol, gate: Gate) -> None:
    (running,) = at_once([lambda: protocol.infer(one("impatient", 1.0))])
    gate.await_entered()
    refused(protocol.infer(one("impatient", 2.0)), 504, "'impatient'", "300ms")
    # The client's timeout covers arrival to response and applies too: a longer one does not extend the limit.
    refused(protocol.infer(one("impatient", 3.0, parameters={"timeout": 20_000_000})), 504, "'impatient'", "300ms")
    gate.opened.set()
    served(running.result(timeout=20), tensor("y", "FP32", [1.0]))
    assert gate.seen == [1.0], "computation beyond the queue timeout is not cut off"


def test_b66_timeouts_as_503(gate: Gate) -> None:
    with Client(slow, impatient, dialect="triton") as client:
        protocol = HttpProtocol("http", InProcess(client), binary=False)
        refused(protocol.infer(one("slow", parameters={"timeout": 1000})), 503, "'slow'", "deadline")
        gate.opened.set()


def test_b66_timeouts_as_unavailable(gate: Gate) -> None:
    config = ServerConfig(http=None, grpc="127.0.0.1:0", dialect="triton")
    with Server(slow, config=config) as server:
        protocol = GrpcProtocol("grpc", server.grpc_url, typed=False)
        with pytest.raises(grpc.RpcError) as refusal:
            protocol.stub.ModelInfer(protocol.message(one("slow", parameters={"timeout": 1000})), timeout=20)
        assert refusal.value.code() == grpc.StatusCode.UNAVAILABLE
        protocol.channel.close()
        gate.opened.set()
