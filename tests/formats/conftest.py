"""Models of each datatype and shape, behind a socket and in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from http_by_hand import Answer, post
from penstock import Batching, Context, Server, Tensor, model
from penstock.testing import Client

DATATYPES = ("BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64")


def identity(datatype: Any, name: str, row: list[int]) -> Any:
    """Gives back its rows."""
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
def odd(x: Any) -> Any:
    """What some formats cannot hold: an element that ends in zero, and outputs of two lengths."""
    return [b"a\0", b"b"], x


@model(inputs=[Tensor("x", np.float32, [1])], outputs=[Tensor("y", np.float32, [1])])
def told(x: Any, ctx: Context) -> Any:
    """Answers with a parameter."""
    return x * np.float32(ctx.parameters.get("factor", 1))


MODELS = [
    *(identity(datatype, f"ident_{datatype}", [2, 3]) for datatype in (*DATATYPES, "BF16")),
    identity(bytes, "ident_BYTES", [2]),
    identity(str, "ident_text", [2]),
    mixed,
    scalar,
    odd,
    told,
]

Ask = Callable[..., Answer]


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with Server(*MODELS, http="127.0.0.1:0", grpc=None) as server:
        yield server


@pytest.fixture(scope="session")
def client() -> Iterator[Client]:
    with Client(*MODELS) as client:
        yield client


@pytest.fixture(params=["rest", "in-process"])
def ask(request: pytest.FixtureRequest, server: Server, client: Client) -> Ask:
    """Posts a body to a model: `ask("add", body, "application/x-npy", query="id=1", accept="...")`."""

    def asked(
        name: str, body: bytes, kind: str | None, *, query: str = "", accept: str | None = None, **headers: str
    ) -> Answer:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        given |= {"Content-Type": kind} if kind else {}
        given |= {"Accept": accept} if accept else {}
        path = f"/v2/models/{name}/infer" + (f"?{query}" if query else "")
        if request.param == "rest":
            return post(server.http_url, path, body, given)
        answer = client.post(path, body, headers=given)
        return Answer(answer.status, answer.headers, answer.body)

    return asked
