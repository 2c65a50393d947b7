"""Hints of clients: options that are meant as inputs, and misspelled names."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from penstock import AsyncClient, Client, InvalidInput, NotFound, Server, Tensor, model


@model(inputs=[Tensor("x", np.float32, [2])], outputs=[Tensor("y", np.float32, [2])])
def double(x: Any) -> Any:
    return x * 2


@model
def timed(x: float, timeout: float = 2.0, version: str = "a") -> float:
    return x * timeout


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(double, timed, http="127.0.0.1:0", grpc="same") as server:
        yield server


Infer = Callable[..., Any]


@pytest.fixture(params=["http", "grpc", "async"])
def infer(request: pytest.FixtureRequest, server: Server) -> Iterator[Infer]:
    if request.param == "async":

        def run(*arguments: Any, **options: Any) -> Any:
            async def once() -> Any:
                async with AsyncClient(server.http_url) as client:
                    if options.pop("knows", False):
                        await client.infer("timed", x=1.0)
                    return await client.infer(*arguments, **options)

            return asyncio.run(once())

        yield run
        return
    with Client(server.http_url if request.param == "http" else f"grpc://{server.grpc_url}") as client:

        def call(*arguments: Any, **options: Any) -> Any:
            if options.pop("knows", False):
                client.infer("timed", x=1.0)
            return client.infer(*arguments, **options)

        yield call


ROW = np.ones(2, np.float32)


def test_unknown_model_names_the_nearest(infer: Infer) -> None:
    with pytest.raises(NotFound, match=r"'doubel'.*, did you mean 'double'\?$"):
        infer("doubel", x=ROW)
    with pytest.raises(NotFound) as raised:
        infer("zebra", x=ROW)
    assert "did you mean" not in str(raised.value)


def test_unknown_input_names_the_nearest(infer: Infer) -> None:
    for value in (ROW, [1.0, 2.0]):
        with pytest.raises(InvalidInput, match=r"'xx'.*, did you mean 'x'\?$"):
            infer("double", xx=value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("timeout", [3.0]),
        ("timeout", ROW),
        ("timeout", "3"),
        ("version", ROW),
        ("version", ["1"]),
        ("headers", ["a"]),
        ("outputs", "y"),
        ("outputs", ROW),
        ("outputs", [1, 2]),
        ("parameters", 3),
        ("request_id", 7),
        ("datatypes", "BF16"),
    ],
)
def test_value_that_cannot_be_the_options_is_refused(infer: Infer, name: str, value: Any) -> None:
    hint = f"; an input of that name is written inputs={{'{name}': ...}}"
    with pytest.raises(InvalidInput, match=f"^{name} is .*, expected .*{re.escape(hint)}$"):
        infer("double", x=ROW, **{name: value})


def test_option_that_is_a_known_input_is_refused(infer: Infer) -> None:
    for options in ({"timeout": 30.0}, {"version": "1"}):
        (name,) = options
        with pytest.raises(InvalidInput, match=f"^{name} is an option of the client, and an input of this model"):
            infer("timed", x=2.0, knows=True, **options)


def test_mapping_takes_inputs_named_as_options(infer: Infer) -> None:
    assert infer("timed", inputs={"x": 2.0, "timeout": 3.0}).json() == 6.0
    assert infer("timed", {"x": 2.0, "timeout": 3.0}, knows=True, timeout=30.0).json() == 6.0
    assert infer("double", inputs={"x": ROW}).y.tolist() == [2, 2]


def test_options_of_models_without_such_inputs_are_options(infer: Infer) -> None:
    assert infer("double", x=[1.0, 2.0], timeout=30, version=1, outputs=("y",), parameters={}).y.tolist() == [2, 4]
