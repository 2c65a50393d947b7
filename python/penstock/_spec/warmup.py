"""`Warmup`: calls that an instance answers before its model takes requests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from penstock._spec import datatypes
from penstock._spec.tensor import Tensor
from penstock.errors import LoadError, SignatureError

if TYPE_CHECKING:
    from penstock._spec.definition import Definition

__all__ = ["Sample", "Samples", "Warmup", "read_warmup"]

Sample: TypeAlias = Mapping[str, Any]
"""A value for each input, by name."""

Samples: TypeAlias = "Iterable[Sample] | Callable[[], Iterable[Sample] | Sample]"
"""Samples, or what makes them when the model is loaded."""


class Warmup:
    """Runs a model on samples when it is loaded, before it is ready.

    Each instance answers each sample, on the same way that requests go; streams are read to their end.
    A sample that fails fails the load. Nothing of it is counted in statistics or metrics.

    Args:
        samples: A list of dicts with a value for each input, or a callable that returns or yields them;
            it is called anew for each load. True makes one sample from the inputs: zeros, empty texts
            and example documents, with axes of variable size at 1. Values are as `penstock.testing.Client.infer`
            takes them; for a model with a batch axis they may leave it out.
        repeat: How often each instance answers each sample.
        batch_sizes: Numbers of rows that each sample, which must be of one row, is repeated to. What is
            more than the model's `max_size` becomes that.

    Raises:
        ValueError: a value is out of its range; the message names it.

    Example:
        >>> Warmup([{"x": np.zeros(16, np.float32)}], repeat=3, batch_sizes=[1, 8, 32])
    """

    samples: Samples | bool
    """What the samples are, or are made by."""
    repeat: int
    """How often each is answered."""
    batch_sizes: tuple[int, ...]
    """The rows that each is repeated to; empty leaves it as it is."""

    def __init__(self, samples: Samples | bool = True, *, repeat: int = 1, batch_sizes: Iterable[int] = ()) -> None:
        if not _is_count(repeat):
            raise ValueError(f"Warmup: repeat must be an integer of 1 or more, not {repeat!r}")
        self.batch_sizes = tuple(batch_sizes)
        for size in self.batch_sizes:
            if not _is_count(size):
                raise ValueError(f"Warmup: batch_sizes must be integers of 1 or more, not {size!r}")
        if samples is False or isinstance(samples, (Mapping, str, bytes)):
            raise ValueError("Warmup: samples must be True, a list of dicts, or a callable that makes them")
        if not isinstance(samples, bool) and not callable(samples):
            if not isinstance(samples, Iterable):
                raise ValueError("Warmup: samples must be True, a list of dicts, or a callable that makes them")
            # Each load reads them anew.
            samples = list(samples)
        self.samples, self.repeat = samples, repeat

    def requests(self, definition: Definition) -> Iterator[tuple[str, bytes, int]]:
        """What is sent to each instance: what to call it in messages, a request's body, and the length of its JSON.

        Raises:
            LoadError: a sample is none of that model's.
        """
        from penstock._spec.encoding import encode

        declared = {tensor.name: tensor for tensor in definition.inputs}
        samples: Iterable[object] = self._samples(definition)
        for index, sample in enumerate(samples):
            if not isinstance(sample, Mapping):
                kind = type(sample).__name__
                raise LoadError(f"warm-up sample {index}: a dict with a value for each input is expected, not {kind}")
            for what, inputs in self._sized(f"warm-up sample {index}", sample, definition):
                try:
                    body, length = encode(inputs, declared, binary=True)
                except (TypeError, ValueError) as error:
                    raise LoadError(f"{what}: {error}") from error
                for _ in range(self.repeat):
                    yield what, body, length or 0

    def _samples(self, definition: Definition) -> Iterable[Sample]:
        if self.samples is True:
            return [_made(definition)]
        made = self.samples() if callable(self.samples) else self.samples
        return [made] if isinstance(made, Mapping) else made  # type: ignore[return-value]

    def _sized(self, what: str, sample: Sample, definition: Definition) -> Iterator[tuple[str, Sample]]:
        declared = {tensor.name: tensor for tensor in definition.inputs}
        if definition.batching is None:
            if self.batch_sizes:
                raise LoadError(f"{what}: batch_sizes are for models with a batch axis")
            yield what, sample
            return
        arrays = {name: _with_batch(what, name, value, declared.get(name)) for name, value in sample.items()}
        if not self.batch_sizes:
            yield what, arrays
            return
        for name, array in arrays.items():
            if array.shape[0] != 1:
                rows = array.shape[0]
                raise LoadError(f"{what}: input {name!r} has {rows} rows, with batch_sizes a sample is one row")
        for size in dict.fromkeys(min(size, definition.batching.max_size) for size in self.batch_sizes):
            yield f"{what} of {size} rows", {name: np.repeat(array, size, axis=0) for name, array in arrays.items()}

    def __repr__(self) -> str:
        return f"Warmup({self.samples!r}, repeat={self.repeat}, batch_sizes={list(self.batch_sizes)})"


def read_warmup(value: Any, where: str) -> Warmup | None:
    """The option `warmup` of a model.

    Raises:
        SignatureError: it is none.
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


def _made(definition: Definition) -> Sample:
    return {tensor.name: _made_value(tensor, definition) for tensor in definition.inputs}


def _made_value(tensor: Tensor, definition: Definition) -> Any:
    shape = [1 if axis == -1 else axis for axis in tensor.shape]
    if tensor.datatype == datatypes.BYTES:
        document = definition.input_documents.get(tensor.name)
        example = document.example if document is not None else None
        array = np.empty(shape, dtype=object)
        array[...] = (example or "").encode()
        return array
    return np.zeros(shape, dtype=tensor.dtype)


def _with_batch(what: str, name: str, value: Any, declared: Tensor | None) -> np.ndarray[Any, Any]:
    from penstock._spec.encoding import as_array

    try:
        array, _ = as_array(name, value, declared)
    except (TypeError, ValueError) as error:
        raise LoadError(f"{what}: input {name!r}: {error}") from error
    if declared is not None and array.ndim == len(declared.shape):
        array = array[np.newaxis]
    if array.ndim == 0:
        raise LoadError(f"{what}: input {name!r} has no batch axis")
    return array


def _is_count(value: object) -> bool:
    # True would pass as 1.
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
