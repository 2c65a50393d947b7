"""Validation of a call's arguments, and their conversion for the native client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Union

import numpy as np

from penstock.compat.pytriton.client.exceptions import PyTritonClientInferenceServerError, PyTritonClientValueError
from penstock.compat.pytriton.model_config.triton_model_config import TensorSpec

__all__ = ["Inputs", "Values", "check_arguments", "check_parameters", "check_values", "to_arrays", "to_header_texts"]

Array = np.ndarray[Any, Any]
Inputs = Union["tuple[Any, ...]", "dict[str, Any]"]
Values = Union["dict[str, str | int | bool]", None]

_RESERVED_PARAMETERS = {"binary_data_output", "headers", "sequence_end", "sequence_id", "sequence_start"}


def check_arguments(positional: tuple[Any, ...], named: Mapping[str, Any]) -> None:
    """Rejects calls with positional and named inputs, and calls without inputs."""
    if not positional and not named:
        raise PyTritonClientValueError("Provide input data")
    if positional and named:
        raise PyTritonClientValueError("Use either positional either keyword method arguments convention")


def check_values(values: Any) -> None:
    """Rejects parameters or headers of unsupported types."""
    if values is None:
        return
    if not isinstance(values, dict):
        raise PyTritonClientValueError("Parameters and headers must be a dictionary")
    for name, value in values.items():
        if not isinstance(name, str):
            raise PyTritonClientValueError("Parameter/header key must be a string")
        if not isinstance(value, (str, int, bool)):
            raise PyTritonClientValueError("Parameter/header value must be a string, integer or boolean")


def check_parameters(parameters: Values) -> Values:
    """Returns the parameters. Rejects the names that the protocol reserves."""
    for name in parameters or ():
        if name in _RESERVED_PARAMETERS or name.startswith("triton_"):
            raise PyTritonClientInferenceServerError(
                "Error occurred during inference request. "
                f'Message: Parameter "{name}" is a reserved parameter and cannot be specified.'
            )
    return parameters


def to_header_texts(headers: Values) -> dict[str, str] | None:
    """Returns the headers with text values."""
    return None if not headers else {name: str(value) for name, value in headers.items()}


def to_arrays(inputs: Inputs, specs: Sequence[TensorSpec], is_sample: bool) -> dict[str, Array]:
    """Validates the arrays, and returns them by name.

    Args:
        inputs: Arrays, by name or in the order of the model's inputs. Same as PyTriton, excess arrays are ignored.
        specs: Inputs of the model.
        is_sample: The arrays lack the batch axis of the model.
    """
    if isinstance(inputs, tuple):
        inputs = {spec.name: array for spec, array in zip(specs, inputs, strict=False)}
    for name, array in inputs.items():
        _check(name, array)
    # A view, without a copy.
    return {name: array[np.newaxis, ...] for name, array in inputs.items()} if is_sample else inputs


def _check(name: str, array: Any) -> None:
    if not isinstance(array, np.ndarray):
        raise PyTritonClientValueError(f"Input {name} is not a numpy array. Got {type(array)} instead.")
    kind = array.dtype.kind
    if kind == "O" and array.size and not isinstance(array.flat[0], bytes):
        raise RuntimeError(
            f"Numpy array for {name!r} input with dtype=object should contain encoded strings "
            f"(e.g. into utf-8). Element type: {type(array.flat[0])}"
        )
    if kind == "U":
        raise RuntimeError(
            "Unicode inputs are not supported. "
            f"Encode numpy array for {name!r} input (ex. with np.char.encode(array, 'utf-8'))."
        )
