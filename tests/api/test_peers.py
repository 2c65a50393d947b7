"""Models that call models of the same server by `ctx.models`."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock import (
    Batching,
    Context,
    Donated,
    HandlerError,
    InvalidInput,
    Overloaded,
    Processes,
    Queueing,
    Sequences,
    Server,
    SignatureError,
    Tensor,
    _core,
    model,
)
from penstock.testing import Client
from repositories import Repository, RepositoryClient
from waiting import PATIENCE, Gate, at_once, until

X: Any = {"inputs": [Tensor("x", np.float32, [1])], "outputs": [Tensor("y", np.float32, [1])]}
LARGE: Any = {"inputs": [Tensor("x", np.float32, [-1])], "outputs": [Tensor("y", np.float32, [-1])]}
ONE = np.ones(1, np.float32)
BYTES = 1 << 20


def address(array: Any) -> int:
    # `ctypes` keeps a reference until the next garbage collection.
    return int(array.__array_interface__["data"][0])


@model(name="inner", **X)
def inner(x):
    return x * 2


def infer(client: RepositoryClient, name: str, value: float = 1, **parameters: Any) -> tuple[int, Any]:
    tensor = {"name": "x", "datatype": "FP32", "shape": [1], "data": [value]}
    document = {"inputs": [tensor], "parameters": parameters}
    status, response = client("POST", f"/v2/models/{name}/infer", document)
    return status, response["outputs"][0]["data"] if status == 200 else response["error"]


def local_server(*models: Any, **options: Any) -> Server:
    return Server(*models, http="127.0.0.1:0", grpc=None, **options)


def metric(client: Client, line: str) -> bool:
    return line in client.get("/metrics").body.decode()


def outer_of(handler: Callable[..., Any], **options: Any) -> Any:
    """A model `outer` whose handler receives only the context, to call other models."""

    def call(x, ctx: Context):
        handler(ctx)
        return x

    return model(name="outer", **{**X, **options})(call)


def error_in_handler(handler: Callable[[Any], Any], *models: Any, **options: Any) -> BaseException:
    """The exception that a peer call raises inside a handler."""
    results: list[BaseException] = []

    def outer(ctx: Context) -> None:
        try:
            handler(ctx)
        except BaseException as error:
            results.append(error)

    with Client(*models, outer_of(outer, **options)) as client:
        client.infer("outer", {"x": ONE})
    return results[0]


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_peer_calls_share_batches(kind: str) -> None:
    observed: list[int] = []
    gate = Gate()

    @model(name="inner", batching=Batching(max_size=64, hold=False), **X)
    def batched(x):
        observed.append(len(x))
        gate.enter()
        return x * 2

    @model(name="outer", instances=8, **X)
    def sync_outer(x, ctx: Context):
        return ctx.models["inner"](x=x[None])[0] + 1

    @model(name="outer", **X)
    async def async_outer(x, ctx: Context):
        return (await ctx.models["inner"].aio({"x": x[None]}))[0] + 1

    with Client(batched, sync_outer if kind == "plain" else async_outer) as client:
        calls = [lambda i=i: client.infer("outer", {"x": ONE * i})["y"].tolist() for i in range(8)]
        first = at_once(calls[:1])
        gate.await_entered()
        others = at_once(calls[1:])
        until(lambda: metric(client, 'penstock_queue_depth{model="inner",version="1"} 7'))
        gate.open()
        assert [future.result(PATIENCE) for future in first + others] == [[2.0 * i + 1] for i in range(8)]
        # Peer calls are counted like requests of clients.
        assert metric(client, 'penstock_requests_total{model="inner",version="1",protocol="inprocess",outcome="ok"} 8')
        statistics = client.get("/v2/models/inner/stats").json()["model_stats"][0]
        assert (statistics["inference_count"], statistics["execution_count"]) == (8, 2)
    assert observed == [1, 7]


def test_peer_calls_convert_inputs_and_outputs() -> None:
    @model(inputs=[Tensor("a", np.float32, [2]), Tensor("t", str, [-1], optional=True)],
           outputs=[Tensor("n", np.int64, []), Tensor("t", str, [-1]), Tensor("raw", bytes, [1])])  # fmt: skip
    def several(a, t):
        return {"n": int(a.sum()), "t": np.array(["-"] if t is None else t, object), "raw": [b"\xff"]}

    @model(name="half", inputs=[Tensor("x", "BF16", [1])], outputs=[Tensor("y", "BF16", [1])])
    def half(x):
        return x

    results: list[Any] = []

    def outer(ctx: Context) -> None:
        b = ctx.models["several"]
        assert (b.name, b.version, repr(b)) == ("several", None, "<model 'several'>")
        results.extend(
            [b([1, 2]), b(a=np.ones(2, np.float32), t=["ä", "b"]), b({"a": (3, 4)}), ctx.models["several", 1]([0, 0])]
        )
        (y,) = ctx.models["half"](np.array([1.5], np.float32))
        assert y == np.float32(1.5)
        # The result belongs to the calling handler, which may write to it.
        result = ctx.models["inner"](3)
        result += 1
        results.append(result)

    scalar: Any = {"inputs": [Tensor("x", np.float32, [])], "outputs": [Tensor("y", np.float32, [])]}
    with Client(several, half, model(name="inner", **scalar)(lambda x: x * 2), outer_of(outer)) as client:
        client.infer("outer", {"x": ONE})
    assert [result["n"].item() for result in results[:4]] == [3, 2, 7, 0]
    assert [result["t"].tolist() for result in results[:4]] == [["-"], ["ä", "b"], ["-"], ["-"]]
    assert results[0]["raw"].tolist() == [b"\xff"]
    assert results[4] == 7


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda m: m["inner"](np.ones(2, np.float32)), InvalidInput,
         "input 'x' has shape [2], model 'inner' expects [1]"),
        (lambda m: m["inner"](np.ones(1)), InvalidInput, "input 'x' is an array of float64, expected FP32"),
        (lambda m: m["inner"](q=ONE), InvalidInput, "unexpected input 'q' for model 'inner', expected 'x'"),
        (lambda m: m["inner"](), InvalidInput, "input 'x' is missing, model 'inner' expects 'x'"),
        (lambda m: m["inner"](ONE, x=ONE), InvalidInput, "input 'x' is given twice"),
        (lambda m: m["inner"](ONE, ONE), InvalidInput, "model 'inner' takes 1 inputs ('x'), got 2"),
        (lambda m: m["missing"](ONE), LookupError, "unknown model 'missing'"),
        (lambda m: m["inner", "7"](ONE), LookupError, "model 'inner' has no version '7'"),
        (lambda m: m["busy"](ONE), Overloaded, "come back later"),
        (lambda m: m["broken"](ONE), HandlerError, "model 'broken' failed: KeyError"),
        (lambda m: m["chunks"](ONE), NotImplementedError,
         "model 'chunks' streams its answers: write ctx.models['chunks'].stream(...)"),
        (lambda m: m["state"](ONE), NotImplementedError,
         "model 'state' keeps sequences: a client can call it, and no other model"),
        (lambda m: m["outer"](ONE), HandlerError,
         "model 'outer' cannot call 'outer': models that call each other in a circle can wait for one another for "
         "ever ('outer' -> 'outer')"),
        (lambda m: "inner" in m, TypeError, "'Peers'"),
        (lambda m: m[0], TypeError, "cannot unpack"),
        (lambda m: m[0, 1], TypeError, "a model's name is a str, not 0"),
    ],
)  # fmt: skip
def test_invalid_peer_calls_raise_their_own_error_class(call: Callable[[Any], Any], kind: type, text: str) -> None:
    @model(**X)
    def busy(x):
        raise Overloaded("come back later")

    @model(**X)
    def broken(x):
        raise KeyError("secret")

    @model(**X)
    def chunks(x):
        yield x

    @model(sequences=Sequences(), **X)
    def state(x, ctx: Context):
        return x

    error = error_in_handler(lambda ctx: call(ctx.models), inner, busy, broken, chunks, state)
    assert isinstance(error, kind)
    assert text in str(error)


@pytest.mark.parametrize(
    "call",
    [
        lambda models: models["inner"](np.ones(2, np.float32)),
        lambda models: models["inner"](q=ONE),
        lambda models: models["none"](ONE),
        lambda models: list(models["inner"].stream(q=ONE)),
    ],
    ids=["shape", "name", "model", "stream"],
)
def test_wrong_call_of_a_peer_is_the_handlers_error(call: Any, caplog: pytest.LogCaptureFixture) -> None:
    with local_server(inner, outer_of(lambda ctx: call(ctx.models))) as server:
        status, error = infer(RepositoryClient(server.http_url), "outer")
    assert status == 500
    assert error in ("model 'outer' failed: InvalidInput", "model 'outer' failed: NotFound")
    (record,) = [record for record in caplog.records if record.name == "penstock.outer"]
    assert record.exc_info is not None
    assert "test_peers.py" in "".join(traceback.format_exception(*record.exc_info))


def test_uncaught_error_of_a_peer_is_the_response() -> None:
    @model(name="inner", **X)
    def refuses(x):
        raise InvalidInput("no such word")

    with local_server(refuses, outer_of(lambda ctx: ctx.models["inner"](ONE))) as server:
        assert infer(RepositoryClient(server.http_url), "outer") == (400, "no such word")


def test_retained_array_is_copied_once_and_donated_array_never() -> None:
    """Outputs are never copied: the calling handler receives the array that the peer returned."""
    observed: dict[str, Any] = {}

    @model(name="inner", **LARGE)
    def scribble(x):
        observed["given"] = address(x)
        x[:] = 5
        response = np.full(BYTES // 4, 7, np.float32)
        observed["answer"] = address(response)
        return response

    def outer(ctx: Context) -> None:
        retained = np.ones(BYTES // 4, np.float32)
        before = _core.copied_bytes()
        response = ctx.models["inner"](retained)
        after = _core.copied_bytes()
        observed["retained"] = {step: after[step] - before[step] for step in after if after[step] != before[step]}
        # The peer wrote to its own copy.
        assert retained.max() == 1
        assert address(response) == observed["answer"]
        response += 1
        assert response.flags.writeable
        assert response.max() == 8
        donated = response
        second = ctx.models["inner"](Donated(donated))
        assert _core.copied_bytes() == after
        assert address(donated) == observed["given"]
        assert address(second) == observed["answer"]

    with Client(scribble, outer_of(outer)) as client:
        client.infer("outer", {"x": ONE})
    assert observed["retained"] == {"hand-in": BYTES}


def test_non_donatable_arrays_are_copied_and_none_is_donated_twice() -> None:
    @model(name="inner", **LARGE)
    def scribble(x):
        x[:] = 5
        return x[:1]

    def outer(ctx: Context) -> None:
        frozen = np.ones(BYTES, np.float32)
        frozen.setflags(write=False)
        sparse = np.ones((BYTES, 2), np.float32)[:, 0]
        for array in (frozen, sparse):
            ctx.models["inner"](Donated(array))
            assert array.max() == 1
        donated = Donated(np.ones(1, np.float32))
        ctx.models["inner"](donated)
        with pytest.raises(ValueError, match="input 'x': what was moved is gone, and cannot be moved again"):
            ctx.models["inner"](donated)

    with Client(scribble, outer_of(outer)) as client:
        client.infer("outer", {"x": ONE})


def test_forwarded_output_is_not_copied() -> None:
    @model(name="inner", **LARGE)
    def fresh(x):
        return np.full(BYTES // 4, 7, np.float32)

    @model(name="outer", **LARGE)
    def outer(x, ctx: Context):
        return ctx.models["inner"](x)

    with Client(fresh, outer) as client:
        before = _core.copied_bytes()
        response = client.infer("outer", {"x": ONE})["y"]
        after = _core.copied_bytes()
    assert response.min() == 7
    assert {step: after[step] - before[step] for step in ("gather", "hand-out", "encode")} == dict.fromkeys(
        ("gather", "hand-out", "encode"), 0
    )


def test_rows_of_a_shared_batch_are_separate_arrays() -> None:
    gate = Gate()

    @model(name="inner", batching=Batching(max_size=8, hold=False), **LARGE)
    def same(x):
        gate.enter()
        return np.ones((len(x), BYTES // 4), np.float32)

    @model(name="outer", instances=3, **X)
    def outer(x, ctx: Context):
        response = ctx.models["inner"](x[None])
        response *= x[0]
        barrier.wait()
        return response[0, :1] + (response.max() - response.min())

    barrier = threading.Barrier(3, timeout=PATIENCE)
    with Client(same, outer) as client:
        calls = [lambda i=i: client.infer("outer", {"x": ONE * i})["y"].tolist() for i in range(3)]
        first = at_once(calls[:1])
        gate.await_entered()
        others = at_once(calls[1:])
        until(lambda: metric(client, 'penstock_queue_depth{model="inner",version="1"} 2'))
        gate.open()
        assert [future.result(PATIENCE) for future in first + others] == [[0.0], [1.0], [2.0]]


def test_circular_calls_are_rejected() -> None:
    def calling(name: str, other: str) -> Any:
        def handler(x, ctx: Context):
            return ctx.models[other](x) if x[0] > 0 else x

        return model(name=name, **X)(handler)

    with local_server(calling("a", "b"), calling("b", "c"), calling("c", "a")) as server:
        client = RepositoryClient(server.http_url)
        assert [infer(client, name, 0)[0] for name in "abc"] == [200] * 3
        # The first two calls are two edges of the cycle; the third is rejected instead of blocking.
        status, text = infer(client, "a", 1)
    assert status == 500
    assert text.endswith("can wait for one another for ever ('c' -> 'a' -> 'b' -> 'c')")


def test_declared_calls_are_checked_before_observed_ones() -> None:
    def calling(name: str, other: str, **options: Any) -> Any:
        return model(name=name, **X, **options)(lambda x, ctx: ctx.models[other](x))

    def call_peer(other: str) -> Any:
        def handler(x, ctx: Context):
            return ctx.models[other](x)

        return handler

    a, b = model(name="a", calls=["b"], **X)(call_peer("b")), model(name="b", **X)(call_peer("a"))
    with local_server(a, b) as server:
        client = RepositoryClient(server.http_url)
        # Rejected although `a` has not called a peer yet.
        assert "'b' -> 'a' -> 'b'" in infer(client, "b")[1]
    with local_server(inner, model(name="a", calls=[], **X)(call_peer("inner"))) as server:
        assert infer(RepositoryClient(server.http_url), "a") == (
            500,
            "model 'a' calls 'inner', which its calls=[] does not name",
        )


def test_process_cannot_call_peers() -> None:
    with pytest.raises(SignatureError, match=r"model 'a': a process of its own cannot call models: give it instances="):
        model(name="a", calls=["inner"], instances=Processes(1), **X)(lambda x: x)

    @model(name="a", instances=Processes(1), **X)
    def call_inner(x, ctx: Context):
        return ctx.models["inner"](x)

    with local_server(inner, call_inner) as server:
        assert infer(RepositoryClient(server.http_url), "a") == (
            500,
            "model 'a' runs in a process of its own, from where no model can be called: give it instances=Threads(n), "
            "or have a Pipeline call both",
        )


def test_process_model_can_be_called() -> None:
    @model(name="remote", instances=Processes(1), **X)
    def remote(x):
        return x * 3

    @model(name="outer", **X)
    def outer(x, ctx: Context):
        response = ctx.models["remote"](x)
        response += 1
        return response

    with local_server(remote, outer) as server:
        assert infer(RepositoryClient(server.http_url), "outer", 2) == (200, [7.0])


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_deadline_priority_and_id_are_propagated(kind: str) -> None:
    observed: list[Any] = []

    @model(name="inner", queueing=Queueing(priorities=3), **X)
    def observe(x, ctx: Context):
        observed.append(
            (ctx.request_id, ctx.deadline, ctx.requests[0].priority, ctx.headers.get("x-tenant"), ctx.parameters)
        )
        return x

    @model(name="outer", queueing=Queueing(priorities=3), **X)
    def sync_outer(x, ctx: Context):
        return ctx.models["inner"](x)

    @model(name="outer", queueing=Queueing(priorities=3), **X)
    async def async_outer(x, ctx: Context):
        return await ctx.models["inner"].aio(x)

    with Client(observe, sync_outer if kind == "plain" else async_outer) as client:
        client.infer("outer", {"x": ONE})
        client.infer(
            "outer",
            {"x": ONE},
            request_id="r1",
            parameters={"priority": 2, "timeout": 30_000_000, "own": 1},
            headers={"x-tenant": "me"},
        )
    assert observed[0][:2] == ("", None)
    request_id, deadline, priority, tenant, parameters = observed[1]
    assert (request_id, priority, tenant, parameters) == ("r1", 2, "me", {})
    assert 0 < deadline <= 30


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_expired_deadline_ends_the_inner_call(kind: str) -> None:
    gate, errors = Gate(), []

    @model(name="slow", **X)
    def slow(x):
        gate.enter()
        return x

    @model(name="outer", **X)
    def sync_outer(x, ctx: Context):
        try:
            return ctx.models["slow"](x)
        except TimeoutError as error:
            errors.append(str(error))
            raise

    @model(name="outer", **X)
    async def async_outer(x, ctx: Context):
        try:
            return await ctx.models["slow"].aio(x)
        except (TimeoutError, asyncio.CancelledError) as error:
            errors.append(str(error) or "cancelled")
            raise

    with local_server(slow, sync_outer if kind == "plain" else async_outer) as server:
        (futures,) = at_once([lambda: infer(RepositoryClient(server.http_url), "outer", timeout=300_000)])
        status, text = futures.result(PATIENCE)
        # The inner call ends while its handler still waits at the gate.
        until(lambda: errors)
        gate.open()
    assert status == 504
    assert re.fullmatch("model '(outer|slow)' did not answer within the deadline", text)
    # On an event loop, the deadline may cancel the task before the inner call reports it.
    assert errors[0] == "model 'slow' did not answer within the deadline" or (kind, errors[0]) == ("async", "cancelled")


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_client_disconnect_cancels_the_inner_call(kind: str) -> None:
    """An abandoned request is not computed, even behind several models."""
    gate, blocked, computed, ended = Gate(), Gate(), [], threading.Event()

    @model(name="slow", **X)
    def slow(x, ctx: Context):
        if x[0] == 0:
            gate.enter()
        computed.append(x[0])
        return x

    @model(name="outer", instances=2, **X)
    def sync_outer(x, ctx: Context):
        blocked.entered.release()
        try:
            return ctx.models["slow"](x)
        except BaseException:
            ended.set()
            raise

    @model(name="outer", **X)
    async def async_outer(x, ctx: Context):
        blocked.entered.release()
        try:
            return await ctx.models["slow"].aio(x)
        except BaseException:
            ended.set()
            raise

    with local_server(slow, sync_outer if kind == "plain" else async_outer) as server:
        client = RepositoryClient(server.http_url)
        (first,) = at_once([lambda: infer(client, "slow", 0)])
        gate.await_entered()
        host, port = client.address.split(":")
        body = b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[1]}]}'
        with socket.create_connection((host, int(port)), timeout=PATIENCE) as connection:
            head = f"POST /v2/models/outer/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
            connection.sendall(head.encode() + body)
            blocked.await_entered()
        assert ended.wait(PATIENCE)
        gate.open()
        assert first.result(PATIENCE) == (200, [0.0])
        assert infer(client, "slow", 2) == (200, [2.0])
    assert computed == [0, 2]


def test_blocking_call_on_an_event_loop_is_rejected() -> None:
    @model(name="outer", **X)
    async def outer(x, ctx: Context):
        with pytest.raises(RuntimeError, match=r"await ctx.models\['inner'\].aio"):
            ctx.models["inner"](x)
        # On another thread the call does not block the event loop.
        return await asyncio.to_thread(lambda: ctx.models["inner"](x))

    with local_server(inner, outer) as server:
        assert infer(RepositoryClient(server.http_url), "outer", 4) == (200, [8.0])


def test_async_peer_calls_run_concurrently() -> None:
    both = threading.Barrier(2, timeout=PATIENCE)

    def branch(name: str, factor: int) -> Any:
        def handler(x):
            both.wait()
            return x * factor

        return model(name=name, **X)(handler)

    @model(name="outer", **X)
    async def outer(x, ctx: Context):
        a, b = await asyncio.gather(ctx.models["two"].aio(x), ctx.models["three"].aio(x))
        return a + b

    with local_server(branch("two", 2), branch("three", 3), outer) as server:
        assert infer(RepositoryClient(server.http_url), "outer", 7) == (200, [35.0])


def test_queue_limits_apply_to_peer_calls() -> None:
    gate, results = Gate(), []

    @model(name="slow", max_queue=1, queueing=Queueing(timeout=0.1), **X)
    def slow(x):
        gate.enter()
        return x

    @model(name="outer", **X)
    async def outer(x, ctx: Context):
        first = asyncio.ensure_future(ctx.models["slow"].aio(x))
        await asyncio.to_thread(gate.await_entered)
        results.extend(await asyncio.gather(*(ctx.models["slow"].aio(x) for _ in range(2)), return_exceptions=True))
        gate.open()
        return await first

    with local_server(slow, outer) as server:
        assert infer(RepositoryClient(server.http_url), "outer", 4) == (200, [4.0])
    assert sorted(type(result).__name__ for result in results) == ["Overloaded", "Timeout"]


def test_calls_after_a_reload_reach_the_new_version() -> None:
    @model(name="outer", instances=4, **X)
    def outer(x, ctx: Context):
        return ctx.models["inner"](x)

    def times(factor: int) -> Any:
        return model(name="inner", **X)(lambda x: x * factor)

    with local_server(times(2), outer) as server:
        client, done = RepositoryClient(server.http_url), threading.Event()

        def send_repeatedly() -> set[Any]:
            responses = set()
            while not done.is_set():
                responses.add(str(infer(client, "outer", 1)))
            return responses

        senders = at_once([send_repeatedly] * 2)
        for factor in (3, 4, 5):
            server.reload(lambda factor=factor: [times(factor), outer])
            assert infer(client, "outer", 1) == (200, [float(factor)])
        done.set()
        # No request is lost.
        for future in senders:
            assert future.result(PATIENCE) <= {f"(200, [{factor}.0])" for factor in (2, 3, 4, 5)}


def test_warmup_may_call_declared_peers() -> None:
    @model(name="outer", calls=["inner"], warmup=True, **X)
    def outer(x, ctx: Context):
        return ctx.models["inner"](x)

    with local_server(outer, inner) as server:
        assert infer(RepositoryClient(server.http_url), "outer", 4) == (200, [8.0])


def test_declared_calls_are_validated() -> None:
    from penstock._model.resolve import definitions_of

    def calling(name: str, *call_inner: str) -> Any:
        return model(name=name, calls=call_inner, **X)(lambda x: x)

    results = definitions_of([calling("a", "b", "c"), calling("b", "c"), calling("c")])
    assert [definition.name for definition in results] == ["c", "b", "a"]
    with pytest.raises(SignatureError, match=r"models call each other in a circle.*: 'a' -> 'b' -> 'c' -> 'a'"):
        definitions_of([calling("a", "b"), calling("b", "c"), calling("c", "a")])
    with pytest.raises(SignatureError, match=r"circle.*: 'a' -> 'a'"):
        definitions_of([calling("a", "a")])
    with pytest.raises(SignatureError, match="model 'a' calls 'z', which is not served; give it to the server too"):
        definitions_of([calling("a", "z")])
    with pytest.raises(SignatureError, match="model 'a': calls must be a list of names of models, not 'b'"):
        model(name="a", calls="b", **X)(lambda x: x)

    @model(name="state", sequences=Sequences(), **X)
    def state(x, ctx: Context):
        return x

    with pytest.raises(SignatureError, match="model 'a' calls 'state', which has sequences: only clients can call it"):
        definitions_of([calling("a", "state"), state])


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_streaming_handler_may_call_between_chunks(kind: str) -> None:
    @model(name="outer", **X)
    def sync_outer(x, ctx: Context):
        for factor in (1, 2):
            yield ctx.models["inner"](x * factor)

    @model(name="outer", **X)
    async def async_outer(x, ctx: Context):
        for factor in (1, 2):
            yield await ctx.models["inner"].aio(x * factor)

    document = {"x": [4.0]}
    with Client(inner, sync_outer if kind == "plain" else async_outer) as client:
        response = client.post("/v2/models/outer/generate_stream", json.dumps(document))
    events = [json.loads(line.removeprefix("data: ")) for line in response.body.decode().splitlines() if line]
    assert [event["y"] for event in events] == [8.0, 16.0]


def test_batch_peer_call_uses_the_latest_deadline_and_no_id() -> None:
    observed: list[Any] = []

    @model(name="inner", queueing=Queueing(priorities=3), **X)
    def observe(x, ctx: Context):
        request = ctx.requests[0]
        observed.append((request.id, request.priority, request.deadline))
        return x

    gate = Gate()

    @model(name="outer", batching=Batching(max_size=8, hold=False), queueing=Queueing(priorities=3), **X)
    def outer(x, ctx: Context):
        if len(ctx.requests) == 1:
            gate.enter()
        ctx.models["inner"](x[0])
        return x

    def send_repeatedly(client: Client, **parameters: Any) -> Callable[[], Any]:
        return lambda: client.infer("outer", {"x": ONE[None]}, request_id="r", parameters=parameters)

    with Client(observe, outer) as client:
        futures = at_once([send_repeatedly(client)])
        gate.await_entered()
        futures += at_once(
            [
                send_repeatedly(client, priority=2, timeout=40_000_000),
                send_repeatedly(client, priority=2, timeout=30_000_000),
            ]
        )
        until(lambda: metric(client, 'penstock_queue_depth{model="outer",version="1"} 2'))
        gate.open()
        for future in futures:
            future.result(PATIENCE)
    assert observed[0] == ("r", 0, None)
    request_id, priority, deadline = observed[1]
    # The latest deadline, and an empty id.
    assert (request_id, priority) == ("", 2)
    assert 30 < deadline <= 40


def test_retry_after_of_a_peer_is_propagated() -> None:
    gate = Gate()

    @model(name="slow", max_queue=1, **X)
    def slow(x):
        gate.enter()
        return x

    @model(name="outer", instances=3, **X)
    def outer(x, ctx: Context):
        return ctx.models["slow"](x)

    with Client(slow, outer) as client:
        futures = at_once([lambda: client.infer("outer", {"x": ONE})])
        gate.await_entered()
        futures += at_once([lambda: client.infer("outer", {"x": ONE})])
        until(lambda: metric(client, 'penstock_queue_depth{model="slow",version="1"} 1'))
        with pytest.raises(Overloaded, match="model 'slow' has its maximum of 1 requests waiting"):
            client.infer("outer", {"x": ONE})
        assert client.last_response is not None
        assert int(client.last_response.headers["retry-after"]) >= 1
        gate.open()
        for future in futures:
            future.result(PATIENCE)


def test_circular_calls_within_a_repository_are_rejected_at_the_call(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "models")
    for name, other in (("a", "b"), ("b", "a")):
        repository.write(
            name,
            "1",
            f"""
            import numpy as np
            from penstock import Context, Tensor, model

            @model(
                inputs=[Tensor("x", np.float32, [1])], outputs=[Tensor("y", np.float32, [1])], calls=["{other}"]
            )
            def calling(x, ctx: Context):
                return ctx.models["{other}"](x)
            """,
        )
    with local_server(repository=repository.path) as server:
        client = RepositoryClient(server.http_url)
        assert infer(client, "a")[1].endswith("('a' -> 'b' -> 'a')")
        assert infer(client, "b")[1].endswith("('b' -> 'a' -> 'b')")


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_parameters_apply_to_one_peer_call_only(kind: str) -> None:
    observed: list[Any] = []

    @model(name="inner", **X)
    def observe(x, ctx: Context):
        observed.append(ctx.parameters)
        return x

    def call(ctx: Context) -> Any:
        return ctx.models["inner"].with_parameters(a=1, b=True).with_parameters(a="ä", c=0.5)

    @model(name="outer", **X)
    def sync_outer(x, ctx: Context):
        with pytest.raises(TypeError, match="a parameter is a bool, int, float or str, got list"):
            ctx.models["inner"].with_parameters(a=[1])(x)
        return ctx.models["inner"](call(ctx)(x))

    @model(name="outer", **X)
    async def async_outer(x, ctx: Context):
        return await ctx.models["inner"].aio(await call(ctx).aio(x))

    with Client(observe, sync_outer if kind == "plain" else async_outer) as client:
        client.infer("outer", {"x": ONE}, parameters={"own": 1})
    assert observed == [{"a": "ä", "b": True, "c": 0.5}, {}]
