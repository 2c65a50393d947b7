"""What an inference callable returned: checked, and made into what is sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock import Answers
from penstock.compat.pytriton.decorators._batch import check_rows
from penstock.compat.pytriton.decorators._context import convert_output
from penstock.compat.pytriton.model_config._datatypes import is_bytes
from penstock.compat.pytriton.model_config.triton_model_config import TensorSpec, TritonModelConfig
from penstock.compat.pytriton.proxy.types import Request

__all__ = ["Results"]

Array = npt.NDArray[Any]

_KINDS = "biufOSU"


class Results:
    """Checks the results of one model's callables.

    Args:
        config: The model's configuration.
        strict: Whether names, types and shapes must be the declared ones; else arrays are cast, and what is not
            declared is dropped.
    """

    def __init__(self, config: TritonModelConfig, *, strict: bool) -> None:
        self._config, self._model, self._batching, self._strict = config, config.model_name, config.batching, strict
        self._outputs = {spec.name: spec for spec in config.outputs or ()}
        self._dtypes = {
            name: None if is_bytes(spec.dtype) else np.dtype(spec.dtype) for name, spec in self._outputs.items()
        }

    def answers(self, returned: Any, requests: Sequence[Request]) -> Answers:
        """The outputs of each request. One that a callable leaves out is not sent.

        Args:
            returned: What a callable returned for a list of requests.
            requests: That list.

        Raises:
            ValueError: it is not what was declared; the text says what it is.
        """
        if not isinstance(returned, list):
            raise ValueError(f"{self._must_be_dicts} Got outputs={returned} instead.")
        if len(returned) != len(requests):
            raise ValueError(
                f"Number of outputs returned by `{self._model}` inference callable ({len(returned)}) "
                f"does not match number of requests ({len(requests)}) received from Triton."
            )
        return Answers(self.one(one) for one in returned)

    def batch(self, returned: Any, rows: int) -> dict[str, Array]:
        """The outputs of a batch.

        Args:
            returned: What a callable returned that has `batch` around it.
            rows: The rows of the batch.

        Raises:
            PyTritonValidationError: it is no dict, or list or tuple of as many outputs as there are.
            ValueError: as `answers`; or an output has another number of rows.
        """
        outputs = convert_output(returned, model_config=self._config)
        if self._strict or len(outputs) != len(self._dtypes) or not self._are_plain(outputs, rows):
            outputs = self.one(outputs)
            check_rows(outputs, rows)
        return outputs

    def _are_plain(self, outputs: dict[str, Array], rows: int) -> bool:
        """Whether there is nothing to be cast, dropped or refused: nearly always, so it is looked at first."""
        dtypes = self._dtypes
        for name, array in outputs.items():
            if type(array) is not np.ndarray or array.dtype is not dtypes.get(name) or not array.ndim:
                return False
            if len(array) != rows:
                return False
        return True

    def one(self, response: Any) -> dict[str, Array]:
        """The outputs of a request, or of a batch.

        Raises:
            ValueError: as `answers`.
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
