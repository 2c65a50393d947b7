"""KServe's interface: a script changes `kserve` to `penstock.compat.kserve` in its imports, and runs.

Both dialects of it, that of 0.13 and that of 0.21: see `dialect`. Everything is loaded at first use.
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
_HOMES = {name: module for module, names in _MODULES.items() for name in names}
_SUBMODULES = {
    *("constants", "context", "dialect", "errors", "inference_client", "logging", "metrics", "model"),
    *("model_repository", "model_server", "predictor_config", "protocol", "ray", "storage", "utils"),
}

_CONTROL_PLANE = re.compile(
    r"V1(alpha|beta)?\d|KServeClient$|ApiClient$|Configuration$|OpenApiException$|Api\w*(Error|Exception)$"
    r"|Knative|NetUrl|(api|api_client|configuration|exceptions|models|rest)$"
)
"""What KServe exports to manage a cluster's resources. None of it serves a request."""


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    if name in _SUBMODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if _CONTROL_PLANE.match(name):
        raise ImportError(
            f"{name} is of KServe's client for Kubernetes, and {__name__} is its server: "
            "programs that manage a cluster import it from the package kserve"
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
