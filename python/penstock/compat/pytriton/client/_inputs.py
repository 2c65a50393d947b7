"""Checks of what a caller gives, and its form for the native client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Union

import numpy as np

from penstock.compat.pytriton.client.exceptions import PyTritonClientInferenceServerError, PyTritonClientValueError
from penstock.compat.pytriton.model_config.triton_model_config import TensorSpec

__all__ = ["Inputs", "Values", "arrays", "check_arguments", "check_values", "headers_of", "parameters_of"]

Array = np.ndarray[Any, Any]
Inputs = Union["tuple[Any, ...]", "dict[str, Any]"]
Values = Union["dict[str, str | int | bool]", None]

_OF_THE_PROTOCOL = {"binary_data_output", "headers", "sequence_end", "sequence_id", "sequence_start"}


def check_arguments(positional: tuple[Any, ...], named: Mapping[str, Any]) -> None:
    """Refuses both kinds of arguments at once, and none at all."""
    if not positional and not named:
        raise PyTritonClientValueError("Provide input data")
    if positional and named:
        raise PyTritonClientValueError("Use either positional either keyword method arguments convention")


def check_values(values: Any) -> None:
    """Refuses parameters or headers that cannot be sent."""
    if values is None:
        return
    if not isinstance(values, dict):
        raise PyTritonClientValueError("Parameters and headers must be a dictionary")
    for name, value in values.items():
        if not isinstance(name, str):
            raise PyTritonClientValueError("Parameter/header key must be a string")
        if not isinstance(value, (str, int, bool)):
            raise PyTritonClientValueError("Parameter/header value must be a string, integer or boolean")


def parameters_of(parameters: Values) -> Values:
    """The parameters, if none is one that the protocol keeps for itself."""
    for name in parameters or ():
        if name in _OF_THE_PROTOCOL or name.startswith("triton_"):
            raise PyTritonClientInferenceServerError(
                "Error occurred during inference request. "
                f'Message: Parameter "{name}" is a reserved parameter and cannot be specified.'
            )
    return parameters


def headers_of(headers: Values) -> dict[str, str] | None:
    """The headers as text."""
    return None if not headers else {name: str(value) for name, value in headers.items()}


def arrays(inputs: Inputs, specs: Sequence[TensorSpec], is_sample: bool) -> dict[str, Array]:
    """The arrays by name, each of which can be sent.

    Args:
        inputs: The arrays, by name or in the order of the model's inputs. As in PyTriton, those beyond
            the last input are dropped.
        specs: The model's inputs.
        is_sample: Whether they lack the batch axis that the model wants.
    """
    if isinstance(inputs, tuple):
        inputs = {spec.name: array for spec, array in zip(specs, inputs, strict=False)}
    for name, array in inputs.items():
        _check(name, array)
    # A view: nothing is copied.
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
