"""Unpacks untrusted archives, completely or not at all.

Entries are written to an empty staging folder: files first, then links, so that no file is written through a link. A
link may go up only at its beginning and only within the folder, so that its target is always in the folder.
"""

from __future__ import annotations

import contextlib
import gzip
import lzma
import os
import shutil
import stat
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any

from penstock.integrations._bounds import Bounds
from penstock.integrations._packed import HEADERS, Counted, Forward, is_tar, kind_of, unpacked

__all__ = ["Bounds", "checked", "is_archive", "staged", "unpack", "unpack_file", "unpack_layer"]

_MAX_PATH, _MAX_PART = 2048, 255
"""Limits in bytes of a path, which leaves as much for the folder's, and of its parts."""
_MAX_SHOWN = 200
_MAX_COMMON_HEADERS = 100
_ENTRY = b"PK\x01\x02"
_ENDINGS = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
_BROKEN = (
    *(tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, lzma.LZMAError, zlib.error, EOFError),
    # A file in place of a folder or the reverse, and unknown compression methods.
    *(FileExistsError, IsADirectoryError, NotADirectoryError, NotImplementedError),
    # Malformed numbers, names and header chains in the readers of the standard library.
    *(ValueError, OverflowError, struct.error, RecursionError),
)
Rename = Callable[[str], "str | None"]


def is_archive(name: str) -> bool:
    """True if a file name has an extension of an archive."""
    return name.lower().endswith(_ENDINGS)


def unpack(archive: Path, folder: Path) -> None:
    """Unpacks an archive into a folder, and deletes it.

    Raises:
        RuntimeError: not an archive, an entry outside of the folder, or too much content.
    """
    bounds = Bounds(archive.stat().st_size)
    with staged(folder) as staging:
        with _errors(), open(archive, "rb") as file:
            head = file.read(tarfile.BLOCKSIZE)
            kind = kind_of(head)
            if not kind and not is_tar(head) and zipfile.is_zipfile(file):
                _unpack_zip(file, staging, bounds)
            else:
                file.seek(0)
                _unpack_tar(unpacked(file, kind), staging, bounds, lambda name: name)
        # Before the content is moved, since an entry may have the archive's name.
        archive.unlink()


def unpack_file(source: Any, place: Path) -> None:
    """Decompresses a gzip stream to a file.

    Raises:
        RuntimeError: not a gzip stream, or too much content.
    """
    bounds = Bounds()
    with _errors(), open(place, "wb") as file:
        bounds.copy(unpacked(Counted(source, bounds.packed), "gz"), file)  # type: ignore[arg-type]


def unpack_layer(source: Any, kind: str, folder: Path, bounds: Bounds, rename: Rename) -> None:
    """Unpacks entries of a tar stream into a folder, over the files in it.

    Args:
        source: The stream.
        kind: "gz", or "" for no compression.
        folder: The folder.
        bounds: Limits of the content; bytes of the stream count as packed.
        rename: Returns the name to unpack an entry to; None leaves it out.

    Raises:
        RuntimeError: not an archive, an entry that is outside of the folder or a device, or too much content.
    """
    with _errors():
        _unpack_tar(unpacked(Counted(source, bounds.packed), kind), folder, bounds, rename)  # type: ignore[arg-type]


@contextlib.contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except (*_BROKEN, OSError) as error:
        # bz2 reports invalid data as an OSError without a number.
        if isinstance(error, TimeoutError) or (not isinstance(error, _BROKEN) and error.errno is not None):
            raise
        raise RuntimeError(f"Failed to unpack archive file. The file format is not valid. ({error})") from None


def _entries(source: IO[bytes], bounds: Bounds) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    """The entries of a tar, which are not retained."""
    reader = Forward(source)
    with tarfile.TarFile(fileobj=reader) as archive:  # type: ignore[arg-type]
        while (entry := archive.next()) is not None:
            archive.members.clear()  # type: ignore[attr-defined]
            # tarfile copies the global headers into each entry.
            common = archive.pax_headers
            if len(common) > _MAX_COMMON_HEADERS or sum(map(len, common.values())) > HEADERS:
                raise RuntimeError(
                    f"the archive has more than {_MAX_COMMON_HEADERS} headers for all entries, or {HEADERS} bytes"
                )
            bounds.entry()
            reader.in_headers(False)
            yield archive, entry
            reader.in_headers(True)


def _unpack_tar(source: IO[bytes], folder: Path, bounds: Bounds, rename: Rename) -> None:
    links: list[tuple[PurePosixPath, str]] = []
    written: set[PurePosixPath] = set()
    for archive, entry in _entries(source, bounds):
        name = rename(entry.name)
        if name is None or PurePosixPath(name) == PurePosixPath():
            continue
        path = checked(name)
        if entry.isdir():
            _make_folder((folder / path).parent, bounds)
            (folder / path).mkdir(exist_ok=True)
        elif entry.isfile():
            content = archive.extractfile(entry)
            assert content is not None
            _write(folder / path, content, bounds, executable=bool(entry.mode & 0o100))
            written.add(path)
        elif entry.issym():
            # Links are collected until the end.
            if len(entry.linkname) > _MAX_PATH:
                raise RuntimeError(f"refused {name!r}: it is a link to a name of more than {_MAX_PATH} bytes")
            links.append((path, entry.linkname))
        elif entry.islnk():
            other = rename(entry.linkname)
            if other is None or checked(other) not in written:
                raise RuntimeError(
                    f"refused {name!r}: it is a link to {entry.linkname[:_MAX_SHOWN]!r}, which is not in the archive"
                )
            with open(folder / checked(other), "rb") as original:
                _write(folder / path, original, bounds, executable=bool(entry.mode & 0o100))
            written.add(path)
        else:
            raise RuntimeError(f"refused {name!r}: it is neither a file, a folder nor a link")
    for path, target in links:
        _link(folder, path, target, bounds)


