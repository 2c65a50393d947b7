"""Kubernetes' and KServe's descriptions of a server in an image."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock._images.checks import VENV
from penstock._images.dockerfile import USER

__all__ = ["Deployed", "inference_service", "kubernetes"]

_BEFORE_STOP = 5
"""Seconds in which balancers forget a server, before it is told to stop."""
_DRAIN = 30
_LOADING = 600
"""Seconds that models have to load."""
_PROBES_EVERY = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Deployed:
    """What is to run, and how."""

    name: str
    image: str
    http_port: int = 8000
    grpc_port: int | None = 8001
    namespace: str | None = None
    replicas: int = 1
    most_replicas: int | None = None
    resources: Mapping[str, str] = field(default_factory=dict)
    """Amounts by name: `cpu`, `memory`, `nvidia.com/gpu`."""
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    """Names of Secrets whose entries become variables."""


def kubernetes(what: Deployed) -> list[dict[str, Any]]:
    """A Deployment and its Service."""
    labels = {"app.kubernetes.io/name": what.name}
    ports = {"http": what.http_port, **({"grpc": what.grpc_port} if what.grpc_port else {})}
    container = {
        **_container(what, what.name, what.env),
        "ports": [{"name": name, "containerPort": port} for name, port in ports.items()],
    }
    pod = {**_pod(), "containers": [container]}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(what, labels),
        "spec": {
            "replicas": what.replicas,
            "selector": {"matchLabels": labels},
            # The old one goes when the new one takes requests.
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(what, labels),
        "spec": {"selector": labels, "ports": [_service_port(name, port) for name, port in ports.items()]},
    }
    return [deployment, service]


def inference_service(what: Deployed, *, grpc: bool, raw: bool) -> list[dict[str, Any]]:
    """KServe's InferenceService, with the image as its predictor's own container.

    Args:
        what: What is to run.
        grpc: Whether callers come by gRPC. There is one port, which has one protocol.
        raw: Whether it is a plain Deployment, rather than one of Knative.
    """
    # Knative tells the protocol by the port's name.
    port = {"name": "h2c" if grpc else "http1", "containerPort": what.http_port, "protocol": "TCP"}
    env = {**what.env, "PENSTOCK_GRPC": "same" if grpc else "off"}
    # The name by which KServe knows the container that serves.
    container = {**_container(what, "kserve-container", env), "ports": [port]}
    if not raw:
        # Knative allows none of these, and has ways of its own.
        del container["startupProbe"], container["lifecycle"]
    replicas = {"minReplicas": what.replicas}
    if what.most_replicas is not None:
        replicas["maxReplicas"] = what.most_replicas
    predictor = {**replicas, **(_pod() if raw else {}), "containers": [container]}
    metadata = _metadata(what, {})
    if raw:
        metadata["annotations"] = {"serving.kserve.io/deploymentMode": "RawDeployment"}
    return [
        {
            "apiVersion": "serving.kserve.io/v1beta1",
            "kind": "InferenceService",
            "metadata": metadata,
            "spec": {"predictor": predictor},
        }
    ]


def _metadata(what: Deployed, labels: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {"name": what.name}
    if what.namespace:
        found["namespace"] = what.namespace
    return {**found, "labels": dict(labels)} if labels else found


def _pod() -> dict[str, Any]:
    return {
        "terminationGracePeriodSeconds": _BEFORE_STOP + _DRAIN + 10,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }


def _container(what: Deployed, name: str, env: Mapping[str, str]) -> dict[str, Any]:
    container: dict[str, Any] = {"name": name, "image": what.image}
    if env:
        container["env"] = [{"name": one, "value": value} for one, value in env.items()]
    if what.secrets:
        container["envFrom"] = [{"secretRef": {"name": secret}} for secret in what.secrets]
    if what.resources:
        # What is asked for is what there is: a server that shares its cores is slow when it is needed.
        container["resources"] = {"requests": dict(what.resources), "limits": dict(what.resources)}
    return {
        **container,
        "startupProbe": _probe("ready", what.http_port, failures=_LOADING // _PROBES_EVERY),
        "readinessProbe": _probe("ready", what.http_port, failures=2),
        "livenessProbe": _probe("live", what.http_port, failures=6),
        "lifecycle": {"preStop": {"exec": {"command": [f"{VENV}/bin/python", "-c", _SLEEP]}}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }


_SLEEP = f"import time; time.sleep({_BEFORE_STOP})"


def _probe(what: str, port: int, *, failures: int) -> dict[str, Any]:
    return {
        "httpGet": {"path": f"/v2/health/{what}", "port": port},
        "periodSeconds": _PROBES_EVERY,
        "timeoutSeconds": 4,
        "failureThreshold": failures,
    }


def _service_port(name: str, port: int) -> dict[str, Any]:
    found = {"name": name, "port": port, "targetPort": name}
    # Without it, gateways would speak HTTP/1.1.
    return {**found, "appProtocol": "kubernetes.io/h2c"} if name == "grpc" else found
