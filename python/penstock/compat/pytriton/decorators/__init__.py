"""Decorators of inference callables: they turn lists of requests into what a function would rather take."""

from __future__ import annotations

from penstock.compat.pytriton.decorators._batch import batch, get_inference_request_batch_size, sample
from penstock.compat.pytriton.decorators._context import (
    ModelConfigDict,
    TritonContext,
    convert_output,
    get_model_config,
    get_triton_context,
    triton_context,
)

__all__ = [
    "ModelConfigDict",
    "TritonContext",
    "batch",
    "convert_output",
    "get_inference_request_batch_size",
    "get_model_config",
    "get_triton_context",
    "sample",
    "triton_context",
]
