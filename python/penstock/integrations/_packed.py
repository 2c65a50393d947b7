"""Reads packed files forward, in memory that has a bound."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
from collections.abc import Callable
from typing import IO, Any, cast

__all__ = ["HEADERS", "Counted", "Forward", "is_tar", "kind_of", "unpacked"]

HEADERS = 1 << 20
"""Bytes that the headers of one entry of a tar may have: long names, extended headers and maps of sparse files."""

_PIECE = 1 << 20
_MEMORY = 128 << 20
_KINDS = ((b"\x1f\x8b", "gz"), (b"BZh", "bz2"), (b"\xfd7zXZ\0", "xz"))


def kind_of(head: bytes) -> str:
    """The compression of a file by its first bytes: "gz", "bz2", "xz", or "" for none."""
    return next((kind for magic, kind in _KINDS if head.startswith(magic)), "")


def is_tar(head: bytes) -> bool:
    """Whether a file's first 512 bytes are a header of tar."""
    try:
        tarfile.TarInfo.frombuf(head[: tarfile.BLOCKSIZE], "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True


def unpacked(source: IO[bytes], kind: str) -> IO[bytes]:
    """The content of a compressed stream, which is read in pieces."""
    if kind == "gz":
        return cast("IO[bytes]", gzip.GzipFile(fileobj=source, mode="rb"))
    if kind == "bz2":
        return bz2.BZ2File(source)
    return io.BufferedReader(_Xz(source)) if kind == "xz" else source


class Counted:
    """A stream that tells how much of it was read.

    Args:
        source: The stream.
        tell: Is called with the number of bytes, before they are used.
    """

    def __init__(self, source: Any, tell: Callable[[int], None]) -> None:
        self._source, self._tell = source, tell

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        piece: bytes = self._source.read(size)
        self._tell(len(piece))
        return piece


class Forward:
    """What `tarfile` reads from: it goes forward only, and its headers have a bound.

    `tarfile` reads a header as a whole, however large that says it is.
    """

    def __init__(self, source: IO[bytes]) -> None:
        self._source, self._at = source, 0
        self._left: int | None = HEADERS

    def in_headers(self, are_next: bool) -> None:
        """Says what is read next: the headers of one entry, or content."""
        self._left = HEADERS if are_next else None

    def read(self, size: int = -1) -> bytes:
        """The next bytes, as many as asked for where there are.

        Raises:
            RuntimeError: headers are larger than they may be.
        """
        if self._left is not None:
            if not 0 <= size <= self._left:
                raise RuntimeError(
                    f"the headers of one entry of the archive have more than the {HEADERS} bytes that are read"
                )
            self._left -= size
        parts = []
        while size > 0 and (part := self._source.read(min(size, _PIECE))):
            parts.append(part)
            size -= len(part)
            self._at += len(part)
        return b"".join(parts)

    def seek(self, place: int) -> int:
        """Skips up to a place.

        Raises:
            ReadError: it lies behind.
        """
        if place < self._at:
            raise tarfile.ReadError("its parts are not in order")
        while self._at < place and (part := self._source.read(min(place - self._at, _PIECE))):
            self._at += len(part)
        return self._at

    def tell(self) -> int:
        """The place of the next byte."""
        return self._at

    def seekable(self) -> bool:
        """As `tarfile` asks."""
        return True


class _Xz(io.RawIOBase):
    """The content of an xz file. `lzma.open` takes as much memory as the file asks for."""

    def __init__(self, source: IO[bytes]) -> None:
        self._source, self._rest = source, b""
        self._stream = self._new()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = b""
        while not data:
            if self._stream.eof:
                # Streams may follow each other, with zeros between.
                rest = self._stream.unused_data
                while not (rest := rest.lstrip(b"\0")):
                    if not (rest := self._source.read(io.DEFAULT_BUFFER_SIZE)):
                        return 0
                self._stream, self._rest = self._new(), rest
            if self._stream.needs_input and not self._rest:
                self._rest = self._source.read(io.DEFAULT_BUFFER_SIZE)
                if not self._rest:
                    raise EOFError("the file ends before its end is marked")
            data = self._unpacked(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _unpacked(self, most: int) -> bytes:
        rest, self._rest = self._rest, b""
        try:
            return self._stream.decompress(rest, most)
        except lzma.LZMAError as error:
            if "limit" not in str(error):
                raise
            raise RuntimeError(f"the archive needs more than {_MEMORY >> 20} MiB of memory to be unpacked") from None

    @staticmethod
    def _new() -> lzma.LZMADecompressor:
        return lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=_MEMORY)
