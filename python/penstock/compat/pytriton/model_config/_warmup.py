"""Warm-up requests of a model, and their data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.compat.pytriton.exceptions import PyTritonBadParameterError

Array = npt.NDArray[Any]

_ALPHABET = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz0123456789", dtype="S1")


@dataclass
class WarmupInput:
    """Data source of one input, in order of precedence: a file, zeros, random values."""

    dtype: Any
    """numpy type."""
    shape: Sequence[int]
    """Shape without the batch axis, with known sizes."""
    zero_data: bool | None = False
    """Use zeros, or empty strings."""
    random_data: bool | None = False
    """Use random values."""
    input_data_file: str | None = None
    """Path of a `.npy` file."""


@dataclass
class ModelWarmup:
    """A request that each callable computes before the model is ready."""

    name: str
    """Name in the log."""
    batch_size: int
    """Row count."""
    inputs: dict[str, WarmupInput]
    """Inputs by name."""
    count: int
    """Number of repetitions."""


def generate_warmup_data(warmup_input: WarmupInput, batch_size: int) -> Array:
    """Returns the array of one input, with a batch axis in front.

    Raises:
        PyTritonBadParameterError: the data source is missing, or the file has a different shape.
        OSError: the file cannot be read.
    """
    shape = (batch_size, *warmup_input.shape)
    if warmup_input.input_data_file:
        return _load_file(warmup_input, shape)
    if warmup_input.zero_data:
        return np.zeros(shape, dtype=warmup_input.dtype)
    if warmup_input.random_data:
        return _random(np.dtype(warmup_input.dtype), shape)
    raise PyTritonBadParameterError(
        "One of 'zero_data', 'random_data', or 'input_data_file' must be provided for warmup input."
    )


def generate_warmup_requests(
    model_warmup: Sequence[ModelWarmup] | None, input_specs: Sequence[Any], outputs_specs: Sequence[Any]
) -> list[dict[str, Array]]:
    """Returns the arrays of all requests, by input. The specs of the model's tensors are ignored.

    Raises:
        PyTritonBadParameterError: as `generate_warmup_data`.
    """
    return [
        {name: generate_warmup_data(one, warmup.batch_size) for name, one in warmup.inputs.items()}
        for warmup in model_warmup or ()
        for _ in range(warmup.count)
    ]


def _load_file(warmup_input: WarmupInput, shape: tuple[int, ...]) -> Array:
    # The file may be untrusted, so pickled objects are not loaded: they would run code.
    data: Array = np.load(str(warmup_input.input_data_file))
    if data.shape != shape:
        if data.ndim == len(shape) - 1:
            data = np.repeat(data[np.newaxis], shape[0], axis=0)
        elif data.shape[1:] == shape[1:] and len(data):
            data = np.resize(data, shape)
        else:
            raise PyTritonBadParameterError(f"Input data file shape {data.shape} doesn't match expected shape {shape}")
    return data.astype(warmup_input.dtype)


def _random(dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    rng = np.random.default_rng()
    if dtype.kind == "b":
        return rng.integers(0, 2, size=shape).astype(dtype)
    if dtype.kind in "iu":
        # Small types use their whole range. Larger ones use values that are probably valid indexes.
        low, high = (np.iinfo(dtype).min, np.iinfo(dtype).max) if dtype.itemsize <= 2 else (0, 100)
        return rng.integers(low, high, size=shape, dtype=dtype)
    if dtype.kind == "f":
        return rng.random(shape).astype(dtype)
    if dtype.kind in "OS":
        strings = [rng.choice(_ALPHABET, rng.integers(8, 33)).tobytes() for _ in range(math.prod(shape))]
        return np.array(strings, dtype=dtype).reshape(shape)
    return np.zeros(shape, dtype=dtype)
