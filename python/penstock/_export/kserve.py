"""KServe manifests for a server in an image."""

from __future__ import annotations

from typing import Any

from penstock._export.manifests import Deployed, container_of, metadata_of, pod_of, port_of, resources_of

__all__ = ["kserve"]

_FORMAT = "penstock"
"""Model format of the runtime. The models are in the image, so the format is private to it."""


def kserve(what: Deployed, *, grpc: bool, raw: bool) -> list[dict[str, Any]]:
    """A ServingRuntime for the image, and an InferenceService that runs it.

    Args:
        what: The deployment.
        grpc: Whether clients use gRPC. The only port has one protocol.
        raw: Whether it is a plain Deployment, rather than one of Knative.
    """
    protocol = "grpc-v2" if grpc else "v2"
    return [_runtime(what, protocol, grpc=grpc, raw=raw), _service(what, protocol, raw=raw)]


def _runtime(what: Deployed, protocol: str, *, grpc: bool, raw: bool) -> dict[str, Any]:
    # Knative derives the protocol from the port's name.
    port = {**port_of("h2c" if grpc else "http1", what.http_port), "protocol": "TCP"}
    env = {**what.env, "PENSTOCK_GRPC": "same" if grpc else "off"}
    # The container name that KServe requires.
    container = {**container_of(what, "kserve-container", env), "ports": [port]}
    if not raw:
        # Knative forbids these, and has its own mechanisms.
        del container["startupProbe"], container["lifecycle"]
    return {
        "apiVersion": "serving.kserve.io/v1alpha1",
        "kind": "ServingRuntime",
        "metadata": metadata_of(what, {}),
        "spec": {
            "supportedModelFormats": [{"name": _FORMAT, "version": "1"}],
            "protocolVersions": [protocol],
            "multiModel": False,
            "containers": [container],
        },
    }


def _service(what: Deployed, protocol: str, *, raw: bool) -> dict[str, Any]:
    replicas = {"minReplicas": what.replicas}
    if what.most_replicas is not None:
        replicas["maxReplicas"] = what.most_replicas
    # No storageUri: nothing is fetched. Resources are set here, since KServe's defaults override the runtime's.
    model = {
        "modelFormat": {"name": _FORMAT, "version": "1"},
        "runtime": what.name,
        "protocolVersion": protocol,
        **resources_of(what),
    }
    metadata = metadata_of(what, {})
    if raw:
        metadata["annotations"] = {"serving.kserve.io/deploymentMode": "RawDeployment"}
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": metadata,
        "spec": {"predictor": {**replicas, **(pod_of() if raw else {}), "model": model}},
    }
