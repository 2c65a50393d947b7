"""Unpacks archives of which nothing is trusted.

Entries are written into an empty folder of ours: files first, then links, so that no file is written through one. A
link may lead up only at its begin and only within the folder, so that it leads within it whatever else is there.
"""

from __future__ import annotations

import gzip
import lzma
import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import IO

from penstock.compat.kserve.logging import logger
from penstock.compat.kserve.storage._bounds import Bounds
from penstock.compat.kserve.storage._staging import checked, staged

__all__ = ["is_archive", "unpack", "unpack_layer", "unpack_only_file"]

_ENDINGS = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
_BROKEN = (
    *(tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, lzma.LZMAError, zlib.error, EOFError),
    # A file where there is a folder, or the other way round; a way of compressing that is not known.
    *(FileExistsError, IsADirectoryError, NotADirectoryError, NotImplementedError),
)
Rename = Callable[[str], "str | None"]


def is_archive(name: str) -> bool:
    """Whether a file's name is one of an archive."""
    return name.lower().endswith(_ENDINGS)


def unpack(archive: Path, folder: Path) -> None:
    """Unpacks an archive into a folder, and deletes it.

    Raises:
        RuntimeError: it is no archive, leads out of the folder, or holds too much.
    """
    logger.info("Unpacking: %s", archive)
    bounds = Bounds(archive.stat().st_size)
    with staged(folder) as staging:
        try:
            if zipfile.is_zipfile(archive) and not tarfile.is_tarfile(archive):
                _unpack_zip(archive, staging, bounds)
            else:
                with tarfile.open(archive, "r:*") as opened:
                    _unpack_tar(opened, staging, bounds, lambda name: name)
        except _BROKEN as error:
            raise _broken(error) from None
    archive.unlink()


def unpack_only_file(folder: Path, files: list[Path]) -> None:
    """Unpacks what was got, if it is one archive and nothing else."""
    if len(files) == 1 and is_archive(files[0].name):
        unpack(files[0], folder)


def unpack_layer(archive: tarfile.TarFile, folder: Path, bounds: Bounds, rename: Rename) -> None:
    """Unpacks what `rename` gives a name, of a stream, over what is in a folder of ours already.

    Raises:
        RuntimeError: it is no archive, an entry leads out of the folder, is a device, or is too much.
    """
    try:
        _unpack_tar(archive, folder, bounds, rename)
    except _BROKEN as error:
        raise _broken(error) from None


def _broken(error: BaseException) -> RuntimeError:
    return RuntimeError(f"Failed to unpack archive file. The file format is not valid. ({error})")


def _unpack_tar(archive: tarfile.TarFile, folder: Path, bounds: Bounds, rename: Rename) -> None:
    links: list[tuple[PurePosixPath, str]] = []
    written: set[PurePosixPath] = set()
    for entry in archive:
        bounds.entry()
        name = rename(entry.name)
        if name is None or PurePosixPath(name) == PurePosixPath():
            continue
        path = checked(name)
        if entry.isdir():
            (folder / path).mkdir(parents=True, exist_ok=True)
        elif entry.isfile():
            content = archive.extractfile(entry)
            assert content is not None
            _write(folder / path, content, bounds, executable=bool(entry.mode & 0o100))
            written.add(path)
        elif entry.issym():
            links.append((path, entry.linkname))
        elif entry.islnk():
            other = rename(entry.linkname)
            if other is None or checked(other) not in written:
                raise RuntimeError(f"refused {name!r}: it is a link to {entry.linkname!r}, which is not in the archive")
            with open(folder / checked(other), "rb") as same:
                _write(folder / path, same, bounds, executable=bool(entry.mode & 0o100))
            written.add(path)
        else:
            raise RuntimeError(f"refused {name!r}: it is neither a file, a folder nor a link")
    for path, target in links:
        _link(folder, path, target)


def _unpack_zip(file: Path, folder: Path, bounds: Bounds) -> None:
    with zipfile.ZipFile(file) as archive:
        for entry in archive.infolist():
            bounds.entry()
            path = checked(entry.filename)
            kind = stat.S_IFMT(entry.external_attr >> 16)
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise RuntimeError(f"refused {entry.filename!r}: it is neither a file nor a folder")
            if entry.flag_bits & 1:
                raise RuntimeError(f"refused {entry.filename!r}: it is encrypted")
            if entry.is_dir():
                (folder / path).mkdir(parents=True, exist_ok=True)
                continue
            with archive.open(entry) as content:
                _write(folder / path, content, bounds, executable=bool(entry.external_attr >> 16 & 0o100))


def _write(place: Path, content: IO[bytes], bounds: Bounds, executable: bool) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    with open(place, "wb") as file:
        bounds.copy(content, file)
    place.chmod(0o755 if executable else 0o644)


def _link(folder: Path, path: PurePosixPath, target: str) -> None:
    parts = [part for part in PurePosixPath(target).parts if part != "."]
    up = 0
    while parts[up : up + 1] == [".."]:
        up += 1
    if target.startswith("/") or "\0" in target or ".." in parts[up:] or up > len(path.parts) - 1:
        raise RuntimeError(f"refused {str(path)!r}: it is a link to {target!r}, which leads out of the folder")
    place = folder / path
    place.parent.mkdir(parents=True, exist_ok=True)
    # What leads through a link would not be where its name says.
    if place.parent.resolve() != folder.resolve() / path.parent:
        raise RuntimeError(f"refused {str(path)!r}: it lies behind a link")
    if place.is_symlink() or place.is_file():
        place.unlink()
    os.symlink(target, place)
