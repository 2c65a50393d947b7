"""Inputs of the workloads, and the expected values."""

from __future__ import annotations

import numpy as np

from benches.load.dialects import Array, Sent, values_of
from benches.load.servers import models
from benches.load.workloads import Workload

_random = np.random.default_rng(7)


def _floats(*shape: int) -> Sent:
    return Sent(shape, _random.random(shape, dtype=np.float32))


_TEXT = "The quick brown fox jumps over the lazy dog while the server batches sentences for embedding."

INPUTS = {
    "row": _floats(1, 16),
    "records": _floats(8, 4),
    "picture": _floats(1, 3, 640, 640),
    "thumbnail": _floats(1, 3, 224, 224),
    "text": Sent((1, 1), (_TEXT,)),
}
"""The tensors that workloads send, the same in every run."""

_RELATIVE = 1e-5
_EMBEDDING = 384


def expected(workload: Workload) -> Array | None:
    """The expected values; None if they require a model that is not installed."""
    sent = INPUTS[workload.input].values
    if not isinstance(sent, np.ndarray):
        return None
    served = models.MODELS[workload.model.removesuffix("b")]
    return np.asarray(served.call(sent), np.float32)


def problem(workload: Workload, dialect: str, body: bytes) -> str | None:
    """The error of a response; None if it is correct."""
    try:
        values = values_of(dialect, body)
    except (ValueError, LookupError, TypeError) as error:
        return f"an answer that cannot be read ({error!r}): {body[:120]!r}"
    wanted = expected(workload)
    if wanted is None:
        return None if _is_embedding(values) else f"no embedding of length 1: {values[:4]}..."
    if dialect in ("msgpack", "b64", "raw"):
        values = values[-wanted.size :]
    if values.size != wanted.size:
        return f"{values.size} values instead of {wanted.size}"
    if not np.allclose(values, wanted.ravel(), rtol=_RELATIVE):
        return f"wrong values: {values[:4]}... instead of {wanted.ravel()[:4]}..."
    return None


def _is_embedding(values: Array) -> bool:
    return values.size == _EMBEDDING and bool(abs(float(np.linalg.norm(values)) - 1) < 1e-3)