def _unpack_zip(file: IO[bytes], folder: Path, bounds: Bounds) -> None:
    with zipfile.ZipFile(_Directory(file, bounds)) as archive:
        for entry in archive.infolist():
            bounds.entry()
            path = checked(entry.filename)
            kind = stat.S_IFMT(entry.external_attr >> 16)
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise RuntimeError(f"refused {entry.filename!r}: it is neither a file nor a folder")
            if entry.flag_bits & 1:
                raise RuntimeError(f"refused {entry.filename!r}: it is encrypted")
            # The standard library unpacks other methods without a memory limit.
            if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise RuntimeError(
                    f"refused {entry.filename!r}: it is compressed by method {entry.compress_type}, "
                    "expected 0 (stored) or 8 (deflated)"
                )
            if entry.is_dir():
                _make_folder((folder / path).parent, bounds)
                (folder / path).mkdir(exist_ok=True)
                continue
            with archive.open(entry) as content:
                _write(folder / path, content, bounds, executable=bool(entry.external_attr >> 16 & 0o100))


class _Directory:
    """Input for `zipfile` that checks the central directory: `zipfile` creates an object for each of its entries."""

    def __init__(self, file: IO[bytes], bounds: Bounds) -> None:
        self._file, self._bounds = file, bounds
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, size: int = -1) -> bytes:
        # zipfile reads the directory at once, before it checks anything.
        self._bounds.directory(size)
        data = self._file.read(size)
        if data.startswith(_ENTRY):
            self._bounds.directory(0, data.count(_ENTRY))
        return data


def _make_folder(place: Path, bounds: Bounds) -> None:
    """Creates a folder and its parents, each of which counts as an entry."""
    missing = []
    while not place.is_dir():
        missing.append(place)
        place = place.parent
    for folder in reversed(missing):
        bounds.entry()
        folder.mkdir()


def _write(place: Path, content: IO[bytes], bounds: Bounds, executable: bool) -> None:
    _make_folder(place.parent, bounds)
    with open(place, "wb") as file:
        bounds.copy(content, file)
    place.chmod(0o755 if executable else 0o644)


def _link(folder: Path, path: PurePosixPath, target: str, bounds: Bounds) -> None:
    parts = [part for part in PurePosixPath(target).parts if part != "."]
    up = 0
    while parts[up : up + 1] == [".."]:
        up += 1
    if target.startswith("/") or "\0" in target or ".." in parts[up:] or up > len(path.parts) - 1:
        raise RuntimeError(
            f"refused {str(path)!r}: it is a link to {target[:_MAX_SHOWN]!r}, which leads out of the folder"
        )
    place = folder / path
    _make_folder(place.parent, bounds)
    # A path through a link would be in another folder.
    if place.parent.resolve() != folder.resolve() / path.parent:
        raise RuntimeError(f"refused {str(path)!r}: it lies behind a link")
    if place.is_symlink() or place.is_file():
        place.unlink()
    os.symlink(target, place)


@contextlib.contextmanager
def staged(folder: Path) -> Iterator[Path]:
    """A staging folder within `folder`. Its content is moved to `folder` on success."""
    staging = Path(tempfile.mkdtemp(prefix=".getting-", dir=folder))
    try:
        yield staging
        _move(staging, folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def checked(name: str) -> PurePosixPath:
    """The path of an entry's name.

    Raises:
        RuntimeError: the path is absolute, too long, or goes up.
    """
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\0" in name or not path.parts:
        raise RuntimeError(f"refused {name[:_MAX_SHOWN]!r}: it leads out of the folder")
    if len(os.fsencode(name)) > _MAX_PATH or any(len(os.fsencode(part)) > _MAX_PART for part in path.parts):
        raise RuntimeError(
            f"refused a name that begins with {name[:_MAX_SHOWN]!r}: it is longer than {_MAX_PATH} bytes, "
            f"or a part of it longer than {_MAX_PART}"
        )
    return path


def _move(source: Path, target: Path) -> None:
    for entry in list(os.scandir(source)):
        place = target / entry.name
        if entry.is_dir(follow_symlinks=False):
            # A link of an earlier download may point anywhere.
            if place.is_symlink() or (place.exists() and not place.is_dir()):
                place.unlink()
            place.mkdir(exist_ok=True)
            _move(Path(entry.path), place)
        else:
            if place.is_dir() and not place.is_symlink():
                raise RuntimeError(f"there is a folder {place} already, where a file is to be")
            os.replace(entry.path, place)
