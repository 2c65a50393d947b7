"""What an inference callable returned: checked, and made into what is sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.compat.pytriton._declared import is_bytes
from penstock.compat.pytriton.model_config.triton_model_config import TensorSpec, TritonModelConfig

__all__ = ["Results"]

Array = npt.NDArray[Any]

_KINDS = "biufOSU"


class Results:
    """Checks the results of one model's callables, and joins those of several requests.

    Args:
        config: The model's configuration.
        strict: Whether names, types and shapes must be the declared ones; else arrays are cast, and what is not
            declared is dropped.
    """

    def __init__(self, config: TritonModelConfig, *, strict: bool) -> None:
        self._model, self._batching, self._strict = config.model_name, config.batching, strict
        self._outputs = {spec.name: spec for spec in config.outputs or ()}
        self._dtypes = {
            name: None if is_bytes(spec.dtype) else np.dtype(spec.dtype) for name, spec in self._outputs.items()
        }

    def joined(self, returned: Any, rows: Sequence[int]) -> dict[str, Array]:
        """The outputs of all requests together.

        Args:
            returned: What a callable returned for a list of requests.
            rows: The rows of each request.

        Raises:
            ValueError: it is not what was declared; the text says what it is.
        """
        if not isinstance(returned, list):
            raise ValueError(f"{self._must_be_dicts} Got outputs={returned} instead.")
        if len(returned) != len(rows):
            raise ValueError(
                f"Number of outputs returned by `{self._model}` inference callable ({len(returned)}) "
                f"does not match number of requests ({len(rows)}) received from Triton."
            )
        each = [self.one(response) for response in returned]
        if len(each) == 1:
            return each[0]
        return {name: _concatenated([one[name] for one in each]) for name in each[0]}

    def one(self, response: Any) -> dict[str, Array]:
        """The outputs of a request, or of a batch.

        Raises:
            ValueError: as `joined`.
        """
        if not isinstance(response, dict):
            raise ValueError(f"{self._must_be_dicts} Got response={response} instead.")
        outputs = {}
        for name, array in response.items():
            self._check_data(name, array)
            spec = self._outputs.get(name)
            if self._strict:
                self._check_declared(name, array, spec)
            if spec is None:
                continue
            dtype = self._dtypes[name]
            outputs[name] = array if dtype is None or array.dtype == dtype else array.astype(dtype)
        return outputs

    @property
    def _must_be_dicts(self) -> str:
        return f"Outputs returned by `{self._model}` model callable must be list of response dicts with numpy arrays."

    def _check_data(self, name: Any, array: Any) -> None:
        if not isinstance(name, str):
            raise ValueError(f"Not all keys returned by `{self._model}` model callable are string")
        if not isinstance(array, np.ndarray):
            raise ValueError(f"Not all values returned by `{self._model}` model callable are numpy arrays")
        kind = array.dtype.kind
        if kind not in _KINDS:
            raise ValueError(
                "Only bool, numeric, string, unicode and object arrays are supported by Triton "
                f"(dtype.kind: {_KINDS}). Returned `{name}` for model `{self._model}` has `{kind}` dtype.kind."
            )
        if kind == "O" and array.size:
            first = array.flat[0]
            if isinstance(first, str):
                raise ValueError(
                    "Use string/byte-string instead of object for passing string in NumPy array "
                    f"from model `{self._model}`."
                )
            if not isinstance(first, bytes):
                raise ValueError(
                    f"Only bytes as objects dtype are supported by PyTriton. Returned `{name}` from "
                    f"`{self._model}` has `{type(first)}` type."
                )

    def _check_declared(self, name: str, array: Array, spec: TensorSpec | None) -> None:
        returned = f"Returned output `{name}`"
        if spec is None:
            raise ValueError(f"{returned} is not defined in model config for model `{self._model}`.")
        dtype, of_model = self._dtypes[name], f"for model `{self._model}`"
        fits = dtype is None if array.dtype.kind in "OSU" else np.issubdtype(array.dtype, spec.dtype)
        if not fits:
            raise ValueError(
                f"{returned} {of_model} has invalid type. "
                f"Returned: {array.dtype} ({array.dtype.kind}). Expected: {spec.dtype}."
            )
        shape = array.shape[1:] if self._batching else array.shape
        said = f"Returned: {shape}. Expected: {spec.shape}."
        if len(shape) != len(spec.shape):
            raise ValueError(f"{returned} {of_model} has invalid shapes. {said}")
        if any(size != wanted != -1 for size, wanted in zip(shape, spec.shape, strict=True)):
            raise ValueError(f"{returned} {of_model} has invalid shapes at one or more positions. {said}")


def _concatenated(arrays: list[Array]) -> Array:
    if len({array.dtype.kind for array in arrays}) > 1:
        # Of texts: numpy would make one kind of them.
        arrays = [array.astype(object) for array in arrays]
    return np.concatenate(arrays)
