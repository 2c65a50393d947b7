"""KServe's description of a server in an image."""

from __future__ import annotations

from typing import Any

from penstock._export.manifests import Deployed, container_of, metadata_of, pod_of, port_of, resources_of

__all__ = ["kserve"]

_FORMAT = "penstock"
"""KServe asks which formats a runtime reads. Its models are in the image, so it is the format of that alone."""


def kserve(what: Deployed, *, grpc: bool, raw: bool) -> list[dict[str, Any]]:
    """A ServingRuntime, which is the image, and the InferenceService that runs it.

    Args:
        what: What is to run.
        grpc: Whether callers come by gRPC. There is one port, which has one protocol.
        raw: Whether it is a plain Deployment, rather than one of Knative.
    """
    protocol = "grpc-v2" if grpc else "v2"
    return [_runtime(what, protocol, grpc=grpc, raw=raw), _service(what, protocol, raw=raw)]


def _runtime(what: Deployed, protocol: str, *, grpc: bool, raw: bool) -> dict[str, Any]:
    # Knative tells the protocol by the port's name.
    port = {**port_of("h2c" if grpc else "http1", what.http_port), "protocol": "TCP"}
    env = {**what.env, "PENSTOCK_GRPC": "same" if grpc else "off"}
    # The name by which KServe knows the container that serves.
    container = {**container_of(what, "kserve-container", env), "ports": [port]}
    if not raw:
        # Knative allows none of these, and has ways of its own.
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
    # No storageUri: nothing is to be fetched. Resources are said here, or KServe puts its defaults over the runtime's.
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
