"""Models of each datatype and shape, served over a socket and in process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from http_by_hand import HttpResponse, post
from penstock import Batching, Context, Server, Tensor, model
from penstock.testing import Client

DATATYPES = ("BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64")


def identity(datatype: Any, name: str, row: list[int]) -> Any:
    """Returns its rows."""
    inputs, outputs = [Tensor("x", datatype, row)], [Tensor("y", datatype, row)]
    return model(lambda x: x, name=name, inputs=inputs, outputs=outputs, batching=Batching(max_size=8))


@model(
    inputs=[Tensor("a", np.float32, [2]), Tensor("n", np.int64, [1]), Tensor("words", str, [2], optional=True)],
    outputs=[Tensor("sum", np.float32, [1]), Tensor("same", str, [2])],
    batching=Batching(max_size=8),
)
def mixed(a: Any, n: Any, words: Any = None) -> Any:
    """Several inputs and outputs."""
    if words is None:
        words = [["", "é"]] * len(a)
    return a.sum(axis=1, keepdims=True) + n.astype(np.float32), words


@model(inputs=[Tensor("x", np.float32, [])], outputs=[Tensor("y", np.float32, [])])
def scalar(x: Any) -> Any:
    """A number."""
    return x * 2


@model(inputs=[Tensor("x", np.float32, [-1])], outputs=[Tensor("y", bytes, [-1]), Tensor("z", np.float32, [-1])])
def unencodable(x: Any) -> Any:
    """Outputs that some formats cannot hold: an element that ends in zero, and different lengths."""
    return [b"a\0", b"b"], x


@model(inputs=[Tensor("x", np.float32, [1])], outputs=[Tensor("y", np.float32, [1])])
def scaled(x: Any, ctx: Context) -> Any:
    """Multiplies by a parameter."""
    return x * np.float32(ctx.parameters.get("factor", 1))


MODELS = [
    *(identity(datatype, f"ident_{datatype}", [2, 3]) for datatype in (*DATATYPES, "BF16")),
    identity(bytes, "ident_BYTES", [2]),
    identity(str, "ident_text", [2]),
    mixed,
    scalar,
    unencodable,
    scaled,
]

Infer = Callable[..., HttpResponse]


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with Server(*MODELS, http="127.0.0.1:0", grpc=None) as server:
        yield server


@pytest.fixture(scope="session")
def client() -> Iterator[Client]:
    with Client(*MODELS) as client:
        yield client


@pytest.fixture(params=["rest", "in-process"])
def infer(request: pytest.FixtureRequest, server: Server, client: Client) -> Infer:
    """Function that posts a body to a model: `infer("add", body, "application/x-npy", query="id=1", accept="...")`."""

    def post_body(
        name: str, body: bytes, content_type: str | None, *, query: str = "", accept: str | None = None, **headers: str
    ) -> HttpResponse:
        all_headers = {name.replace("_", "-"): value for name, value in headers.items()}
        all_headers |= {"Content-Type": content_type} if content_type else {}
        all_headers |= {"Accept": accept} if accept else {}
        path = f"/v2/models/{name}/infer" + (f"?{query}" if query else "")
        if request.param == "rest":
            return post(server.http_url, path, body, all_headers)
        response = client.post(path, body, headers=all_headers)
        return HttpResponse(response.status, response.headers, response.body)

    return post_body
