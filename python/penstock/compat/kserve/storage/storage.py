"""`Storage`: which source a URI names, and its download."""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from penstock.compat.kserve.logging import logger
from penstock.compat.kserve.storage import _git, _hubs, _local, _objects, _oci, _settings, _web
from penstock.compat.kserve.storage._patterns import Patterns

__all__ = ["MODEL_MOUNT_DIRS", "Storage"]

MODEL_MOUNT_DIRS = "/mnt/models"
_CLAIMS = "/mnt/pvc"

Source = Callable[[str, Path, Patterns], None]
_SOURCES: tuple[tuple[str, Source], ...] = (
    (r"(gs|s3|hdfs|webhdfs|abfs|abfss|az)://", _objects.download),
    (r"https://[^/]+\.blob\.(core\.windows\.net|storage\.azure\.net)/.", _objects.download),
    (r"https://[^/]+\.file\.(core\.windows\.net|storage\.azure\.net)/.", _objects.refuse_shares),
    (r"hf://", _hubs.from_hugging_face),
    (r"modelscope://", _hubs.from_modelscope),
    (r"oci://", _oci.download),
    (r"https://.+\.git$", _git.download),
    (r"https?://[^/]+/.", _web.download),
)


class Storage:
    """Gets models' files."""

    @staticmethod
    def download(
        uri: str,
        out_dir: str | None = None,
        allow_patterns: Sequence[str] | None = None,
        ignore_patterns: Sequence[str] | None = None,
    ) -> str:
        """Gets what a URI names into a folder.

        An archive (zip, tar, tar.gz and the like) that is all there is to get is unpacked, and then deleted. What is
        in it may not lead out of the folder, be a device, or be unreasonably much: see `PENSTOCK_STORAGE_MAX_BYTES`
        and `PENSTOCK_STORAGE_MAX_FILES`. Of a source that fails nothing is left.

        Args:
            uri: A local path or `file://` (linked, not copied); `http(s)://`; `s3://`, `gs://`, `abfs://`, an Azure
                blob's https URL, `hdfs://` or `webhdfs://` (with the extra `penstock[storage]`);
                `https://...git`; `oci://registry/image`; `hf://owner/model[:revision]` and
                `modelscope://owner/model[:revision]` (with their own packages).
            out_dir: The folder; by default a new one, and of a local path that path itself.
            allow_patterns: Which files are wanted, as `*.json`; by default what STORAGE_ALLOW_PATTERNS says.
            ignore_patterns: Which are not; by default what STORAGE_IGNORE_PATTERNS says.

        Returns:
            The folder.

        Raises:
            RuntimeError: it cannot be had; the message says why.
            ImportError: a package is missing; the message names it.

        Example:
            >>> Storage.download("s3://models/resnet", "/mnt/models")
            '/mnt/models'
        """
        began = time.monotonic()
        _settings.apply()
        patterns = Patterns.of(allow_patterns, ignore_patterns)
        logger.info("Copying contents of %s to local", _without_secrets(uri))
        if uri.startswith(_CLAIMS) and not os.path.exists(uri):
            raise RuntimeError(f"Cannot locate source uri {uri} for PVC")
        if uri.startswith("file://") or os.path.exists(uri):
            folder = _local.download(uri, out_dir, patterns)
        else:
            folder = _from_elsewhere(uri, out_dir, patterns)
        logger.info("Successfully copied %s to %s", _without_secrets(uri), folder)
        logger.info("Model downloaded in %s seconds.", time.monotonic() - began)
        return folder

    @staticmethod
    def download_files(
        source_uris: Sequence[str],
        out_dirs: Sequence[str],
        allow_patterns: Sequence[str] | None = None,
        ignore_patterns: Sequence[str] | None = None,
    ) -> list[str]:
        """Gets several URIs, each into a folder of its own.

        Raises:
            ValueError: there are not as many folders as URIs.
        """
        if len(source_uris) != len(out_dirs):
            raise ValueError(f"there are {len(source_uris)} URIs and {len(out_dirs)} folders, expected as many")
        pairs = zip(source_uris, out_dirs, strict=True)
        return [Storage.download(uri, folder, allow_patterns, ignore_patterns) for uri, folder in pairs]


def _from_elsewhere(uri: str, out_dir: str | None, patterns: Patterns) -> str:
    found = next((source for pattern, source in _SOURCES if re.match(pattern, uri)), None)
    mounted = uri.startswith(MODEL_MOUNT_DIRS)
    if found is None and not mounted:
        raise RuntimeError(
            f"Cannot recognize storage type for {_without_secrets(uri)}\n'gs://', 's3://', 'file://', 'http(s)://', "
            "'hf://', 'modelscope://' and 'oci://' are the current available storage types."
        )
    folder = tempfile.mkdtemp() if out_dir is None else out_dir
    os.makedirs(folder, exist_ok=True)
    # Somebody else puts models into the mounted folder.
    if found is not None and not mounted:
        found(uri, Path(folder), patterns)
    return folder


def _without_secrets(uri: str) -> str:
    """The URI for logs and messages: without passwords, and without queries, which may hold signatures."""
    return re.sub(r"//[^/@]*@", "//", uri.partition("?")[0])
