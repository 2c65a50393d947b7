"""Declaration of raw-request models, and options that they do not support."""

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


def handle_one(request: Request) -> Response:
    return Response()


def handle_by_text(request: penstock.Request) -> Any:
    return {}


def with_context(ctx: Context, request: Request) -> Any:
    return {}


def with_default(request: Request, verbose: bool = False) -> Any:
    return {}


def handle_list(requests: list[Request]) -> list[Response]:
    return [Response() for _ in requests]


def handle_list_by_text(requests: list[penstock.Request]) -> Any:
    return [{} for _ in requests]


def handle_sequence(requests: Sequence[Request]) -> Any:
    return [{} for _ in requests]


def stream(request: Request) -> Iterator[Response]:
    yield Response()


@pytest.mark.parametrize("handler", [handle_one, handle_by_text, with_context, with_default, stream])
def test_request_handler_declares_no_tensors(handler: Any) -> None:
    raw_model = model(handler, name="m", queueing=Queueing(priorities=2), routes=iter(["POST /a"]))
    assert raw_model.open
    assert (raw_model.inputs, raw_model.outputs, raw_model.routes) == ((), (), ("POST /a",))
    assert raw_model.definition().open
    with Client(raw_model) as client:
        assert client.infer("m", {"x": np.ones(1)}) == {}


@pytest.mark.parametrize("handler", [handle_list, handle_list_by_text, handle_sequence])
def test_list_handler_batches(handler: Any) -> None:
    raw_model = model(handler, name="m", batching=Batching(max_size=4, preferred_sizes=[2], max_delay=0.001))
    assert raw_model.open
    with Client(raw_model) as client:
        assert client.infer("m", {"x": np.ones(1)}) == {}


def test_declared_models_are_not_raw_request_models() -> None:
    raw_model = model(lambda x: x, name="m", inputs=[X], outputs=[X])
    assert not raw_model.open
    assert raw_model.routes == ()


RAW_REQUEST_ERROR = "model 'm': the handler takes requests as they are, and "


def handle_with_extra_input(request: Request, x: int) -> Any: ...


@pytest.mark.parametrize(
    ("handler", "options", "message"),
    [
        (
            handle_one,
            {"batching": Batching()},
            "model 'm': parameter 'request' must be list[Request]: with batching= requests ",
        ),
        (handle_list, {}, "model 'm': parameter 'requests' is a list of requests, which needs batching="),
        (
            handle_with_extra_input,
            {},
            "model 'm': parameter 'x' cannot be filled: 'request' is the whole request; only a `ctx: Context`",
        ),
        (handle_one, {"inputs": [X, X]}, "model 'm': input 'x' is declared twice"),
        (handle_one, {"cache": Cache()}, f"{RAW_REQUEST_ERROR}cache= does not go with that: which requests are equal"),
        (
            with_context,
            {"sequences": Sequences()},
            f"{RAW_REQUEST_ERROR}sequences= does not go with that: state of a sequence",
        ),
        (
            handle_one,
            {"warmup": True},
            f"{RAW_REQUEST_ERROR}warmup= does not go with that: there are no declared inputs",
        ),
        (
            handle_one,
            {"check_shapes": False},
            f"{RAW_REQUEST_ERROR}check_shapes= does not go with that: no shapes are declared",
        ),
        (
            handle_list,
            {"batching": Batching(sizes=[1, 4])},
            f"{RAW_REQUEST_ERROR}Batching(sizes=...) does not go with that: rows ",
        ),
        (
            handle_list,
            {"batching": Batching(window=2.0)},
            f"{RAW_REQUEST_ERROR}Batching(window=...) does not go with that: rows are",
        ),
        (
            handle_list,
            {"batching": Batching(retry_on_oom=True)},
            f"{RAW_REQUEST_ERROR}Batching(retry_on_oom=...) does not go with that",
        ),
        (
            handle_list,
            {"batching": Batching(cost=Dim("x"), max_cost=5)},
            f"{RAW_REQUEST_ERROR}Batching(cost=...) does not go with that",
        ),
        (
            handle_one,
            {"routes": "POST /a"},
            "model 'm': routes must be a list such as ['POST /score/{name}'], not 'POST /a'",
        ),
        (handle_one, {"routes": [1]}, "model 'm': routes has 1, expected a text such as 'POST /score/{name}'"),
    ],
)
def test_unsupported_options_are_rejected(handler: Any, options: Any, message: str) -> None:
    with pytest.raises(SignatureError) as raised:
        model(handler, name="m", **options)
    assert str(raised.value)[: len(message)] == message


def test_routes_require_a_request_handler() -> None:
    with pytest.raises(SignatureError, match=r"^model 'm': routes= is for a handler that takes `request: penstock"):
        model(lambda x: x, name="m", inputs=[X], outputs=[X], routes=["POST /a"])


def test_invalid_route_is_rejected_with_its_model() -> None:
    with pytest.raises(SignatureError, match=r"""^model 'm': the route "a" has no method or no path, expected"""):
        _core.InProcessServer([model(handle_one, name="m", routes=["a"]).definition()], Client(handle_one)._config)


def test_handler_accepts_a_constructed_request() -> None:
    @model(routes=["PUT /a/{b}"])
    def handler(request: Request) -> Any:
        return request

    x = np.ones(2, np.float32)
    constructed = handler(
        Request(
            tensors={"x": x, "t": np.array(["a"])},
            id="i",
            headers={"X-A": "b"},
            parameters={"p": 1},
            outputs=["y"],
            tensor_parameters={"x": {"q": 2.5}},
        )
    )
    assert constructed.tensors["x"] is x
    assert constructed.datatypes == {"x": "FP32", "t": "BYTES"}
    assert (constructed.id, constructed.headers, constructed.parameters, constructed.outputs) == (
        "i",
        {"x-a": "b"},
        {"p": 1},
        ("y",),
    )
    assert constructed.tensor_parameters == {"x": {"q": 2.5}, "t": {}}
    assert (constructed.protocol, constructed.route, constructed.body, constructed.deadline) == (
        "inprocess",
        None,
        b"",
        None,
    )
    assert repr(constructed) == 'Request(id="i", tensors=["x", "t"])'
    routed = Request(route="PUT /a/{b}", method="PUT", path="/a/c", query="d=e", path_params={"b": "c"}, body=b"body")
    assert (routed.route, routed.method, routed.path, routed.query) == ("PUT /a/{b}", "PUT", "/a/c", "d=e")
    assert (routed.path_params, routed.body, routed.tensors) == ({"b": "c"}, b"body", {})
    assert repr(routed) == "Request(PUT /a/c, 4 bytes)"
    with pytest.raises(TypeError, match=r"^tensor 'x' is no array of a type that the protocol has$"):
        Request(tensors={"x": [1]})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match=r"^tensor 'x' is no array of a type"):
        Request(tensors={"x": np.ones(1, np.complex64)})


def test_response_normalises_body_status_and_headers() -> None:
    response = Response("hü", status=201, headers=[("A", "1"), ("a", "2")], parameters={"p": True})
    assert (response.body, response.status, response.outputs, response.parameters) == (
        "hü".encode(),
        201,
        None,
        {"p": True},
    )
    assert response.headers == (("a", "1"), ("a", "2"), ("content-type", "text/plain; charset=utf-8"))
    assert repr(response) == "Response(201, 3 bytes)"
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
def test_invalid_response_is_rejected_at_construction(arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as raised:
        Response(**arguments)
    assert str(raised.value)[: len(message)] == message
