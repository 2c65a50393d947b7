"""Models in container images: `/models` of a modelcar."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

from penstock.compat.kserve.storage._patterns import Patterns
from penstock.compat.kserve.storage._registry import Registry
from penstock.integrations.archives import Bounds, staged, unpack_layer

__all__ = ["download"]

_INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
_KINDS = {
    "application/vnd.oci.image.layer.v1.tar": "",
    "application/vnd.oci.image.layer.v1.tar+gzip": "gz",
    "application/vnd.docker.image.rootfs.diff.tar.gzip": "gz",
}
_MODELS = "models/"
_MOST_SEEN, _SHOWN = 100, 100
"""Limits on the top-level names of an image that an error message lists."""
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


def download(uri: str, folder: Path, patterns: Patterns) -> None:
    """Downloads an image's `/models`.

    KSERVE_OCI_DOCKER_CONFIG is the path of Docker's `config.json` with credentials, KSERVE_OCI_INSECURE_REGISTRY allows
    plain HTTP, and CA_BUNDLE_VOLUME_MOUNT_POINT is the folder of an additional `cabundle.crt`.

    Raises:
        RuntimeError: the download failed, or the image has no models.
    """
    del patterns
    host, _, image = uri.removeprefix("oci://").partition("/")
    repository, _, digest = image.partition("@")
    repository, _, tag = repository.partition(":")
    if not host or not repository:
        raise RuntimeError(f"Invalid OCI URI; expected 'oci://<registry>/<repo>[:tag|@digest]', got '{uri}'")
    registry = Registry(host, repository)
    manifest = _for_this_machine(registry, uri, digest or tag or "latest")
    with staged(folder) as staging:
        _unpack(registry, uri, manifest, staging)


def _for_this_machine(registry: Registry, uri: str, reference: str) -> dict[str, Any]:
    manifest = registry.manifest(reference)
    if manifest.get("mediaType") not in _INDEXES:
        return manifest
    machine = platform.machine().lower()
    required = ("linux", _MACHINES.get(machine, machine))
    for entry in manifest.get("manifests", []):
        platform_of_entry = entry.get("platform", {})
        if (platform_of_entry.get("os"), platform_of_entry.get("architecture")) == required:
            return registry.manifest(entry["digest"])
    raise RuntimeError(f"OCI image index for {uri} has no manifest for {'/'.join(required)}")


def _unpack(registry: Registry, uri: str, manifest: dict[str, Any], folder: Path) -> None:
    top_level: set[str] = set()
    layers = [layer for layer in manifest.get("layers", []) if ".tar" in layer.get("mediaType", "")]
    # Counts received bytes: the sizes in a manifest are unverified.
    bounds = Bounds()
    for layer in layers:
        kind = _KINDS.get(layer["mediaType"])
        if kind is None:
            raise RuntimeError(f"OCI layer: got {layer['mediaType']!r}, expected tar or gzip")
        with registry.blob(layer["digest"]) as blob:
            unpack_layer(blob, kind, folder, bounds, lambda name: _below_models(name, top_level))
            blob.finish()
    if not any(folder.iterdir()):
        names = ", ".join(sorted(top_level)[:10]) or "nothing"
        raise RuntimeError(f"OCI image at {uri} has no /models/ directory; its top-level entries: {names}")


def _below_models(name: str, top_level: set[str]) -> str | None:
    plain = name.removeprefix("./").lstrip("/")
    if len(top_level) < _MOST_SEEN:
        top_level.add(plain.partition("/")[0][:_SHOWN])
    return plain.removeprefix(_MODELS) if plain.startswith(_MODELS) else None
