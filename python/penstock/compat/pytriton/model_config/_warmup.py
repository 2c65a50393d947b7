"""What a model computes before it is ready, and the data for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.compat.pytriton.exceptions import PyTritonBadParameterError

Array = npt.NDArray[Any]

_LETTERS = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz0123456789", dtype="S1")


@dataclass
class WarmupInput:
    """Where the data of one input comes from: a file, else zeros, else random values."""

    dtype: Any
    """Its numpy type."""
    shape: Sequence[int]
    """The sizes of its axes without the batch axis, all of them known."""
    zero_data: bool | None = False
    """Zeros, or empty texts."""
    random_data: bool | None = False
    """Random values."""
    input_data_file: str | None = None
    """The path of a `.npy` file."""


@dataclass
class ModelWarmup:
    """A request that each callable computes before the model is ready."""

    name: str
    """What it is called in the log."""
    batch_size: int
    """Its rows."""
    inputs: dict[str, WarmupInput]
    """Its inputs, by name."""
    count: int
    """How often it is computed."""


def generate_warmup_data(warmup_input: WarmupInput, batch_size: int) -> Array:
    """The array of one input, with a batch axis in front.

    Raises:
        PyTritonBadParameterError: it does not say where the data comes from, or its file has another shape.
        OSError: its file cannot be read.
    """
    shape = (batch_size, *warmup_input.shape)
    if warmup_input.input_data_file:
        return _of_file(warmup_input, shape)
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
    """The arrays of all requests, by input. What the model's tensors are makes no difference.

    Raises:
        PyTritonBadParameterError: as `generate_warmup_data`.
    """
    return [
        {name: generate_warmup_data(one, warmup.batch_size) for name, one in warmup.inputs.items()}
        for warmup in model_warmup or ()
        for _ in range(warmup.count)
    ]


def _of_file(wanted: WarmupInput, shape: tuple[int, ...]) -> Array:
    # A file may come from anywhere, and pickled objects would run code.
    data: Array = np.load(str(wanted.input_data_file))
    if data.shape != shape:
        if data.ndim == len(shape) - 1:
            data = np.repeat(data[np.newaxis], shape[0], axis=0)
        elif data.shape[1:] == shape[1:] and len(data):
            data = np.resize(data, shape)
        else:
            raise PyTritonBadParameterError(f"Input data file shape {data.shape} doesn't match expected shape {shape}")
    return data.astype(wanted.dtype)


def _random(dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    chance = np.random.default_rng()
    if dtype.kind == "b":
        return chance.integers(0, 2, size=shape).astype(dtype)
    if dtype.kind in "iu":
        # Small types as a whole; larger ones with values that are likely to be indexes of something.
        low, high = (np.iinfo(dtype).min, np.iinfo(dtype).max) if dtype.itemsize <= 2 else (0, 100)
        return chance.integers(low, high, size=shape, dtype=dtype)
    if dtype.kind == "f":
        return chance.random(shape).astype(dtype)
    if dtype.kind in "OS":
        texts = [chance.choice(_LETTERS, chance.integers(8, 33)).tobytes() for _ in range(math.prod(shape))]
        return np.array(texts, dtype=dtype).reshape(shape)
    return np.zeros(shape, dtype=dtype)
