"""Unpacks archives of which nothing is trusted, and gets what is downloaded into place whole or not at all.

Entries are written into an empty folder of ours: files first, then links, so that no file is written through one. A
link may lead up only at its begin and only within the folder, so that it leads within it whatever else is there.
"""

from __future__ import annotations

import contextlib
import gzip
import lzma
import os
import shutil
import stat
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO

__all__ = ["Bounds", "checked", "is_archive", "staged", "unpack", "unpack_layer"]

_MOST_FILES = 100_000
_LEAST = 1 << 30
_RATIO = 100
_PIECE = 1 << 20
_ENDINGS = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
_BROKEN = (
    *(tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, lzma.LZMAError, zlib.error, EOFError),
    # A file where there is a folder, or the other way round; a way of compressing that is not known.
    *(FileExistsError, IsADirectoryError, NotADirectoryError, NotImplementedError),
)
Rename = Callable[[str], "str | None"]


class Bounds:
    """Counts files and bytes.

    Args:
        packed: The bytes of the archive. It may hold a hundred times as much and a GiB, or what the environment's
            PENSTOCK_STORAGE_MAX_BYTES says, in PENSTOCK_STORAGE_MAX_FILES files, by default 100,000.
    """

    def __init__(self, packed: int) -> None:
        self._bytes = _number("PENSTOCK_STORAGE_MAX_BYTES", _LEAST + _RATIO * packed)
        self._files = _number("PENSTOCK_STORAGE_MAX_FILES", _MOST_FILES)
        self._most_bytes, self._most_files = self._bytes, self._files

    def entry(self) -> None:
        """Counts one entry.

        Raises:
            RuntimeError: it is one too many.
        """
        self._files -= 1
        if self._files < 0:
            raise RuntimeError(
                f"the archive has more than {self._most_files} entries: PENSTOCK_STORAGE_MAX_FILES allows more"
            )

    def copy(self, source: IO[bytes], target: IO[bytes]) -> None:
        """Copies a file, and counts its bytes.

        Raises:
            RuntimeError: they are too many.
        """
        while piece := source.read(_PIECE):
            self._bytes -= len(piece)
            if self._bytes < 0:
                raise RuntimeError(
                    f"the archive holds more than {self._most_bytes} bytes: PENSTOCK_STORAGE_MAX_BYTES allows more"
                )
            target.write(piece)


def is_archive(name: str) -> bool:
    """Whether a file's name is one of an archive."""
    return name.lower().endswith(_ENDINGS)


def unpack(archive: Path, folder: Path) -> None:
    """Unpacks an archive into a folder, and deletes it.

    Raises:
        RuntimeError: it is no archive, leads out of the folder, or holds too much.
    """
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


@contextlib.contextmanager
def staged(folder: Path) -> Iterator[Path]:
    """A new folder within `folder`, whose content moves there at a good end."""
    staging = Path(tempfile.mkdtemp(prefix=".getting-", dir=folder))
    try:
        yield staging
        _move(staging, folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def checked(name: str) -> PurePosixPath:
    """A path as a source has it, if it leads nowhere but down.

    Raises:
        RuntimeError: it is absolute, or leads up.
    """
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\0" in name or not path.parts:
        raise RuntimeError(f"refused {name!r}: it leads out of the folder")
    return path


def _number(name: str, default: int) -> int:
    said = os.environ.get(name)
    if not said:
        return default
    if not said.isdecimal():
        raise RuntimeError(f"{name} is {said!r}, expected a number")
    return int(said)


def _move(source: Path, target: Path) -> None:
    for entry in list(os.scandir(source)):
        place = target / entry.name
        if entry.is_dir(follow_symlinks=False):
            # A link of an earlier download may lead anywhere.
            if place.is_symlink() or (place.exists() and not place.is_dir()):
                place.unlink()
            place.mkdir(exist_ok=True)
            _move(Path(entry.path), place)
        else:
            if place.is_dir() and not place.is_symlink():
                raise RuntimeError(f"there is a folder {place} already, where a file is to be")
            os.replace(entry.path, place)
