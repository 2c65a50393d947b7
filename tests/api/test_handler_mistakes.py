"""Handlers that break their signature: 500, with the returned and the declared value in the message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from penstock import Batching, HandlerError, Model, Tensor, model
from penstock.testing import Client

X = np.ones((3, 2), np.float32)


def returning(make: Callable[[Any], Any], **options: Any) -> Model[..., Any]:
    """A model that declares y, FP32 [-1, 2], and returns `make(x)`."""
    settings: dict[str, Any] = {
        "inputs": [Tensor("x", np.float32, [2])],
        "outputs": [Tensor("y", np.float32, [2])],
        "batching": Batching(max_size=8),
        **options,
    }
    # The handler's parameters are inspected, and those of `make` vary.
    return model(lambda x: make(x), name="m", **settings)  # noqa: PLW0108


def infer(served: Model[..., Any], x: Any = X) -> dict[str, Any]:
    with Client(served) as client:
        return client.infer("m", {"x": x})


def error_message(served: Model[..., Any]) -> str:
    """The message of a 500; the model must still be ready afterwards."""
    with Client(served) as client:
        messages = []
        for _ in range(2):
            with pytest.raises(HandlerError) as raised:
                client.infer("m", {"x": X})
            assert client.last_response is not None
            assert client.last_response.status == 500
            messages.append(str(raised.value))
        assert client.get("/v2/models/m/ready").status == 200
    assert messages[0] == messages[1]
    return messages[0]


WRONG: dict[str, tuple[Callable[[Any], Any], str]] = {
    "name": (lambda x: {"z": x}, "model 'm' returned an output named z, declared 'y'"),
    "name-too-many": (lambda x: {"y": x, "z": x}, "model 'm' returned an output named z, declared 'y'"),
    "name-missing": (lambda x: {}, "model 'm' returned no output 'y', declared 'y'"),
    "datatype": (
        lambda x: x.astype(np.float64),
        "model 'm' returned an array of float64 for output 'y', declared FP32 (float32)",
    ),
    "integers": (
        lambda x: x.astype(np.int64),
        "model 'm' returned an array of int64 for output 'y', declared FP32 (float32)",
    ),
    "structured": (
        lambda x: np.zeros(3, [("a", "f4"), ("b", "f4")]),
        "model 'm' returned an array of [('a', '<f4'), ('b', '<f4')] for output 'y', declared FP32 (float32)",
    ),
    "rank-low": (lambda x: x[:, 0], "model 'm' returned output 'y' with shape [3], declared [-1, 2]"),
    "rank-high": (lambda x: x[None], "model 'm' returned output 'y' with shape [1, 3, 2], declared [-1, 2]"),
    "rank-0": (lambda x: np.float32(1), "model 'm' returned output 'y' with shape [], declared [-1, 2]"),
    "size": (
        lambda x: np.ones((3, 5), np.float32),
        "model 'm' returned output 'y' with shape [3, 5], declared [-1, 2]",
    ),
    "rows-few": (lambda x: x[:2], "model 'm' returned output 'y' with 2 rows for a batch of 3"),
    "rows-many": (lambda x: np.repeat(x, 2, 0), "model 'm' returned output 'y' with 6 rows for a batch of 3"),
    "rows-none": (lambda x: x[:0], "model 'm' returned output 'y' with 0 rows for a batch of 3"),
    "text": (lambda x: "hello", "model 'm' returned a str for output 'y', declared FP32 (float32)"),
    "object": (lambda x: object(), "model 'm' returned a object for output 'y', declared FP32 (float32)"),
    "none": (lambda x: None, "model 'm' returned a NoneType for output 'y', declared FP32 (float32)"),
    "ragged": (lambda x: [[1, 2], [3], [4, 5]], "model 'm' returned a list for output 'y', declared FP32 (float32)"),
    "tuple-long": (lambda x: (x, x), "model 'm' returned a tuple of 2, declared 1 outputs: 'y'"),
    "tuple-empty": (lambda x: (), "model 'm' returned a tuple of 0, declared 1 outputs: 'y'"),
}


@pytest.mark.fault("wrong shape", "wrong datatype")
@pytest.mark.parametrize(("make", "message"), WRONG.values(), ids=WRONG)
def test_invalid_single_output_is_a_handler_error(make: Callable[[Any], Any], message: str) -> None:
    assert error_message(returning(make)) == message


def test_none_is_not_accepted_as_a_number() -> None:
    # numpy converts None to NaN: a missing `return` would look like a result.
    served = model(
        lambda x: None, name="m", inputs=[Tensor("x", np.float32, [3, 2])], outputs=[Tensor("y", np.float32)]
    )
    assert error_message(served) == "model 'm' returned a NoneType for output 'y', declared FP32 (float32)"


TWO = {"outputs": [Tensor("y", np.float32, [2]), Tensor("z", np.int64, [])]}


@pytest.mark.fault("wrong count")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda x: x, "model 'm' returned a ndarray, declared 2 outputs: 'y', 'z'"),
        (lambda x: (x,), "model 'm' returned a tuple of 1, declared 2 outputs: 'y', 'z'"),
        (lambda x: {"y": x}, "model 'm' returned no output 'z', declared 'y', 'z'"),
        (
            lambda x: (np.arange(3), x),
            "model 'm' returned an array of int64 for output 'y', declared FP32 (float32)",
        ),
        (lambda x: (x, np.arange(2)), "model 'm' returned output 'z' with 2 rows for a batch of 3"),
    ],
)
def test_invalid_outputs_of_two_are_a_handler_error(make: Callable[[Any], Any], message: str) -> None:
    assert error_message(returning(make, **TWO)) == message


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda x: x, "model 'm' returned an element of type a float for output 'y', declared BYTES (bytes or str)"),
        (
            lambda x: np.array([1, 2, 3]),
            "model 'm' returned an element of type a int for output 'y', declared BYTES (bytes or str)",
        ),
        (lambda x: ["a", "b", None], "model 'm' returned an element of type a NoneType for output 'y', declared BYTES"),
        (lambda x: ["a", "b"], "model 'm' returned output 'y' with 2 rows for a batch of 3"),
        (lambda x: ["a", "b", "\ud800"], "model 'm' returned an element of type a str for output 'y', declared BYTES"),
    ],
)
def test_invalid_bytes_output_is_a_handler_error(make: Callable[[Any], Any], message: str) -> None:
    assert error_message(returning(make, outputs=[Tensor("y", bytes, [])])).startswith(message)


def test_model_without_outputs_must_return_none() -> None:
    served = returning(lambda x: None, outputs=[])
    assert infer(served) == {}
    assert "declared 0 outputs" in error_message(returning(lambda x: x, outputs=[]))


def _read_only(x: Any) -> Any:
    copy = x.copy()
    copy.flags.writeable = False
    return copy


def _unaligned(x: Any) -> Any:
    memory = np.zeros(x.nbytes + 1, np.uint8)[1:]
    copy = memory.view(np.float32).reshape(x.shape)
    copy[...] = x
    return copy


RIGHT: dict[str, Callable[[Any], Any]] = {
    "unchanged": lambda x: x,
    "tuple": lambda x: (x,),
    "dict": lambda x: {"y": x},
    "list": lambda x: x.tolist(),
    "fortran-order": np.asfortranarray,
    "transposed": lambda x: np.ascontiguousarray(x.T).T,
    "reversed": lambda x: x[::-1][::-1],
    "strided": lambda x: np.repeat(x, 2, 0)[::2],
    "broadcast": lambda x: np.broadcast_to(np.ones(2, np.float32), (3, 2)),
    "read-only": _read_only,
    "subclass": lambda x: x.view(np.matrix) if hasattr(np, "matrix") else x,
    "unaligned": _unaligned,
}


@pytest.mark.parametrize("make", RIGHT.values(), ids=RIGHT)
@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_valid_values_are_served_in_every_layout(make: Callable[[Any], Any]) -> None:
    assert infer(returning(make))["y"].tolist() == X.tolist()


@pytest.mark.fault("not contiguous")
def test_arrays_are_sent_in_logical_order() -> None:
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    assert infer(returning(np.asfortranarray), x)["y"].tolist() == x.tolist()
    assert infer(returning(lambda x: x[::-1]), x)["y"].tolist() == x[::-1].tolist()
    assert infer(returning(lambda x: x[:, ::-1]), x)["y"].tolist() == x[:, ::-1].tolist()


def test_big_endian_array_is_rejected() -> None:
    message = error_message(returning(lambda x: x.astype(">f4")))
    assert message == "model 'm' returned an array of >f4 for output 'y', declared FP32 (float32)"


@pytest.mark.fault("wrong count")
def test_handler_error_affects_only_its_own_batch() -> None:
    served = returning(lambda x: x if x[0, 0] > 0 else x[:0])
    with Client(served) as client:
        with pytest.raises(HandlerError, match="0 rows for a batch of 3"):
            client.infer("m", {"x": -X})
        assert client.infer("m", {"x": X})["y"].tolist() == X.tolist()
