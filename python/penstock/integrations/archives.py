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

_LONGEST, _LONGEST_PART = 2048, 255
"""Bytes of a path, which leaves as much for the folder's own, and of each of its parts."""
_SHOWN = 200
_MOST_COMMON = 100
_ENTRY = b"PK\x01\x02"
_ENDINGS = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
_BROKEN = (
    *(tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, lzma.LZMAError, zlib.error, EOFError),
    # A file where there is a folder, or the other way round; a way of compressing that is not known.
    *(FileExistsError, IsADirectoryError, NotADirectoryError, NotImplementedError),
    # Numbers, names and chains of headers that the standard library's readers do not expect.
    *(ValueError, OverflowError, struct.error, RecursionError),
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
    bounds = Bounds(archive.stat().st_size)
    with staged(folder) as staging:
        with _told(), open(archive, "rb") as file:
            head = file.read(tarfile.BLOCKSIZE)
            kind = kind_of(head)
            if not kind and not is_tar(head) and zipfile.is_zipfile(file):
                _unpack_zip(file, staging, bounds)
            else:
                file.seek(0)
                _unpack_tar(unpacked(file, kind), staging, bounds, lambda name: name)
        # Before what was in it gets into place, which may have its name.
        archive.unlink()


def unpack_file(source: Any, place: Path) -> None:
    """Unpacks a stream that is one file, packed by gzip.

    Raises:
        RuntimeError: it is not, or it holds too much.
    """
    bounds = Bounds()
    with _told(), open(place, "wb") as file:
        bounds.copy(unpacked(Counted(source, bounds.packed), "gz"), file)  # type: ignore[arg-type]


def unpack_layer(source: Any, kind: str, folder: Path, bounds: Bounds, rename: Rename) -> None:
    """Unpacks what `rename` gives a name, of the tar in a stream, over what is in a folder of ours already.

    Args:
        source: The stream.
        kind: "gz", or "" where it is not compressed.
        folder: The folder.
        bounds: What is counted; what the stream has counts as packed.
        rename: Gives each entry's name another, or none.

    Raises:
        RuntimeError: it is no archive, an entry leads out of the folder, is a device, or is too much.
    """
    with _told():
        _unpack_tar(unpacked(Counted(source, bounds.packed), kind), folder, bounds, rename)  # type: ignore[arg-type]


@contextlib.contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except (*_BROKEN, OSError) as error:
        # Of bz2, what is no bz2 is an error of the system without a number.
        if isinstance(error, TimeoutError) or (not isinstance(error, _BROKEN) and error.errno is not None):
            raise
        raise RuntimeError(f"Failed to unpack archive file. The file format is not valid. ({error})") from None


def _entries(source: IO[bytes], bounds: Bounds) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    """The entries of a tar, of which none is kept."""
    reader = Forward(source)
    with tarfile.TarFile(fileobj=reader) as archive:  # type: ignore[arg-type]
        while (entry := archive.next()) is not None:
            archive.members.clear()  # type: ignore[attr-defined]
            # Each entry gets a copy of the headers that hold for all of them.
            common = archive.pax_headers
            if len(common) > _MOST_COMMON or sum(map(len, common.values())) > HEADERS:
                raise RuntimeError(
                    f"the archive has more than {_MOST_COMMON} headers that hold for all entries, or {HEADERS} bytes"
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
            # They are kept up to the end.
            if len(entry.linkname) > _LONGEST:
                raise RuntimeError(f"refused {name!r}: it is a link to a name of more than {_LONGEST} bytes")
            links.append((path, entry.linkname))
        elif entry.islnk():
            other = rename(entry.linkname)
            if other is None or checked(other) not in written:
                raise RuntimeError(
                    f"refused {name!r}: it is a link to {entry.linkname[:_SHOWN]!r}, which is not in the archive"
                )
            with open(folder / checked(other), "rb") as same:
                _write(folder / path, same, bounds, executable=bool(entry.mode & 0o100))
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
            # Others are unpacked by the standard library without a bound on memory.
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
    """The file that `zipfile` reads, which makes an object of each entry of the directory at its end."""

    def __init__(self, file: IO[bytes], bounds: Bounds) -> None:
        self._file, self._bounds = file, bounds
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, size: int = -1) -> bytes:
        # It is read at once, and before anything of it is known.
        self._bounds.directory(size)
        data = self._file.read(size)
        if data.startswith(_ENTRY):
            self._bounds.directory(0, data.count(_ENTRY))
        return data


def _make_folder(place: Path, bounds: Bounds) -> None:
    """Makes a folder and those above it, each of which is an entry too."""
    missing = []
    while not place.is_dir():
        missing.append(place)
        place = place.parent
    for one in reversed(missing):
        bounds.entry()
        one.mkdir()


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
        raise RuntimeError(f"refused {str(path)!r}: it is a link to {target[:_SHOWN]!r}, which leads out of the folder")
    place = folder / path
    _make_folder(place.parent, bounds)
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
        raise RuntimeError(f"refused {name[:_SHOWN]!r}: it leads out of the folder")
    if len(os.fsencode(name)) > _LONGEST or any(len(os.fsencode(part)) > _LONGEST_PART for part in path.parts):
        raise RuntimeError(
            f"refused a name that begins with {name[:_SHOWN]!r}: it is longer than {_LONGEST} bytes, "
            f"or a part of it longer than {_LONGEST_PART}"
        )
    return path


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
