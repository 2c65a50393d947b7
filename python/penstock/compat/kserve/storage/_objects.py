"""Object stores and HDFS, by fsspec and its plug-ins: the extra `penstock[kserve]`."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from penstock.compat.kserve.logging import logger
from penstock.compat.kserve.storage import _stores
from penstock.compat.kserve.storage._archives import unpack_only_file
from penstock.compat.kserve.storage._errors import explained
from penstock.compat.kserve.storage._patterns import Patterns
from penstock.compat.kserve.storage._settings import MOST_BYTES
from penstock.integrations.archives import Bounds, checked, staged
from penstock.integrations.downloads import expect, is_shown

__all__ = ["download", "get", "refuse_shares"]


def download(uri: str, folder: Path, patterns: Patterns) -> None:
    """Downloads a file, or all files below a path.

    Raises:
        RuntimeError: there are no files, or the download failed.
        ImportError: the plug-in is not installed.
    """
    store = _stores.of(uri)
    try:
        system = _system(store)
        get(system, store.path, folder, patterns, store.concurrency)
    except (RuntimeError, ImportError):
        raise
    except Exception as error:
        raise explained(store.name, uri.partition("?")[0], error, store.resource) from error


def refuse_shares(uri: str, folder: Path, patterns: Patterns) -> None:
    """Refuses Azure's file shares, which no plug-in of fsspec reads.

    Raises:
        RuntimeError: always.
    """
    del folder, patterns
    raise RuntimeError(
        f"{urlsplit(uri).netloc} is an Azure file share, which is not supported: mount it, or use a blob container"
    )


def get(system: Any, path: str, folder: Path, patterns: Patterns, concurrency: int) -> None:
    """Downloads a file, or all files below a path, of an fsspec file system.

    Raises:
        RuntimeError: there are no files.
    """
    tasks: list[tuple[str, Path]] = []
    bounds = Bounds(most=MOST_BYTES, what="the source")
    with staged(folder) as staging:
        for remote, relative in _files(system, path, patterns):
            bounds.entry()
            target = staging / checked(relative)
            target.parent.mkdir(parents=True, exist_ok=True)
            tasks.append((remote, target))
        if not tasks:
            raise RuntimeError(f"Failed to fetch model. No model found in {path}.")
        with ThreadPoolExecutor(min(concurrency, len(tasks))) as threads:
            for _ in threads.map(_getter(system, bounds), tasks):
                pass
        unpack_only_file(staging, [target for _, target in tasks])


def _files(system: Any, path: str, patterns: Patterns) -> list[tuple[str, str]]:
    """Returns each selected file, and its path below the source."""
    if system.isfile(path):
        expect(_size(system.info(path)) if is_shown() else None)
        return [(path, path.rstrip("/").rpartition("/")[2])]
    root = system._strip_protocol(path).strip("/")
    found = []
    # With details where the progress is shown: the store lists them anyway.
    listed = system.find(path, detail=True) if is_shown() else dict.fromkeys(system.find(path))
    for remote, details in listed.items():
        relative = remote.strip("/").removeprefix(root).lstrip("/")
        if remote.endswith("/") or not relative:
            continue
        if patterns.selects(relative):
            expect(_size(details))
            found.append((remote, relative))
        else:
            logger.info("Skipping %s due to file pattern filter", remote)
    return found


def _size(details: Any) -> int | None:
    """Bytes of a file, as its store lists it."""
    size = (details or {}).get("size")
    return size if isinstance(size, int) else None


def _getter(system: Any, bounds: Bounds) -> Callable[[tuple[str, Path]], None]:
    from fsspec.callbacks import Callback

    class Counting(Callback):  # type: ignore[misc]
        """Counts the received bytes of one file."""

        def relative_update(self, inc: int = 1) -> None:
            bounds.content(inc)
            super().relative_update(inc)

        def absolute_update(self, value: int) -> None:
            bounds.content(value - self.value)
            super().absolute_update(value)

    def get_one(task: tuple[str, Path]) -> None:
        remote, target = task
        system.get_file(remote, os.fspath(target), callback=Counting())
        logger.info("Downloaded object %s", remote)

    return get_one


def _system(store: _stores.Store) -> Any:
    try:
        import fsspec
    except ImportError:
        raise ImportError(f"{store.name} needs the package fsspec: pip install 'penstock[kserve]'") from None
    try:
        system = fsspec.filesystem(store.protocol, **store.options)
    except (ImportError, ValueError) as error:
        if isinstance(error, ValueError) and "not known" not in str(error).lower():
            raise
        needed = f"{store.name} needs the package {store.package}: pip install 'penstock[kserve]'"
        raise ImportError(needed) from error
    if store.headers:
        system.session.headers.update(store.headers)
    return system
