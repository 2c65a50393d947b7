"""Warm-up requests: a model's samples, repeated to batch sizes and encoded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock._spec import datatypes
from penstock._spec.warmup import Sample, Warmup
from penstock.errors import LoadError, SignatureError

if TYPE_CHECKING:
    from penstock._spec.definition import Definition
    from penstock._spec.tensor import Tensor

__all__ = ["WarmupRequests", "read_warmup"]


def read_warmup(value: Any, where: str) -> Warmup | None:
    """The option `warmup` of a model; None and False mean no warm-up.

    Raises:
        SignatureError: not a valid value of the option.
    """
    if value is None or value is False:
        return None
    if isinstance(value, Warmup):
        return value
    try:
        return Warmup(value)
    except ValueError:
        raise SignatureError(
            f"{where}: warmup must be True, a list of dicts, a callable that makes them, or a Warmup, "
            f"not {type(value).__name__}"
        ) from None


@dataclass(frozen=True, slots=True)
class WarmupRequests:
    """The requests that a `Warmup` stands for: a `WarmupSource`."""

    warmup: Warmup

    def requests(self, definition: Definition) -> Iterator[tuple[str, bytes, int]]:
        """For each request: a label for messages, the body, and the length of the body's JSON part.

        Raises:
            LoadError: a sample does not fit the model's inputs.
        """
        # Few models are warmed up, and only when they load.
        from penstock._runtime.rest_encoding import encode

        declared = {tensor.name: tensor for tensor in definition.inputs}
        samples: Iterable[object] = self._samples(definition)
        for index, sample in enumerate(samples):
            if not isinstance(sample, Mapping):
                kind = type(sample).__name__
                raise LoadError(f"warm-up sample {index}: a dict with a value for each input is expected, not {kind}")
            for label, inputs in self._resized(f"warm-up sample {index}", sample, definition):
                try:
                    body, length = encode(inputs, declared, binary=True)
                except (TypeError, ValueError) as error:
                    raise LoadError(f"{label}: {error}") from error
                for _ in range(self.warmup.repeat):
                    yield label, body, length or 0

    def _samples(self, definition: Definition) -> Iterable[Sample]:
        samples = self.warmup.samples
        if samples is True:
            return [{tensor.name: _sample_value(tensor, definition) for tensor in definition.inputs}]
        values = samples() if callable(samples) else samples
        return [values] if isinstance(values, Mapping) else values  # type: ignore[return-value]

    def _resized(self, label: str, sample: Sample, definition: Definition) -> Iterator[tuple[str, Sample]]:
        """The sample once for each batch size, or unchanged if there are none."""
        declared = {tensor.name: tensor for tensor in definition.inputs}
        batch_sizes = self.warmup.batch_sizes
        if definition.batching is None:
            if batch_sizes:
                raise LoadError(f"{label}: batch_sizes are for models with a batch axis")
            yield label, sample
            return
        arrays = {name: _with_batch_axis(label, name, value, declared.get(name)) for name, value in sample.items()}
        if not batch_sizes:
            yield label, arrays
            return
        for name, array in arrays.items():
            if array.shape[0] != 1:
                rows = array.shape[0]
                raise LoadError(f"{label}: input {name!r} has {rows} rows, with batch_sizes a sample is one row")
        for size in dict.fromkeys(min(size, definition.batching.max_size) for size in batch_sizes):
            yield f"{label} of {size} rows", {name: np.repeat(array, size, axis=0) for name, array in arrays.items()}


def _sample_value(tensor: Tensor, definition: Definition) -> Any:
    shape = [1 if axis == -1 else axis for axis in tensor.shape]
    if tensor.datatype == datatypes.BYTES:
        document = definition.input_documents.get(tensor.name)
        example = document.example if document is not None else None
        array = np.empty(shape, dtype=object)
        array[...] = (example or "").encode()
        return array
    return np.zeros(shape, dtype=tensor.dtype)


def _with_batch_axis(label: str, name: str, value: Any, declared: Tensor | None) -> np.ndarray[Any, Any]:
    from penstock._runtime.rest_encoding import as_array

    try:
        array, _ = as_array(name, value, declared)
    except (TypeError, ValueError) as error:
        raise LoadError(f"{label}: {error}") from error
    if declared is not None and array.ndim == len(declared.shape):
        array = array[np.newaxis]
    if array.ndim == 0:
        raise LoadError(f"{label}: input {name!r} has no batch axis")
    return array
