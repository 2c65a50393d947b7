"""`penstock.testing.Client` has the methods of `penstock.Client`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import penstock
from penstock import Context, HandlerError, InvalidInput, NotFound, Sequences, Tensor, model
from penstock.client import Result
from penstock.testing import Client


@model(inputs=[Tensor("x", np.float32, [2])], outputs=[Tensor("y", np.float32, [2]), Tensor("z", np.float32, [2])])
def double(x: Any) -> Any:
    return x * 2, x


@model
def count(n: int) -> Iterator[int]:
    for number in range(n):
        if number == 3:
            raise InvalidInput("three is too much")
        yield number


@model
def timed(x: float, timeout: float = 2.0) -> float:
    return x * timeout


@model(sequences=Sequences())
def total(x: int, ctx: Context) -> int:
    assert ctx.sequence is not None
    state = ctx.sequence.state
    state["total"] = state.get("total", 0) + x
    return int(state["total"])


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with Client(double, count, timed, total) as client:
        yield client


@pytest.mark.parametrize("method", ["infer", "stream", "sequence", "metadata"])
def test_parameters_are_those_of_the_client(method: str) -> None:
    missing = {"timeout", "datatypes"}
    real, test = (inspect.signature(getattr(one, method)).parameters for one in (penstock.Client, Client))
    assert [name for name in real if name not in missing and name not in test] == (
        ["headers"] if method == "metadata" else []
    )
    assert all(real[name].kind == test[name].kind for name in test if name in real)


def test_inputs_may_be_keywords_or_a_mapping(client: Client) -> None:
    for result in (
        client.infer("double", x=[1, 2]),
        client.infer("double", {"x": [1, 2]}),
        client.infer("double", inputs={"x": [1, 2]}),
        client.infer("double", x=[1, 2], binary=False),
    ):
        assert isinstance(result, Result)
        assert result.y.tolist() == [2, 4]
        assert [*result] == ["y", "z"]


def test_result_has_the_metadata_of_the_response(client: Client) -> None:
    result = client.infer("double", x=[1, 2], outputs=["z"], version=1, request_id="one")
    assert (result.model, result.version, result.id) == ("double", "1", "one")
    assert result.value.tolist() == [1, 2]


def test_stream_ends_with_its_error(client: Client) -> None:
    assert [chunk.json() for chunk in client.stream("count", n=3)] == [0, 1, 2]
    chunks = client.stream("count", n=4)
    assert [next(chunks).json() for _ in range(3)] == [0, 1, 2]
    with pytest.raises(HandlerError, match="three is too much"):
        next(chunks)


def test_sequence_and_metadata(client: Client) -> None:
    with client.sequence("total", 7) as sequence:
        assert [sequence.infer(x=2).json(), sequence.infer(x=3, end=True).json()] == [2, 5]
    assert [one["name"] for one in client.metadata("double")["inputs"]] == ["x"]
    with pytest.raises(NotFound):
        client.metadata("doubel")


def test_names_have_hints(client: Client) -> None:
    with pytest.raises(NotFound, match="unknown model 'doubel', did you mean 'double'"):
        client.infer("doubel", x=[1, 2])
    with pytest.raises(InvalidInput, match=r"'xx'.*, did you mean 'x'\?$"):
        client.infer("double", xx=np.ones(2, np.float32))


def test_options_are_not_taken_for_inputs(client: Client) -> None:
    assert client.infer("timed", x=2.0, timeout=3.0).json() == 6.0
    for options in ({"version": np.ones(2)}, {"outputs": "y"}, {"parameters": [1]}, {"headers": 3}, {"request_id": 1}):
        (name,) = options
        with pytest.raises(InvalidInput, match=re.escape(f"an input of that name is written inputs={{'{name}': ...}}")):
            client.infer("timed", x=2.0, **options)
