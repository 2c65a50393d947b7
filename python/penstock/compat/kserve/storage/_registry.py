"""Client of an image registry: manifests and blobs (OCI distribution specification)."""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import os
import re
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from penstock.compat.kserve.storage._settings import MOST_BYTES, flag
from penstock.integrations.archives import Bounds
from penstock.integrations.downloads import opened

__all__ = ["Blob", "Registry"]

_ACCEPTED = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_MOST = 16 << 20
_TIMEOUT = 60.0


class Registry:
    """A repository of images.

    Args:
        host: The registry's host and port.
        repository: The repository's name.
    """

    def __init__(self, host: str, repository: str) -> None:
        scheme = "http" if flag("KSERVE_OCI_INSECURE_REGISTRY") else "https"
        self._host, self._repository = host, repository
        # Docker Hub's registry has another host.
        api_host = "registry-1.docker.io" if host == "docker.io" else host
        self._url = f"{scheme}://{api_host}/v2/{repository}"
        self._authorization: str | None = None
        context = ssl.create_default_context()
        folder = os.environ.get("CA_BUNDLE_VOLUME_MOUNT_POINT")
        if folder and (bundle := Path(folder) / "cabundle.crt").exists():
            context.load_verify_locations(bundle)
        self._https = urllib.request.HTTPSHandler(context=context)
        self._bounds = Bounds(most=MOST_BYTES, what="the image")

    def manifest(self, reference: str) -> dict[str, Any]:
        """Returns the manifest, or the index of manifests, of a tag or a digest.

        Raises:
            RuntimeError: the request failed.
        """
        with self._get(f"{self._url}/manifests/{reference}", {"Accept": ", ".join(_ACCEPTED)}) as response:
            body = response.read(_MOST)
        if ":" in reference:
            _check(reference, hashlib.sha256(body).hexdigest())
        try:
            manifest: dict[str, Any] = json.loads(body)
        except ValueError as error:
            raise RuntimeError(f"the manifest of '{self._host}/{self._repository}' is not JSON: {error}") from None
        return manifest

    def blob(self, digest: str) -> Blob:
        """Returns a blob for reading.

        Raises:
            RuntimeError: the request failed.
        """
        return Blob(self._get(f"{self._url}/blobs/{digest}", {}), digest, self._bounds)

    def _get(self, url: str, headers: dict[str, str]) -> Any:
        sent = {"Authorization": self._authorization} if self._authorization else {}
        try:
            return opened(urllib.request.Request(url, headers={**headers, **sent}), _TIMEOUT, self._https)  # noqa: S310
        except urllib.error.HTTPError as error:
            challenge = error.headers.get("WWW-Authenticate", "")
            if error.code == 401 and self._authorization is None and (authorization := self._authorize(challenge)):
                self._authorization = authorization
                return self._get(url, headers)
            raise self._refusal(error.code) from None
        except (OSError, http.client.HTTPException) as error:
            raise RuntimeError(f"Failed to connect to OCI registry '{self._host}'. ({error})") from None

    def _refusal(self, status: int) -> RuntimeError:
        image = f"{self._host}/{self._repository}"
        if status == 401:
            return RuntimeError(f"OCI authentication failed for '{image}'. Verify KSERVE_OCI_DOCKER_CONFIG.")
        if status == 403:
            return RuntimeError(f"Access denied to OCI resource '{image}'. Verify permissions.")
        if status == 404:
            return RuntimeError(f"OCI resource '{image}' not found.")
        return RuntimeError(f"the OCI registry of '{image}' answered with status {status}")

    def _authorize(self, challenge: str) -> str | None:
        """Returns the authorization for the registry's challenge."""
        scheme, _, rest = challenge.partition(" ")
        basic = self._basic()
        if scheme.lower() == "basic":
            return basic
        demands = dict(re.findall(r'(\w+)="([^"]*)"', rest))
        realm = demands.pop("realm", "")
        # Credentials of a registry over TLS must not be sent without TLS.
        if scheme.lower() != "bearer" or urlsplit(realm).scheme not in ("https", urlsplit(self._url).scheme):
            return None
        query = urlencode({name: demands[name] for name in ("service", "scope") if name in demands})
        headers = {"Authorization": basic} if basic else {}
        try:
            request = urllib.request.Request(f"{realm}?{query}", headers=headers)  # noqa: S310 - the scheme is checked
            with opened(request, _TIMEOUT, self._https) as given:
                token = json.loads(given.read(_MOST))
        except urllib.error.HTTPError as error:
            raise self._refusal(error.code) from None
        return f"Bearer {token.get('token') or token.get('access_token')}"

    def _basic(self) -> str | None:
        """Returns Docker's credentials for this registry, if any: public images need none."""
        file = Path(os.environ.get("KSERVE_OCI_DOCKER_CONFIG", "/mnt/oci-fetch-auth/config.json"))
        try:
            known = json.loads(file.read_text())["auths"]
            for key in (self._host, f"https://{self._host}", self._host.partition(":")[0]):
                if key in known:
                    base64.b64decode(known[key]["auth"], validate=True)
                    return f"Basic {known[key]['auth']}"
        except (OSError, ValueError, KeyError, TypeError):
            pass
        return None


class Blob:
    """A blob of a registry, verified against its digest."""

    def __init__(self, response: Any, digest: str, bounds: Bounds) -> None:
        self._response, self._digest, self._bounds = response, digest, bounds
        self._hash = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        """Returns the next bytes.

        Raises:
            RuntimeError: the blob exceeds the limit.
        """
        chunk: bytes = self._response.read(size)
        self._bounds.content(len(chunk))
        self._hash.update(chunk)
        return chunk

    def finish(self) -> None:
        """Reads the rest.

        Raises:
            RuntimeError: the digest differs.
        """
        while self.read(1 << 20):
            pass
        _check(self._digest, self._hash.hexdigest())

    def __enter__(self) -> Blob:
        return self

    def __exit__(self, *_: object) -> None:
        self._response.close()


def _check(digest: str, found: str) -> None:
    algorithm, _, expected = digest.partition(":")
    if algorithm != "sha256" or expected != found:
        raise RuntimeError(f"the registry returned sha256:{found}, expected {digest}")
