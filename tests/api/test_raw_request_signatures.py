"""How open models are declared, and what does not go with requests as they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from penstock import (
    Batching,
    Cache,
    Context,
    Dim,
    Queueing,
    Request,
    Response,
    Sequences,
    SignatureError,
    Tensor,
    _core,
    model,
)
from penstock.testing import Client

if TYPE_CHECKING:
    import penstock

X = Tensor("x", np.float32, [1])


def one(request: Request) -> Response:
    return Response()


def by_text(request: penstock.Request) -> Any:
    return {}


def with_context(ctx: Context, request: Request) -> Any:
    return {}


def with_default(request: Request, verbose: bool = False) -> Any:
    return {}


def many(requests: list[Request]) -> list[Response]:
    return [Response() for _ in requests]


def many_by_text(requests: list[penstock.Request]) -> Any:
    return [{} for _ in requests]


def sequence(requests: Sequence[Request]) -> Any:
    return [{} for _ in requests]


def stream(request: Request) -> Iterator[Response]:
    yield Response()


@pytest.mark.parametrize("handler", [one, by_text, with_context, with_default, stream])
def test_a_handler_of_a_request_declares_no_tensors(handler: Any) -> None:
    made = model(handler, name="m", queueing=Queueing(priorities=2), routes=iter(["POST /a"]))
    assert made.open
    assert (made.inputs, made.outputs, made.routes) == ((), (), ("POST /a",))
    assert made.definition().open
    with Client(made) as client:
        assert client.infer("m", {"x": np.ones(1)}) == {}


@pytest.mark.parametrize("handler", [many, many_by_text, sequence])
def test_a_handler_of_a_list_batches(handler: Any) -> None:
    made = model(handler, name="m", batching=Batching(max_size=4, preferred_sizes=[2], max_delay=0.001))
    assert made.open
    with Client(made) as client:
        assert client.infer("m", {"x": np.ones(1)}) == {}


def test_other_models_are_not_open() -> None:
    made = model(lambda x: x, name="m", inputs=[X], outputs=[X])
    assert not made.open
    assert made.routes == ()


AS_THEY_ARE = "model 'm': the handler takes requests as they are, and "


def beside(request: Request, x: int) -> Any: ...


@pytest.mark.parametrize(
    ("handler", "options", "message"),
    [
        (
            one,
            {"batching": Batching()},
            "model 'm': parameter 'request' must be list[Request]: with batching= requests ",
        ),
        (many, {}, "model 'm': parameter 'requests' is a list of requests, which needs batching="),
        (
            beside,
            {},
            "model 'm': parameter 'x' cannot be filled: 'request' is the whole request; only a `ctx: Context`",
        ),
        (one, {"inputs": [X, X]}, "model 'm': input 'x' is declared twice"),
        (one, {"cache": Cache()}, f"{AS_THEY_ARE}cache= does not go with that: which requests are equal"),
        (
            with_context,
            {"sequences": Sequences()},
            f"{AS_THEY_ARE}sequences= does not go with that: state of a sequence",
        ),
        (one, {"warmup": True}, f"{AS_THEY_ARE}warmup= does not go with that: there are no declared inputs"),
        (one, {"check_shapes": False}, f"{AS_THEY_ARE}check_shapes= does not go with that: no shapes are declared"),
        (many, {"batching": Batching(sizes=[1, 4])}, f"{AS_THEY_ARE}Batching(sizes=...) does not go with that: rows "),
        (
            many,
            {"batching": Batching(window=2.0)},
            f"{AS_THEY_ARE}Batching(window=...) does not go with that: rows are",
        ),
        (
            many,
            {"batching": Batching(retry_on_oom=True)},
            f"{AS_THEY_ARE}Batching(retry_on_oom=...) does not go with that",
        ),
        (
            many,
            {"batching": Batching(cost=Dim("x"), max_cost=5)},
            f"{AS_THEY_ARE}Batching(cost=...) does not go with that",
        ),
        (one, {"routes": "POST /a"}, "model 'm': routes must be a list such as ['POST /score/{name}'], not 'POST /a'"),
        (one, {"routes": [1]}, "model 'm': routes has 1, expected a text such as 'POST /score/{name}'"),
    ],
)
def test_what_does_not_go_with_requests_as_they_are_is_refused(handler: Any, options: Any, message: str) -> None:
    with pytest.raises(SignatureError) as caught:
        model(handler, name="m", **options)
    assert str(caught.value)[: len(message)] == message


def test_routes_are_for_requests_as_they_are() -> None:
    with pytest.raises(SignatureError, match=r"^model 'm': routes= is for a handler that takes `request: penstock"):
        model(lambda x: x, name="m", inputs=[X], outputs=[X], routes=["POST /a"])


def test_what_is_no_route_is_refused_with_its_model() -> None:
    with pytest.raises(SignatureError, match=r"""^model 'm': the route "a" has no method or no path, expected"""):
        _core.InProcessServer([model(one, name="m", routes=["a"]).definition()], Client(one)._config)


def test_a_handler_is_called_with_requests_made_by_hand() -> None:
    @model(routes=["PUT /a/{b}"])
    def told(request: Request) -> Any:
        return request

    x = np.ones(2, np.float32)
    asked = told(
        Request(
            tensors={"x": x, "t": np.array(["a"])},
            id="i",
            headers={"X-A": "b"},
            parameters={"p": 1},
            outputs=["y"],
            tensor_parameters={"x": {"q": 2.5}},
        )
    )
    assert asked.tensors["x"] is x
    assert asked.datatypes == {"x": "FP32", "t": "BYTES"}
    assert (asked.id, asked.headers, asked.parameters, asked.outputs) == ("i", {"x-a": "b"}, {"p": 1}, ("y",))
    assert asked.tensor_parameters == {"x": {"q": 2.5}, "t": {}}
    assert (asked.protocol, asked.route, asked.body, asked.deadline) == ("inprocess", None, b"", None)
    assert repr(asked) == 'Request(id="i", tensors=["x", "t"])'
    routed = Request(route="PUT /a/{b}", method="PUT", path="/a/c", query="d=e", path_params={"b": "c"}, body=b"body")
    assert (routed.route, routed.method, routed.path, routed.query) == ("PUT /a/{b}", "PUT", "/a/c", "d=e")
    assert (routed.path_params, routed.body, routed.tensors) == ({"b": "c"}, b"body", {})
    assert repr(routed) == "Request(PUT /a/c, 4 bytes)"
    with pytest.raises(TypeError, match=r"^tensor 'x' is no array of a type that the protocol has$"):
        Request(tensors={"x": [1]})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match=r"^tensor 'x' is no array of a type"):
        Request(tensors={"x": np.ones(1, np.complex64)})


def test_an_answer_shows_what_it_is() -> None:
    answer = Response("hü", status=201, headers=[("A", "1"), ("a", "2")], parameters={"p": True})
    assert (answer.body, answer.status, answer.outputs, answer.parameters) == ("hü".encode(), 201, None, {"p": True})
    assert answer.headers == (("a", "1"), ("a", "2"), ("content-type", "text/plain; charset=utf-8"))
    assert repr(answer) == "Response(201, 3 bytes)"
    assert Response(memoryview(b"x")).headers == (("content-type", "application/octet-stream"),)
    assert Response(b"x", headers={"Content-Type": "a/b"}).headers == (("content-type", "a/b"),)
    assert Response(b"x", headers={"Content-Type": "a/b"}, content_type="c/d").headers == (("content-type", "c/d"),)
    outputs = Response(outputs={"y": [1]})
    assert (outputs.outputs, outputs.headers, repr(outputs)) == ({"y": [1]}, (), "Response(200, outputs=['y'])")
    assert repr(Response(status=204)) == "Response(204)"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"status": 100}, ValueError, "status must be from 200 to 599, not 100"),
        ({"status": 600}, ValueError, "status must be from 200 to 599, not 600"),
        ({"body": b"", "outputs": {}}, ValueError, "an answer has a body or outputs, not both"),
        ({"headers": {"a b": "c"}}, ValueError, '"a b" is not the name of a header'),
        ({"headers": {"A": "b\r\nc: d"}}, ValueError, "header 'a' has a value with control characters"),
        ({"content_type": "a\n"}, ValueError, "header 'content-type' has a value with control characters"),
        ({"headers": [1]}, TypeError, "headers are a dict of texts, or pairs of a name and a value"),
        ({"body": 7}, TypeError, "a body is bytes or str, not int; outputs= takes arrays by name"),
        ({"parameters": {"a": None}}, TypeError, "a parameter is a bool, int, float or str, got NoneType"),
    ],
)
def test_what_cannot_be_sent_is_refused_where_it_is_made(arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        Response(**arguments)
    assert str(caught.value)[: len(message)] == message
