"""Kubernetes manifests for a server in an image, and parts that KServe's share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from penstock._images.checks import VENV
from penstock._images.dockerfile import USER

__all__ = ["Deployed", "SecretFiles", "container_of", "kubernetes", "metadata_of", "pod_of", "port_of", "resources_of"]

_BEFORE_STOP = 5
"""Seconds for load balancers to remove a server before it is stopped."""
_DRAIN = 30
_LOADING = 600
"""Seconds for loading models."""
_PROBES_EVERY = 5
_STALL_TIMEOUT = "120s"
"""Time without progress after which the liveness probe fails; a batch that takes longer needs another one in `env`."""


_FILES = {
    "tls": {"PENSTOCK_TLS_CERTIFICATE": "tls.crt", "PENSTOCK_TLS_KEY": "tls.key"},
    "keys": {"PENSTOCK_KEYS_FILE": "keys.toml"},
}
"""Entries of the Secrets of each kind, by the variable of the setting that names the file."""

_FOLDER = "/etc/penstock"
_READ_BY_GROUP = 0o440


@dataclass(frozen=True, slots=True)
class SecretFiles:
    """A Secret whose entries are files of the server."""

    kind: Literal["tls", "keys"]
    secret: str

    @property
    def folder(self) -> str:
        """Folder of the files."""
        return f"{_FOLDER}/{self.kind}"

    @property
    def env(self) -> dict[str, str]:
        """Settings that name the files."""
        return {variable: f"{self.folder}/{entry}" for variable, entry in _FILES[self.kind].items()}


@dataclass(frozen=True, kw_only=True, slots=True)
class Deployed:
    """Deployment of an image."""

    name: str
    image: str
    http_port: int = 8000
    grpc_port: int | None = 8001
    namespace: str | None = None
    replicas: int = 1
    most_replicas: int | None = None
    """Maximum of replicas; None leaves it to the platform."""
    queue_depth: int = 8
    """Queued requests per replica that trigger another replica."""
    resources: Mapping[str, str] = field(default_factory=dict)
    """Amounts by name: `cpu`, `memory`, `nvidia.com/gpu`."""
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    """Names of Secrets whose entries become variables."""
    files: tuple[SecretFiles, ...] = ()
    """Secrets whose entries become files that settings name."""

    @property
    def is_encrypted(self) -> bool:
        """Set if the server speaks TLS."""
        return any(files.kind == "tls" for files in self.files)


def kubernetes(what: Deployed) -> list[dict[str, Any]]:
    """A Deployment, its Service, and an autoscaler if there may be more replicas."""
    labels = {"app.kubernetes.io/name": what.name}
    ports = {"http": what.http_port, **({"grpc": what.grpc_port} if what.grpc_port else {})}
    container = {
        **container_of(what, what.name, what.env),
        **resources_of(what),
        "ports": [port_of(name, port) for name, port in ports.items()],
    }
    scaled = what.most_replicas is not None and what.most_replicas > what.replicas
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata_of(what, labels),
        "spec": {
            # Without replicas if it is scaled: applying the manifest again would reset the number.
            **({} if scaled else {"replicas": what.replicas}),
            "selector": {"matchLabels": labels},
            # An old pod ends when its successor is ready.
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
            "template": {
                "metadata": {"labels": labels, "annotations": _scraped(what)},
                "spec": {**pod_of(), "containers": [container], **_volumes(what)},
            },
        },
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata_of(what, labels),
        "spec": {"selector": labels, "ports": [_service_port(name, port) for name, port in ports.items()]},
    }
    return [deployment, service, *([_autoscaler(what, labels)] if scaled else [])]


def _autoscaler(what: Deployed, labels: Mapping[str, str]) -> dict[str, Any]:
    """Autoscaler by queue depth. Processor load is not a measure: a server that waits for a GPU has none."""
    depth = {
        "metric": {"name": "penstock_queue_depth"},
        "target": {"type": "AverageValue", "averageValue": str(what.queue_depth)},
    }
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": metadata_of(what, labels),
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": what.name},
            "minReplicas": what.replicas,
            "maxReplicas": what.most_replicas,
            "metrics": [{"type": "Pods", "pods": depth}],
        },
    }


def _scraped(what: Deployed) -> dict[str, str]:
    """Annotations for Prometheus' discovery of pods."""
    return {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": str(what.http_port),
        "prometheus.io/path": "/metrics",
        **({"prometheus.io/scheme": "https"} if what.is_encrypted else {}),
    }


