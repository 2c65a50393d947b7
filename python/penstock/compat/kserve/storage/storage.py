"""`Storage`: downloads by URI."""

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
from penstock.integrations import downloads

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
    """Downloads models' files."""

    @staticmethod
    def download(
        uri: str,
        out_dir: str | None = None,
        allow_patterns: Sequence[str] | None = None,
        ignore_patterns: Sequence[str] | None = None,
    ) -> str:
        """Downloads a URI into a folder.

        A single archive (zip, tar, tar.gz and the like) is unpacked and then deleted. Its members
        must not lead out of the folder, be devices, or exceed `PENSTOCK_STORAGE_MAX_BYTES`
        and `PENSTOCK_STORAGE_MAX_FILES`. A failed download leaves no files.

        Args:
            uri: A local path or `file://` (linked, not copied); `http(s)://`; `s3://`, `gs://`, `abfs://`, an Azure
                blob's https URL, `hdfs://` or `webhdfs://` (with the extra `penstock[kserve]`);
                `https://...git`; `oci://registry/image`; `hf://owner/model[:revision]` and
                `modelscope://owner/model[:revision]` (with their own packages).
            out_dir: The folder; by default a new one, and for a local path that path itself.
            allow_patterns: Selected files, as `*.json`; default: STORAGE_ALLOW_PATTERNS.
            ignore_patterns: Excluded files; default: STORAGE_IGNORE_PATTERNS.

        Returns:
            The folder.

        Raises:
            RuntimeError: the download failed; the message says why.
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
        """Downloads several URIs, each into its own folder.

        Raises:
            ValueError: the numbers of folders and URIs differ.
        """
        if len(source_uris) != len(out_dirs):
            raise ValueError(f"out_dirs: got {len(out_dirs)} folders, expected {len(source_uris)}, one per URI")
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
    # The mounted folder is filled from outside.
    if found is not None and not mounted:
        with downloads.shown(_without_secrets(uri), Path(folder)):
            found(uri, Path(folder), patterns)
    return folder


def _without_secrets(uri: str) -> str:
    """Returns the URI for logs and messages: without passwords, and without queries, which may hold signatures."""
    return re.sub(r"//[^/@]*@", "//", uri.partition("?")[0])
