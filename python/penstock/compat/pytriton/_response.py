"""Results of an inference callable: validation, and conversion to responses."""

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

__all__ = ["ResponseBuilder"]

Array = npt.NDArray[Any]

_KINDS = "biufOSU"


class ResponseBuilder:
    """Validates the results of a model's callables, and converts them to responses.

    Args:
        config: The model's configuration.
        strict: Names, types and shapes have to match the declaration. Otherwise arrays are cast, and undeclared outputs
            are dropped.
    """

    def __init__(self, config: TritonModelConfig, *, strict: bool) -> None:
        self._config, self._model, self._batching, self._strict = config, config.model_name, config.batching, strict
        self._outputs = {spec.name: spec for spec in config.outputs or ()}
        self._dtypes = {
            name: None if is_bytes(spec.dtype) else np.dtype(spec.dtype) for name, spec in self._outputs.items()
        }

    def responses(self, returned: Any, requests: Sequence[Request]) -> Answers:
        """Returns the outputs of each request. An output that the callable leaves out is not sent.

        Args:
            returned: Return value of the callable for the list of requests.
            requests: The list of requests.

        Raises:
            ValueError: the return value does not match the declaration; the message names the difference.
        """
        if not isinstance(returned, list):
            raise ValueError(f"{self._must_be_dicts} Got outputs={returned} instead.")
        if len(returned) != len(requests):
            raise ValueError(
                f"Number of outputs returned by `{self._model}` inference callable ({len(returned)}) "
                f"does not match number of requests ({len(requests)}) received from Triton."
            )
        return Answers(self.response(each) for each in returned)

    def batch(self, returned: Any, rows: int) -> dict[str, Array]:
        """Returns the outputs of a batch.

        Args:
            returned: Return value of the function inside `batch`.
            rows: Row count of the batch.

        Raises:
            PyTritonValidationError: the value is neither a dict nor a list or tuple with one item for each output.
            ValueError: as `responses`; or an output has a different row count.
        """
        outputs = convert_output(returned, model_config=self._config)
        if self._strict or len(outputs) != len(self._dtypes) or not self._need_no_conversion(outputs, rows):
            outputs = self.response(outputs)
            check_rows(outputs, rows)
        return outputs

    def _need_no_conversion(self, outputs: dict[str, Array], rows: int) -> bool:
        """True if no output has to be cast, dropped or rejected. This is the usual case, so it is checked first."""
        dtypes = self._dtypes
        for name, array in outputs.items():
            if type(array) is not np.ndarray or array.dtype is not dtypes.get(name) or not array.ndim:
                return False
            if len(array) != rows:
                return False
        return True

    def response(self, returned: Any) -> dict[str, Array]:
        """Returns the outputs of a request, or of a batch.

        Raises:
            ValueError: as `responses`.
        """
        if not isinstance(returned, dict):
            raise ValueError(f"{self._must_be_dicts} Got response={returned} instead.")
        outputs = {}
        for name, array in returned.items():
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
        difference = f"Returned: {shape}. Expected: {spec.shape}."
        if len(shape) != len(spec.shape):
            raise ValueError(f"{returned} {of_model} has invalid shapes. {difference}")
        if any(size != wanted != -1 for size, wanted in zip(shape, spec.shape, strict=True)):
            raise ValueError(f"{returned} {of_model} has invalid shapes at one or more positions. {difference}")