def metadata_of(what: Deployed, labels: Mapping[str, str]) -> dict[str, Any]:
    """Metadata of an object: name, namespace and labels."""
    found: dict[str, Any] = {"name": what.name}
    if what.namespace:
        found["namespace"] = what.namespace
    return {**found, "labels": dict(labels)} if labels else found


def pod_of() -> dict[str, Any]:
    """Settings of the pod."""
    return {
        "terminationGracePeriodSeconds": _BEFORE_STOP + _DRAIN + 10,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }


def container_of(what: Deployed, name: str, env: Mapping[str, str]) -> dict[str, Any]:
    """The server's container, without ports and resources."""
    container: dict[str, Any] = {"name": name, "image": what.image}
    # A variable that is given takes precedence.
    env = {"PENSTOCK_STALL_TIMEOUT": _STALL_TIMEOUT, "PENSTOCK_CORE_DUMPS": "off", **env}
    env |= {variable: path for files in what.files for variable, path in files.env.items()}
    container["env"] = [{"name": one, "value": value} for one, value in env.items()]
    if what.secrets:
        container["envFrom"] = [{"secretRef": {"name": secret}} for secret in what.secrets]
    if what.files:
        container["volumeMounts"] = [
            {"name": files.kind, "mountPath": files.folder, "readOnly": True} for files in what.files
        ]
    return {
        **container,
        "startupProbe": _probe(what, "ready", failures=_LOADING // _PROBES_EVERY),
        "readinessProbe": _probe(what, "ready", failures=2),
        "livenessProbe": _probe(what, "live", failures=6),
        "lifecycle": {"preStop": {"exec": {"command": [f"{VENV}/bin/python", "-c", _SLEEP]}}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }


def resources_of(what: Deployed) -> dict[str, Any]:
    """Resources of each replica as a container's field; empty if none are given."""
    # Requests equal limits: a server that shares its cores is slow under load.
    return {"resources": {"requests": dict(what.resources), "limits": dict(what.resources)}} if what.resources else {}


def port_of(name: str, port: int) -> dict[str, Any]:
    """A container's port."""
    return {"name": name, "containerPort": port}


_SLEEP = f"import time; time.sleep({_BEFORE_STOP})"


def _volumes(what: Deployed) -> dict[str, Any]:
    """Volumes of the pod, of Secrets that the server reads again when they change."""
    found = [
        {"name": files.kind, "secret": {"secretName": files.secret, "defaultMode": _READ_BY_GROUP}}
        for files in what.files
    ]
    return {"volumes": found} if found else {}


def _probe(what: Deployed, state: str, *, failures: int) -> dict[str, Any]:
    # The certificate is not checked: it is not for the pod's address.
    scheme = {"scheme": "HTTPS"} if what.is_encrypted else {}
    return {
        "httpGet": {"path": f"/v2/health/{state}", "port": what.http_port, **scheme},
        "periodSeconds": _PROBES_EVERY,
        "timeoutSeconds": 4,
        "failureThreshold": failures,
    }


def _service_port(name: str, port: int) -> dict[str, Any]:
    found = {"name": name, "port": port, "targetPort": name}
    # Otherwise gateways use HTTP/1.1.
    return {**found, "appProtocol": "kubernetes.io/h2c"} if name == "grpc" else found
