"""KServe's helper functions."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.compat.kserve.constants.constants import PredictorProtocol
from penstock.compat.kserve.utils._cloud_events import create_response_cloudevent, is_structured_cloudevent
from penstock.compat.kserve.utils._predict_io import get_predict_input, get_predict_response
from penstock.integrations import processors

__all__ = [
    "cpu_count",
    "create_response_cloudevent",
    "generate_uuid",
    "get_current_k8s_namespace",
    "get_default_target_namespace",
    "get_ig_namespace",
    "get_isvc_namespace",
    "get_predict_input",
    "get_predict_response",
    "is_running_in_k8s",
    "is_structured_cloudevent",
    "is_v1",
    "is_v2",
    "strtobool",
    "to_headers",
]

_ACCOUNT = Path("/var/run/secrets/kubernetes.io")
_TRUE = ("y", "yes", "t", "true", "on", "1")
_FALSE = ("n", "no", "f", "false", "off", "0")


def generate_uuid() -> str:
    """Returns a random UUID."""
    return str(uuid.uuid4())


def strtobool(val: str) -> bool:
    """Returns the truth value of a word: y, yes, t, true, on, 1, or one of their opposites.

    Raises:
        ValueError: the word is neither.
    """
    word = val.lower()
    if word not in _TRUE + _FALSE:
        raise ValueError(f"invalid truth value {word!r}")
    return word in _TRUE


def is_v1(protocol: str | PredictorProtocol) -> bool:
    """Returns whether a protocol is V1 over HTTP."""
    return _is(protocol, PredictorProtocol.REST_V1)


def is_v2(protocol: str | PredictorProtocol) -> bool:
    """Returns whether a protocol is the Open Inference Protocol over HTTP."""
    return _is(protocol, PredictorProtocol.REST_V2)


def _is(protocol: Any, expected: PredictorProtocol) -> bool:
    return protocol is expected or (isinstance(protocol, str) and protocol.lower() == expected.value)


def to_headers(context: Any) -> dict[str, Any]:
    """Returns the metadata of a gRPC call, with its trailing metadata, as a dict."""
    pairs = [*(context.invocation_metadata() or ())]
    if hasattr(context, "trailing_metadata"):
        pairs += context.trailing_metadata() or ()
    return {pair.key: pair.value for pair in pairs}


def cpu_count() -> int:
    """Returns the CPUs of this process: of the machine, its affinity and its control group's quota."""
    return processors()


def is_running_in_k8s() -> bool:
    """Returns whether this process runs in a Kubernetes pod."""
    return _ACCOUNT.is_dir()


def get_current_k8s_namespace() -> str:
    """Returns the pod's namespace."""
    with (_ACCOUNT / "serviceaccount" / "namespace").open(encoding="utf-8") as file:
        return file.readline()


def get_default_target_namespace() -> str:
    """Returns the pod's namespace; `default` outside a cluster."""
    return get_current_k8s_namespace() if is_running_in_k8s() else "default"


def get_isvc_namespace(inferenceservice: Any) -> str:
    """Returns the namespace of a resource, or the default one."""
    return _namespace(inferenceservice)


def get_ig_namespace(inferencegraph: Any) -> str:
    """Returns the namespace of a resource, or the default one."""
    return _namespace(inferencegraph)


def _namespace(resource: Any) -> str:
    metadata = resource["metadata"] if isinstance(resource, Mapping) else resource.metadata
    name = metadata.get("namespace") if isinstance(metadata, Mapping) else metadata.namespace
    return name or get_default_target_namespace()
