"""Decorators of inference callables: they convert lists of requests to other arguments.

Combined decorators have this order, outermost first: `fill_optionals`, `group_by_keys`, `batch`,
`group_by_values`, `first_value`, `triton_context`.
"""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from penstock.compat.pytriton.decorators._batch import batch, get_inference_request_batch_size, sample
from penstock.compat.pytriton.decorators._context import (
    ModelConfigDict,
    TritonContext,
    convert_output,
    get_model_config,
    get_triton_context,
    triton_context,
)
from penstock.compat.pytriton.decorators._grouping import group_by_keys, group_by_values
from penstock.compat.pytriton.decorators._padding import ConstantPadder, pad_batch
from penstock.compat.pytriton.decorators._values import fill_optionals, first_value

__all__ = [
    "ConstantPadder",
    "InferenceRequest",
    "InferenceRequests",
    "InferenceResult",
    "InferenceResults",
    "InputNames",
    "ModelConfigDict",
    "TritonContext",
    "batch",
    "convert_output",
    "fill_optionals",
    "first_value",
    "get_inference_request_batch_size",
    "get_model_config",
    "get_triton_context",
    "group_by_keys",
    "group_by_values",
    "pad_batch",
    "sample",
    "triton_context",
]

InputNames = list[str]
InferenceRequest = dict[str, npt.NDArray[Any]]
InferenceRequests = list[InferenceRequest] | tuple[InferenceRequest, ...]
InferenceResult = dict[str, npt.NDArray[Any]]
InferenceResults = list[InferenceResult] | tuple[InferenceResult, ...]
