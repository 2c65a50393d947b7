"""Models that call models of the same server by `ctx.models`."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import threading
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
from repositories import Caller, Repository
from waiting import PATIENCE, Gate, at_once, until

X: Any = {"inputs": [Tensor("x", np.float32, [1])], "outputs": [Tensor("y", np.float32, [1])]}
LARGE: Any = {"inputs": [Tensor("x", np.float32, [-1])], "outputs": [Tensor("y", np.float32, [-1])]}
ONE = np.ones(1, np.float32)
BYTES = 1 << 20


def address(array: Any) -> int:
    # `ctypes` would leave a reference behind until the next collection.
    return int(array.__array_interface__["data"][0])


@model(name="inner", **X)
def inner(x):
    return x * 2


def ask(caller: Caller, name: str, value: float = 1, **parameters: Any) -> tuple[int, Any]:
    tensor = {"name": "x", "datatype": "FP32", "shape": [1], "data": [value]}
    document = {"inputs": [tensor], "parameters": parameters}
    status, answer = caller("POST", f"/v2/models/{name}/infer", document)
    return status, answer["outputs"][0]["data"] if status == 200 else answer["error"]


def serving(*models: Any, **options: Any) -> Server:
    return Server(*models, http="127.0.0.1:0", grpc=None, **options)


def metric(client: Client, line: str) -> bool:
    return line in client.get("/metrics").body.decode()


def outer_of(handler: Callable[..., Any], **options: Any) -> Any:
    """A model `outer` that calls the others, of which the handler gets the context alone."""

    def call(x, ctx: Context):
        handler(ctx)
        return x

    return model(name="outer", **{**X, **options})(call)


def told(handler: Callable[[Any], Any], *models: Any, **options: Any) -> BaseException:
    """What a call inside of a handler raises."""
    found: list[BaseException] = []

    def outer(ctx: Context) -> None:
        try:
            handler(ctx)
        except BaseException as error:
            found.append(error)

    with Client(*models, outer_of(outer, **options)) as client:
        client.infer("outer", {"x": ONE})
    return found[0]


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_callers_join_in_the_batches_of_the_called(kind: str) -> None:
    seen: list[int] = []
    gate = Gate()

    @model(name="inner", batching=Batching(max_size=64, hold=False), **X)
    def batched(x):
        seen.append(len(x))
        gate.enter()
        return x * 2

    @model(name="outer", instances=8, **X)
    def plain(x, ctx: Context):
        return ctx.models["inner"](x=x[None])[0] + 1

    @model(name="outer", **X)
    async def waiting(x, ctx: Context):
        return (await ctx.models["inner"].aio({"x": x[None]}))[0] + 1

    with Client(batched, plain if kind == "plain" else waiting) as client:
        asks = [lambda i=i: client.infer("outer", {"x": ONE * i})["y"].tolist() for i in range(8)]
        first = at_once(asks[:1])
        gate.await_entered()
        others = at_once(asks[1:])
        until(lambda: metric(client, 'penstock_queue_depth{model="inner",version="1"} 7'))
        gate.open()
        assert [one.result(PATIENCE) for one in first + others] == [[2.0 * i + 1] for i in range(8)]
        # Counted like those of any caller.
        assert metric(client, 'penstock_requests_total{model="inner",version="1",protocol="inprocess",outcome="ok"} 8')
        statistics = client.get("/v2/models/inner/stats").json()["model_stats"][0]
        assert (statistics["inference_count"], statistics["execution_count"]) == (8, 2)
    assert seen == [1, 7]


def test_what_is_given_and_what_comes_back() -> None:
    @model(inputs=[Tensor("a", np.float32, [2]), Tensor("t", str, [-1], optional=True)],
           outputs=[Tensor("n", np.int64, []), Tensor("t", str, [-1]), Tensor("raw", bytes, [1])])  # fmt: skip
    def several(a, t):
        return {"n": int(a.sum()), "t": np.array(["-"] if t is None else t, object), "raw": [b"\xff"]}

    @model(name="half", inputs=[Tensor("x", "BF16", [1])], outputs=[Tensor("y", "BF16", [1])])
    def half(x):
        return x

    found: list[Any] = []

    def outer(ctx: Context) -> None:
        b = ctx.models["several"]
        assert (b.name, b.version, repr(b)) == ("several", None, "<model 'several'>")
        found.extend(
            [b([1, 2]), b(a=np.ones(2, np.float32), t=["ä", "b"]), b({"a": (3, 4)}), ctx.models["several", 1]([0, 0])]
        )
        (y,) = ctx.models["half"](np.array([1.5], np.float32))
        assert y == np.float32(1.5)
        # The caller's own: it may be written to.
        one = ctx.models["inner"](3)
        one += 1
        found.append(one)

    scalar: Any = {"inputs": [Tensor("x", np.float32, [])], "outputs": [Tensor("y", np.float32, [])]}
    with Client(several, half, model(name="inner", **scalar)(lambda x: x * 2), outer_of(outer)) as client:
        client.infer("outer", {"x": ONE})
    assert [one["n"].item() for one in found[:4]] == [3, 2, 7, 0]
    assert [one["t"].tolist() for one in found[:4]] == [["-"], ["ä", "b"], ["-"], ["-"]]
    assert found[0]["raw"].tolist() == [b"\xff"]
    assert found[4] == 7


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
        (lambda m: m["nobody"](ONE), LookupError, "unknown model 'nobody'"),
        (lambda m: m["inner", "7"](ONE), LookupError, "model 'inner' has no version '7'"),
        (lambda m: m["busy"](ONE), Overloaded, "come back later"),
        (lambda m: m["broken"](ONE), HandlerError, "model 'broken' failed: KeyError"),
        (lambda m: m["pieces"](ONE), NotImplementedError,
         "model 'pieces' streams its answers: write ctx.models['pieces'].stream(...)"),
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
def test_what_is_wrong_is_raised_as_its_own_kind(call: Callable[[Any], Any], kind: type, text: str) -> None:
    @model(**X)
    def busy(x):
        raise Overloaded("come back later")

    @model(**X)
    def broken(x):
        raise KeyError("secret")

    @model(**X)
    def pieces(x):
        yield x

    @model(sequences=Sequences(), **X)
    def state(x, ctx: Context):
        return x

    error = told(lambda ctx: call(ctx.models), inner, busy, broken, pieces, state)
    assert isinstance(error, kind)
    assert text in str(error)


def test_an_error_that_is_not_caught_is_the_answer() -> None:
    with serving(inner, outer_of(lambda ctx: ctx.models["inner"](np.ones(2, np.float32)))) as server:
        answer = ask(Caller(server.http_url), "outer")
    assert answer == (400, "input 'x' has shape [2], model 'inner' expects [1]")


def test_an_array_that_is_kept_is_copied_once_and_one_that_is_moved_never() -> None:
    """And answers are never copied: what the called model returned is what its caller gets."""
    seen: dict[str, Any] = {}

    @model(name="inner", **LARGE)
    def scribble(x):
        seen["given"] = address(x)
        x[:] = 5
        answer = np.full(BYTES // 4, 7, np.float32)
        seen["answer"] = address(answer)
        return answer

    def outer(ctx: Context) -> None:
        kept = np.ones(BYTES // 4, np.float32)
        before = _core.copied_bytes()
        answer = ctx.models["inner"](kept)
        after = _core.copied_bytes()
        seen["kept"] = {step: after[step] - before[step] for step in after if after[step] != before[step]}
        # The handler that wrote to its input did so to its own.
        assert kept.max() == 1
        assert address(answer) == seen["answer"]
        answer += 1
        assert answer.flags.writeable
        assert answer.max() == 8
        moved = answer
        again = ctx.models["inner"](Donated(moved))
        assert _core.copied_bytes() == after
        assert address(moved) == seen["given"]
        assert address(again) == seen["answer"]

    with Client(scribble, outer_of(outer)) as client:
        client.infer("outer", {"x": ONE})
    assert seen["kept"] == {"hand-in": BYTES}


def test_what_cannot_be_moved_is_copied_and_nothing_is_moved_twice() -> None:
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
        moved = Donated(np.ones(1, np.float32))
        ctx.models["inner"](moved)
        with pytest.raises(ValueError, match="input 'x': what was moved is gone, and cannot be moved again"):
            ctx.models["inner"](moved)

    with Client(scribble, outer_of(outer)) as client:
        client.infer("outer", {"x": ONE})


def test_an_answer_that_is_handed_on_is_not_copied() -> None:
    @model(name="inner", **LARGE)
    def fresh(x):
        return np.full(BYTES // 4, 7, np.float32)

    @model(name="outer", **LARGE)
    def outer(x, ctx: Context):
        return ctx.models["inner"](x)

    with Client(fresh, outer) as client:
        before = _core.copied_bytes()
        answer = client.infer("outer", {"x": ONE})["y"]
        after = _core.copied_bytes()
    assert answer.min() == 7
    assert {step: after[step] - before[step] for step in ("gather", "hand-out", "encode")} == dict.fromkeys(
        ("gather", "hand-out", "encode"), 0
    )


def test_rows_of_a_shared_batch_are_each_callers_own() -> None:
    gate = Gate()

    @model(name="inner", batching=Batching(max_size=8, hold=False), **LARGE)
    def same(x):
        gate.enter()
        return np.ones((len(x), BYTES // 4), np.float32)

    @model(name="outer", instances=3, **X)
    def outer(x, ctx: Context):
        answer = ctx.models["inner"](x[None])
        answer *= x[0]
        together.wait()
        return answer[0, :1] + (answer.max() - answer.min())

    together = threading.Barrier(3, timeout=PATIENCE)
    with Client(same, outer) as client:
        asks = [lambda i=i: client.infer("outer", {"x": ONE * i})["y"].tolist() for i in range(3)]
        first = at_once(asks[:1])
        gate.await_entered()
        others = at_once(asks[1:])
        until(lambda: metric(client, 'penstock_queue_depth{model="inner",version="1"} 2'))
        gate.open()
        assert [one.result(PATIENCE) for one in first + others] == [[0.0], [1.0], [2.0]]


def test_calls_that_would_close_a_circle_are_refused() -> None:
    def calling(name: str, other: str) -> Any:
        def handler(x, ctx: Context):
            return ctx.models[other](x) if x[0] > 0 else x

        return model(name=name, **X)(handler)

    with serving(calling("a", "b"), calling("b", "c"), calling("c", "a")) as server:
        caller = Caller(server.http_url)
        assert [ask(caller, name, 0)[0] for name in "abc"] == [200] * 3
        # The first two calls are two edges of the circle; the third is refused, and does not hang.
        status, text = ask(caller, "a", 1)
    assert status == 500
    assert text.endswith("can wait for one another for ever ('c' -> 'a' -> 'b' -> 'c')")


def test_what_is_declared_comes_first() -> None:
    def calling(name: str, other: str, **options: Any) -> Any:
        return model(name=name, **X, **options)(lambda x, ctx: ctx.models[other](x))

    def to(other: str) -> Any:
        def handler(x, ctx: Context):
            return ctx.models[other](x)

        return handler

    a, b = model(name="a", calls=["b"], **X)(to("b")), model(name="b", **X)(to("a"))
    with serving(a, b) as server:
        caller = Caller(server.http_url)
        # Refused though `a` has called nobody yet.
        assert "'b' -> 'a' -> 'b'" in ask(caller, "b")[1]
    with serving(inner, model(name="a", calls=[], **X)(to("inner"))) as server:
        assert ask(Caller(server.http_url), "a") == (500, "model 'a' calls 'inner', which its calls=[] does not name")


def test_a_process_cannot_call_models() -> None:
    with pytest.raises(SignatureError, match=r"model 'a': a process of its own cannot call models: give it instances="):
        model(name="a", calls=["inner"], instances=Processes(1), **X)(lambda x: x)

    @model(name="a", instances=Processes(1), **X)
    def calls(x, ctx: Context):
        return ctx.models["inner"](x)

    with serving(inner, calls) as server:
        assert ask(Caller(server.http_url), "a") == (
            500,
            "model 'a' runs in a process of its own, from where no model can be called: give it instances=Threads(n), "
            "or have a Pipeline call both",
        )


def test_a_model_in_processes_can_be_called() -> None:
    @model(name="far", instances=Processes(1), **X)
    def far(x):
        return x * 3

    @model(name="outer", **X)
    def outer(x, ctx: Context):
        answer = ctx.models["far"](x)
        answer += 1
        return answer

    with serving(far, outer) as server:
        assert ask(Caller(server.http_url), "outer", 2) == (200, [7.0])


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_deadline_priority_and_id_are_carried_on(kind: str) -> None:
    seen: list[Any] = []

    @model(name="inner", queueing=Queueing(priorities=3), **X)
    def told_all(x, ctx: Context):
        seen.append((ctx.request_id, ctx.deadline, ctx.requests[0].priority, ctx.headers.get("x-who"), ctx.parameters))
        return x

    @model(name="outer", queueing=Queueing(priorities=3), **X)
    def plain(x, ctx: Context):
        return ctx.models["inner"](x)

    @model(name="outer", queueing=Queueing(priorities=3), **X)
    async def waiting(x, ctx: Context):
        return await ctx.models["inner"].aio(x)

    with Client(told_all, plain if kind == "plain" else waiting) as client:
        client.infer("outer", {"x": ONE})
        client.infer(
            "outer",
            {"x": ONE},
            request_id="r1",
            parameters={"priority": 2, "timeout": 30_000_000, "own": 1},
            headers={"x-who": "me"},
        )
    assert seen[0][:2] == ("", None)
    request_id, deadline, priority, who, parameters = seen[1]
    assert (request_id, priority, who, parameters) == ("r1", 2, "me", {})
    assert 0 < deadline <= 30


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_a_deadline_that_passes_ends_the_inner_call(kind: str) -> None:
    gate, errors = Gate(), []

    @model(name="slow", **X)
    def slow(x):
        gate.enter()
        return x

    @model(name="outer", **X)
    def plain(x, ctx: Context):
        try:
            return ctx.models["slow"](x)
        except TimeoutError as error:
            errors.append(str(error))
            raise

    @model(name="outer", **X)
    async def waiting(x, ctx: Context):
        try:
            return await ctx.models["slow"].aio(x)
        except (TimeoutError, asyncio.CancelledError) as error:
            errors.append(str(error) or "cancelled")
            raise

    with serving(slow, plain if kind == "plain" else waiting) as server:
        (asked,) = at_once([lambda: ask(Caller(server.http_url), "outer", timeout=300_000)])
        status, text = asked.result(PATIENCE)
        # The inner call ends while its handler is still at the gate.
        until(lambda: errors)
        gate.open()
    assert status == 504
    assert re.fullmatch("model '(outer|slow)' did not answer within the deadline", text)
    # On a loop, whose call is cancelled with its deadline, it depends on who looks first.
    assert errors[0] == "model 'slow' did not answer within the deadline" or (kind, errors[0]) == ("async", "cancelled")


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_a_caller_that_leaves_takes_the_inner_call_along(kind: str) -> None:
    """What nobody waits for is not computed, however many models it has come through."""
    gate, blocked, computed, ended = Gate(), Gate(), [], threading.Event()

    @model(name="slow", **X)
    def slow(x, ctx: Context):
        if x[0] == 0:
            gate.enter()
        computed.append(x[0])
        return x

    @model(name="outer", instances=2, **X)
    def plain(x, ctx: Context):
        blocked.entered.release()
        try:
            return ctx.models["slow"](x)
        except BaseException:
            ended.set()
            raise

    @model(name="outer", **X)
    async def waiting(x, ctx: Context):
        blocked.entered.release()
        try:
            return await ctx.models["slow"].aio(x)
        except BaseException:
            ended.set()
            raise

    with serving(slow, plain if kind == "plain" else waiting) as server:
        caller = Caller(server.http_url)
        (first,) = at_once([lambda: ask(caller, "slow", 0)])
        gate.await_entered()
        host, port = caller.address.split(":")
        body = b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[1]}]}'
        with socket.create_connection((host, int(port)), timeout=PATIENCE) as connection:
            head = f"POST /v2/models/outer/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
            connection.sendall(head.encode() + body)
            blocked.await_entered()
        assert ended.wait(PATIENCE)
        gate.open()
        assert first.result(PATIENCE) == (200, [0.0])
        assert ask(caller, "slow", 2) == (200, [2.0])
    assert computed == [0, 2]


def test_a_blocking_call_on_an_event_loop_is_refused() -> None:
    @model(name="outer", **X)
    async def outer(x, ctx: Context):
        with pytest.raises(RuntimeError, match=r"await ctx.models\['inner'\].aio"):
            ctx.models["inner"](x)
        # On another thread it blocks nobody.
        return await asyncio.to_thread(lambda: ctx.models["inner"](x))

    with serving(inner, outer) as server:
        assert ask(Caller(server.http_url), "outer", 4) == (200, [8.0])


def test_calls_of_one_handler_run_at_once() -> None:
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

    with serving(branch("two", 2), branch("three", 3), outer) as server:
        assert ask(Caller(server.http_url), "outer", 7) == (200, [35.0])


def test_a_limit_of_the_called_queue_holds() -> None:
    gate, found = Gate(), []

    @model(name="slow", max_queue=1, queueing=Queueing(timeout=0.1), **X)
    def slow(x):
        gate.enter()
        return x

    @model(name="outer", **X)
    async def outer(x, ctx: Context):
        first = asyncio.ensure_future(ctx.models["slow"].aio(x))
        await asyncio.to_thread(gate.await_entered)
        found.extend(await asyncio.gather(*(ctx.models["slow"].aio(x) for _ in range(2)), return_exceptions=True))
        gate.open()
        return await first

    with serving(slow, outer) as server:
        assert ask(Caller(server.http_url), "outer", 4) == (200, [4.0])
    assert sorted(type(one).__name__ for one in found) == ["Overloaded", "Timeout"]


def test_later_calls_go_to_the_version_that_took_the_place() -> None:
    @model(name="outer", instances=4, **X)
    def outer(x, ctx: Context):
        return ctx.models["inner"](x)

    def times(factor: int) -> Any:
        return model(name="inner", **X)(lambda x: x * factor)

    with serving(times(2), outer) as server:
        caller, done = Caller(server.http_url), threading.Event()

        def asking() -> set[Any]:
            answers = set()
            while not done.is_set():
                answers.add(str(ask(caller, "outer", 1)))
            return answers

        askers = at_once([asking] * 2)
        for factor in (3, 4, 5):
            server.reload(lambda factor=factor: [times(factor), outer])
            assert ask(caller, "outer", 1) == (200, [float(factor)])
        done.set()
        # None is lost.
        for one in askers:
            assert one.result(PATIENCE) <= {f"(200, [{factor}.0])" for factor in (2, 3, 4, 5)}


def test_a_call_while_a_model_warms_up_finds_the_models_that_are_declared() -> None:
    @model(name="outer", calls=["inner"], warmup=True, **X)
    def outer(x, ctx: Context):
        return ctx.models["inner"](x)

    with serving(outer, inner) as server:
        assert ask(Caller(server.http_url), "outer", 4) == (200, [8.0])


def test_calls_that_are_declared_are_checked() -> None:
    from penstock._model.resolve import definitions_of

    def calling(name: str, *calls: str) -> Any:
        return model(name=name, calls=calls, **X)(lambda x: x)

    found = definitions_of([calling("a", "b", "c"), calling("b", "c"), calling("c")])
    assert [one.name for one in found] == ["c", "b", "a"]
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
def test_a_handler_that_streams_may_call_between_its_pieces(kind: str) -> None:
    @model(name="outer", **X)
    def plain(x, ctx: Context):
        for factor in (1, 2):
            yield ctx.models["inner"](x * factor)

    @model(name="outer", **X)
    async def waiting(x, ctx: Context):
        for factor in (1, 2):
            yield await ctx.models["inner"].aio(x * factor)

    document = {"x": [4.0]}
    with Client(inner, plain if kind == "plain" else waiting) as client:
        answer = client.post("/v2/models/outer/generate_stream", json.dumps(document))
    events = [json.loads(line.removeprefix("data: ")) for line in answer.body.decode().splitlines() if line]
    assert [event["y"] for event in events] == [8.0, 16.0]


def test_a_batch_calls_for_all_of_its_callers() -> None:
    seen: list[Any] = []

    @model(name="inner", queueing=Queueing(priorities=3), **X)
    def told_all(x, ctx: Context):
        request = ctx.requests[0]
        seen.append((request.id, request.priority, request.deadline))
        return x

    gate = Gate()

    @model(name="outer", batching=Batching(max_size=8, hold=False), queueing=Queueing(priorities=3), **X)
    def outer(x, ctx: Context):
        if len(ctx.requests) == 1:
            gate.enter()
        ctx.models["inner"](x[0])
        return x

    def asking(client: Client, **parameters: Any) -> Callable[[], Any]:
        return lambda: client.infer("outer", {"x": ONE[None]}, request_id="r", parameters=parameters)

    with Client(told_all, outer) as client:
        asked = at_once([asking(client)])
        gate.await_entered()
        asked += at_once(
            [asking(client, priority=2, timeout=40_000_000), asking(client, priority=2, timeout=30_000_000)]
        )
        until(lambda: metric(client, 'penstock_queue_depth{model="outer",version="1"} 2'))
        gate.open()
        for one in asked:
            one.result(PATIENCE)
    assert seen[0] == ("r", 0, None)
    request_id, priority, deadline = seen[1]
    # The latest deadline, and nobody's id.
    assert (request_id, priority) == ("", 2)
    assert 30 < deadline <= 40


def test_the_hint_when_to_retry_is_handed_on() -> None:
    gate = Gate()

    @model(name="slow", max_queue=1, **X)
    def slow(x):
        gate.enter()
        return x

    @model(name="outer", instances=3, **X)
    def outer(x, ctx: Context):
        return ctx.models["slow"](x)

    with Client(slow, outer) as client:
        asked = at_once([lambda: client.infer("outer", {"x": ONE})])
        gate.await_entered()
        asked += at_once([lambda: client.infer("outer", {"x": ONE})])
        until(lambda: metric(client, 'penstock_queue_depth{model="slow",version="1"} 1'))
        with pytest.raises(Overloaded, match="model 'slow' has its maximum of 1 requests waiting"):
            client.infer("outer", {"x": ONE})
        assert client.last_response is not None
        assert int(client.last_response.headers["retry-after"]) >= 1
        gate.open()
        for one in asked:
            one.result(PATIENCE)


def test_a_circle_that_models_of_a_repository_declare_is_refused_when_it_is_called(tmp_path: Path) -> None:
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
    with serving(repository=repository.path) as server:
        caller = Caller(server.http_url)
        assert ask(caller, "a")[1].endswith("('a' -> 'b' -> 'a')")
        assert ask(caller, "b")[1].endswith("('b' -> 'a' -> 'b')")


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_parameters_are_the_calls_own(kind: str) -> None:
    seen: list[Any] = []

    @model(name="inner", **X)
    def told_all(x, ctx: Context):
        seen.append(ctx.parameters)
        return x

    def call(ctx: Context) -> Any:
        return ctx.models["inner"].with_parameters(a=1, b=True).with_parameters(a="ä", c=0.5)

    @model(name="outer", **X)
    def plain(x, ctx: Context):
        with pytest.raises(TypeError, match="a parameter is a bool, int, float or str, got list"):
            ctx.models["inner"].with_parameters(a=[1])(x)
        return ctx.models["inner"](call(ctx)(x))

    @model(name="outer", **X)
    async def waiting(x, ctx: Context):
        return await ctx.models["inner"].aio(await call(ctx).aio(x))

    with Client(told_all, plain if kind == "plain" else waiting) as client:
        client.infer("outer", {"x": ONE}, parameters={"own": 1})
    assert seen == [{"a": "ä", "b": True, "c": 0.5}, {}]
