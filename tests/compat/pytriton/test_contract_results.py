"""3.2, 3.3: valid and invalid results of a callable."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from bound import X, Y, bound, rows

from penstock import HandlerError
from penstock.compat.pytriton.decorators import batch, sample
from penstock.compat.pytriton.model_config import Tensor

ONE = np.ones((2, 1), np.float32)
FAILED = "Failed to process the request(s) for model 'm_0_0', message: TritonModelException: Model execute error: "


def infer_result(returned: Any, **options: Any) -> Any:
    """Returns the response to two rows from a callable that returns this value."""
    with bound(lambda requests: returned, **options) as client:
        return client.infer("m", {"x": rows(1, 2)})


def rejection(returned: Any, **options: Any) -> str:
    with pytest.raises(HandlerError) as caught:
        infer_result(returned, **options)
    text = str(caught.value)
    assert text.startswith(FAILED)
    return text.removeprefix(FAILED)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (
            {"y": ONE},
            "ValueError: Outputs returned by `m` model callable must be list of response dicts with numpy arrays. "
            "Got outputs={'y': array([[1.],\n       [1.]], dtype=float32)} instead.",
        ),
        (
            None,
            "ValueError: Outputs returned by `m` model callable must be list of response dicts with numpy arrays. "
            "Got outputs=None instead.",
        ),
        (
            [],
            "ValueError: Number of outputs returned by `m` inference callable (0) does not match "
            "number of requests (1) received from Triton.",
        ),
        (
            [3],
            "ValueError: Outputs returned by `m` model callable must be list of response dicts with numpy arrays. "
            "Got response=3 instead.",
        ),
        ([{3: ONE}], "ValueError: Not all keys returned by `m` model callable are string"),
        ([{"y": [[1], [2]]}], "ValueError: Not all values returned by `m` model callable are numpy arrays"),
        (
            [{"y": ONE.astype(complex)}],
            "ValueError: Only bool, numeric, string, unicode and object arrays are supported by Triton "
            "(dtype.kind: biufOSU). Returned `y` for model `m` has `c` dtype.kind.",
        ),
        (
            [{"y": np.array([["a"], ["b"]], object)}],
            "ValueError: Use string/byte-string instead of object for passing string in NumPy array from model `m`.",
        ),
        (
            [{"y": np.array([[1], [2]], object)}],
            "ValueError: Only bytes as objects dtype are supported by PyTriton. Returned `y` from `m` has "
            "`<class 'int'>` type.",
        ),
    ],
)
def test_invalid_results_are_rejected(returned: Any, message: str, *, strict: bool) -> None:
    assert rejection(returned, strict=strict) == message


@pytest.mark.parametrize("array", [np.array([["a"], ["ü"]]), np.array([[b"a"], ["ü".encode()]], object)])
def test_text_outputs_are_sent_as_bytes(array: Any) -> None:
    for strict in (False, True):
        result = infer_result([{"y": array}], outputs=(Tensor((1,), bytes, "y"),), strict=strict)
        assert result["y"].tolist() == [[b"a"], ["ü".encode()]]


def test_other_dtypes_are_cast_unless_strict() -> None:
    assert infer_result([{"y": ONE.astype(np.float64)}])["y"].dtype == np.float32
    assert rejection([{"y": ONE.astype(np.float64)}], strict=True) == (
        "ValueError: Returned output `y` for model `m` has invalid type. "
        "Returned: float64 (f). Expected: <class 'numpy.float32'>."
    )


@pytest.mark.parametrize("shape", [(2, 2, 2), (2,), (7, 3), ()])
def test_other_shapes_are_sent_unchanged_unless_strict(shape: tuple[int, ...]) -> None:
    array = np.ones(shape, np.float32)
    assert infer_result([{"y": array}])["y"].shape == shape
    if len(shape) == 2:
        # The batch axis is not checked.
        assert infer_result([{"y": array}], strict=True)["y"].shape == shape
    else:
        assert rejection([{"y": array}], strict=True) == (
            f"ValueError: Returned output `y` for model `m` has invalid shapes. Returned: {shape[1:]}. Expected: (-1,)."
        )


def test_strict_checks_axes_of_known_size() -> None:
    outputs = (Tensor((3,), np.float32, "y"),)
    assert infer_result([{"y": np.ones((2, 2), np.float32)}], outputs=outputs)["y"].shape == (2, 2)
    assert rejection([{"y": np.ones((2, 2), np.float32)}], outputs=outputs, strict=True) == (
        "ValueError: Returned output `y` for model `m` has invalid shapes at one or more positions. "
        "Returned: (2,). Expected: (3,)."
    )


def test_undeclared_outputs_are_dropped_unless_strict() -> None:
    assert list(infer_result([{"y": ONE, "z": ONE}])) == ["y"]
    assert rejection([{"y": ONE, "z": ONE}], strict=True) == (
        "ValueError: Returned output `z` is not defined in model config for model `m`."
    )


@pytest.mark.parametrize("strict", [False, True])
def test_missing_outputs_are_omitted_from_the_response(strict: bool) -> None:
    assert infer_result([{}], strict=strict) == {}
    outputs = (Y, Tensor((1,), np.float32, "z"))
    assert list(infer_result([{"z": ONE}], outputs=outputs, strict=strict)) == ["z"]


def test_batch_decorator_may_omit_an_output() -> None:
    @batch
    def infer(x: Any) -> dict[str, Any]:
        return {"z": x * 2}

    with bound(infer, outputs=(Y, Tensor((1,), np.float32, "z"))) as client:
        outputs = client.infer("m", {"x": rows(1, 2)})
    assert {name: array.tolist() for name, array in outputs.items()} == {"z": [[2.0], [4.0]]}


def test_unrequested_outputs_may_be_omitted() -> None:
    requested = []

    def infer(requests: list[Any]) -> list[dict[str, Any]]:
        requested.append(requests[0].requested_output_names)
        return [dict.fromkeys(request.requested_output_names, request["x"]) for request in requests]

    with bound(infer, outputs=(Y, Tensor((1,), np.float32, "z"))) as client:
        assert list(client.infer("m", {"x": rows(1)}, outputs=["z"])) == ["z"]
        assert sorted(client.infer("m", {"x": rows(1)})) == ["y", "z"]
    assert requested == [["z"], ["y", "z"]]


def test_batch_decorator_checks_rows_of_outputs() -> None:
    @batch
    def infer(x: Any) -> dict[str, Any]:
        return {"y": x[:1], "z": x}

    with bound(infer, outputs=(Y, Tensor((1,), np.float32, "z"))) as client, pytest.raises(HandlerError) as caught:
        client.infer("m", {"x": rows(1, 2)})
    assert str(caught.value) == (
        f"{FAILED}ValueError: Received output tensors with different batch sizes: y: (1, 1). Expected batch size: 2. "
    )


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ([ONE, ONE], "PyTritonValidationError: Outputs length different than config outputs length"),
        (3, "PyTritonValidationError: Unsupported output type <class 'int'>."),
    ],
)
@pytest.mark.parametrize("decorator", [batch, sample])
def test_decorators_reject_invalid_output_lists(decorator: Any, returned: Any, message: str) -> None:
    batching = decorator is batch
    with bound(decorator(lambda x: returned), batching=batching) as client, pytest.raises(HandlerError) as caught:
        client.infer("m", {"x": rows(1, 2) if batching else rows(1, 2).ravel()})
    assert str(caught.value) == FAILED + message


@pytest.mark.parametrize("strict", [False, True])
def test_batch_decorator_honours_strict(*, strict: bool) -> None:
    returned = {"y": np.ones((2, 2, 2)), "z": ONE}
    with bound(batch(lambda x: returned), strict=strict) as client:
        if strict:
            with pytest.raises(HandlerError, match="has invalid type"):
                client.infer("m", {"x": rows(1, 2)})
        else:
            result = client.infer("m", {"x": rows(1, 2)})
            assert (list(result), result["y"].shape, result["y"].dtype) == (["y"], (2, 2, 2), np.float32)


def test_sample_decorator_serves_a_model_without_batching() -> None:
    @sample
    def infer(x: Any) -> list[Any]:
        return [x.sum(keepdims=True)]

    with bound(infer, inputs=(X,), batching=False) as client:
        assert client.infer("m", {"x": np.arange(4, dtype=np.float32)})["y"].tolist() == [6]
