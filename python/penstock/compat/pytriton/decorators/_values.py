"""`fill_optionals` and `first_value`: defaults of optional inputs, and inputs with one value for a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.compat.pytriton.decorators._batch import get_inference_request_batch_size
from penstock.compat.pytriton.decorators._context import NOT_INPUTS, SPECIAL_KEYS, get_model_config
from penstock.compat.pytriton.decorators._wrapping import decorator
from penstock.compat.pytriton.exceptions import PyTritonBadParameterError, PyTritonRuntimeError
from penstock.compat.pytriton.model_config.triton_model_config import TensorSpec, TritonModelConfig

__all__ = ["fill_optionals", "first_value"]

Array = npt.NDArray[Any]


def fill_optionals(**defaults: Array) -> Callable[[Any], Any]:
    """Adds default values of missing inputs to the requests. Place it outside all other decorators.

    Args:
        defaults: Value of each input, without a batch axis. Every row gets it.
    """

    def wrapper(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        config = get_model_config(wrapped, instance)
        _check_defaults(defaults, config)
        for request in args[0]:
            missing = {name: value for name, value in defaults.items() if name not in request}
            rows = get_inference_request_batch_size(request) if missing and config.batching else 0
            for name, value in missing.items():
                request[name] = np.tile(value, (rows, *[1] * value.ndim)) if config.batching else value
        return wrapped(*args, **kwargs)

    return decorator(wrapper)


def first_value(*keys: str, squeeze_single_values: bool = True, strict: bool = True) -> Callable[[Any], Any]:
    """Passes the function the first row of these inputs instead of all rows.

    It works inside `batch`, and around functions that take requests. Missing inputs stay missing.

    Args:
        keys: Names of the inputs.
        squeeze_single_values: Pass a row of one element as a scalar.
        strict: Require all rows to be equal.

    Raises:
        PyTritonBadParameterError: a key is a reserved name.
    """
    special = [key for key in keys if key in SPECIAL_KEYS]
    if special:
        raise PyTritonBadParameterError(
            f"The keys {', '.join(special)} are not allowed as keys for @first_value wrapper. "
            f"The set of not allowed keys are {', '.join(SPECIAL_KEYS)}"
        )

    def replace_values(request: Any) -> Any:
        for name in keys:
            if name in request:
                if strict:
                    _check_equal(name, request[name])
                request[name] = _first(request[name], squeeze=squeeze_single_values)
        return request

    def wrapper(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not get_model_config(wrapped, instance).batching:
            raise PyTritonRuntimeError("The @first_value decorator can only be used with models that support batching.")
        if set(kwargs) - set(NOT_INPUTS):
            return wrapped(*args, **replace_values(kwargs))
        requests, *others = args
        return wrapped([replace_values(request) for request in requests], *others, **kwargs)

    return decorator(wrapper)


def _first(values: Array, *, squeeze: bool) -> Any:
    first = values[0]
    return first.reshape(())[()] if squeeze and isinstance(first, np.ndarray) and first.size == 1 else first


def _check_equal(name: str, values: Array) -> None:
    equal = values[1:] == values[:1]
    if values.dtype.kind == "f":
        # As in `numpy.unique`: NaN values are equal to each other.
        equal = equal | (np.isnan(values[1:]) & np.isnan(values[:1]))
    if not np.all(equal):
        raise PyTritonRuntimeError(
            f"The values on the {name!r} input are not equal. "
            "To proceed, either disable strict mode in @first_value wrapper "
            "or ensure that the values always are consistent. "
            f"The current values of {name!r} are {values!r}."
        )


def _check_defaults(defaults: dict[str, Array], config: TritonModelConfig) -> None:
    inputs = {spec.name: spec for spec in config.inputs or ()}
    unknown = sorted(set(defaults) - set(inputs))
    if unknown:
        raise PyTritonBadParameterError(f"Could not found {', '.join(unknown)} inputs")
    invalid = [f"{name}={value}" for name, value in defaults.items() if not isinstance(value, np.ndarray)]
    if invalid:
        raise PyTritonBadParameterError(f"Could not use {', '.join(invalid)} defaults as they are not NumPy arrays")
    types = [
        f"{name}: dtype={value.dtype} expected_dtype={inputs[name].dtype}"
        for name, value in defaults.items()
        if not _same_type(value, inputs[name])
    ]
    if types:
        raise PyTritonBadParameterError(
            f"Could not use {', '.join(types)} defaults as they have different than input signature dtypes"
        )
    shapes = [
        f"{name}: shape={value.shape} expected_shape={inputs[name].shape}"
        for name, value in defaults.items()
        if not _same_shape(value, inputs[name])
    ]
    if shapes:
        raise PyTritonBadParameterError(
            f"Could not use {', '.join(shapes)} defaults as they have different than input signature shapes"
        )


def _same_type(value: Array, spec: TensorSpec) -> bool:
    # Strings arrive as objects, for each of the declared string types.
    are_strings = value.dtype.kind in "OS" and (spec.dtype is bytes or np.dtype(spec.dtype).kind in "OS")
    return are_strings or value.dtype == spec.dtype


def _same_shape(value: Array, spec: TensorSpec) -> bool:
    return len(value.shape) == len(spec.shape) and all(
        wanted in (-1, size) for size, wanted in zip(value.shape, spec.shape, strict=True)
    )
