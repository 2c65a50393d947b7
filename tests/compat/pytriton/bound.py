"""Models as PyTriton's `bind` makes them, behind a whole server without a socket."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from penstock.compat.pytriton._binding import Binding
from penstock.compat.pytriton.model_config import ModelConfig, Tensor
from penstock.testing import Client

X = Tensor(name="x", dtype=np.float32, shape=(-1,))
Y = Tensor(name="y", dtype=np.float32, shape=(-1,))


def unexpected(error: BaseException) -> None:
    pytest.fail(f"the server was to stop: {error!r}")


@contextmanager
def bound(
    infer_func: Any,
    *,
    inputs: tuple[Tensor, ...] = (X,),
    outputs: tuple[Tensor, ...] = (Y,),
    strict: bool = False,
    unrecoverable: Callable[[BaseException], None] = unexpected,
    **config: Any,
) -> Iterator[Client]:
    """A client of model `m`; `config` are the fields of its `ModelConfig`."""
    binding = Binding.of("m", infer_func, inputs, outputs, 1, ModelConfig(**config), strict)
    with Client(binding.to_model(unrecoverable)) as client:
        yield client


def rows(*values: float) -> np.ndarray[Any, Any]:
    """A batch of one number each, as X has them."""
    return np.array(values, np.float32).reshape(-1, 1)
