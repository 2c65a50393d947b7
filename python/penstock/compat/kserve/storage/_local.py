"""Local paths: linked, not copied."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

from penstock.compat.kserve.logging import logger
from penstock.compat.kserve.storage._archives import is_archive, unpack
from penstock.compat.kserve.storage._patterns import Patterns

__all__ = ["download"]


def download(uri: str, out_dir: str | None, patterns: Patterns) -> str:
    """Links a file or a folder's entries into `out_dir`; returns the path itself without one.

    Raises:
        RuntimeError: the path does not exist.
    """
    path = _path(uri)
    if not path.exists():
        raise RuntimeError(f"Local path {uri} does not exist.")
    if out_dir is None:
        return str(path)
    folder = Path(out_dir)
    folder.mkdir(parents=True, exist_ok=True)
    entries = sorted(path.iterdir()) if path.is_dir() else [path]
    selected = [entry for entry in entries if patterns.selects(entry.name)]
    if not selected:
        raise RuntimeError(f"Failed to fetch model. No model found in {uri}.")
    for entry in selected:
        target = folder / entry.name
        if target.exists():
            logger.info("File %s already exist", target)
            continue
        logger.info("Linking: %s to %s", entry, target)
        if target.is_symlink():
            target.unlink()
        target.symlink_to(entry.absolute())
    if len(selected) == 1 and selected[0].is_file() and is_archive(selected[0].name):
        unpack(folder / selected[0].name, folder)
    return out_dir


def _path(uri: str) -> Path:
    if not uri.startswith("file://"):
        return Path(uri)
    plain = uri.removeprefix("file://")
    # An unencoded path, as in KServe; else the standard's form.
    return Path(plain if os.path.exists(plain) else unquote(urlsplit(uri).path) or plain)
