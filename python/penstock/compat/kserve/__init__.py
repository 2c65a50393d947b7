"""KServe's Python API: a script replaces `kserve` by `penstock.compat.kserve` in its imports and runs.

Supports KServe 0.13 and 0.21; see `dialect`. Submodules load on first use.
"""

from __future__ import annotations

import importlib
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.compat.kserve.inference_client import (
        InferenceGRPCClient,
        InferenceRESTClient,
        InferenceServerClient,
        RESTConfig,
    )
    from penstock.compat.kserve.model import Model
    from penstock.compat.kserve.model_repository import ModelRepository
    from penstock.compat.kserve.model_server import ModelServer
    from penstock.compat.kserve.predictor_config import PredictorConfig
    from penstock.compat.kserve.protocol.infer_type import InferInput, InferOutput, InferRequest, InferResponse

__all__ = [
    "InferInput",
    "InferOutput",
    "InferRequest",
    "InferResponse",
    "InferenceGRPCClient",
    "InferenceRESTClient",
    "InferenceServerClient",
    "Model",
    "ModelRepository",
    "ModelServer",
    "PredictorConfig",
    "RESTConfig",
    "constants",
    "utils",
]

_MODULES = {
    "inference_client": ("InferenceGRPCClient", "InferenceRESTClient", "InferenceServerClient", "RESTConfig"),
    "model": ("Model",),
    "model_repository": ("ModelRepository",),
    "model_server": ("ModelServer",),
    "predictor_config": ("PredictorConfig",),
    "protocol.infer_type": ("InferInput", "InferOutput", "InferRequest", "InferResponse"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}
_SUBMODULES = {
    *("constants", "context", "dialect", "errors", "inference_client", "logging", "metrics", "model"),
    *("model_repository", "model_server", "predictor_config", "protocol", "ray", "storage", "utils"),
}

_CONTROL_PLANE = re.compile(
    r"V1(alpha|beta)?\d|KServeClient$|ApiClient$|Configuration$|OpenApiException$|Api\w*(Error|Exception)$"
    r"|Knative|NetUrl|(api|api_client|configuration|exceptions|models|rest)$"
)
"""Names of KServe's Kubernetes client, none of which serves requests."""


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        return getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    if name in _SUBMODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if _CONTROL_PLANE.match(name):
        raise ImportError(
            f"{name} belongs to KServe's Kubernetes client, which {__name__} does not have: "
            "programs that manage a cluster import it from the package kserve"
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
