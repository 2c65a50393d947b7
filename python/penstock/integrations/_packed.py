"""Readers of compressed streams and tar headers, forward only and in bounded memory."""

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
"""Limit in bytes of the headers of one tar entry: long names, extended headers and sparse maps."""

_CHUNK = 1 << 20
_MEMORY = 128 << 20
_KINDS = ((b"\x1f\x8b", "gz"), (b"BZh", "bz2"), (b"\xfd7zXZ\0", "xz"))


def kind_of(head: bytes) -> str:
    """Compression of a file, by its first bytes: "gz", "bz2", "xz", or "" for none."""
    return next((kind for magic, kind in _KINDS if head.startswith(magic)), "")


def is_tar(head: bytes) -> bool:
    """True if the first 512 bytes of a file are a tar header."""
    try:
        tarfile.TarInfo.frombuf(head[: tarfile.BLOCKSIZE], "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True


def unpacked(source: IO[bytes], kind: str) -> IO[bytes]:
    """The decompressed stream, which is read in parts."""
    if kind == "gz":
        return cast("IO[bytes]", gzip.GzipFile(fileobj=source, mode="rb"))
    if kind == "bz2":
        return bz2.BZ2File(source)
    return io.BufferedReader(_Xz(source)) if kind == "xz" else source


class Counted:
    """A stream that reports the bytes read.

    Args:
        source: The stream.
        report: Called with the number of bytes of each read.
    """

    def __init__(self, source: Any, report: Callable[[int], None]) -> None:
        self._source, self._report = source, report

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        data: bytes = self._source.read(size)
        self._report(len(data))
        return data


class Forward:
    """Forward-only input for `tarfile`, with a limit of header sizes.

    `tarfile` itself reads headers of any announced size into memory.
    """

    def __init__(self, source: IO[bytes]) -> None:
        self._source, self._at = source, 0
        self._left: int | None = HEADERS

    def in_headers(self, are_next: bool) -> None:
        """Sets whether the next reads are headers of one entry, or content."""
        self._left = HEADERS if are_next else None

    def read(self, size: int = -1) -> bytes:
        """The next `size` bytes, fewer at the end.

        Raises:
            RuntimeError: headers exceed the limit.
        """
        if self._left is not None:
            if not 0 <= size <= self._left:
                raise RuntimeError(
                    f"the headers of one entry of the archive have more than the {HEADERS} bytes that are read"
                )
            self._left -= size
        parts = []
        while size > 0 and (part := self._source.read(min(size, _CHUNK))):
            parts.append(part)
            size -= len(part)
            self._at += len(part)
        return b"".join(parts)

    def seek(self, position: int) -> int:
        """Skips to a position ahead.

        Raises:
            ReadError: the position is behind.
        """
        if position < self._at:
            raise tarfile.ReadError("its parts are not in order")
        while self._at < position and (part := self._source.read(min(position - self._at, _CHUNK))):
            self._at += len(part)
        return self._at

    def tell(self) -> int:
        """The position of the next byte."""
        return self._at

    def seekable(self) -> bool:
        """True: `tarfile` requires it."""
        return True


class _Xz(io.RawIOBase):
    """Decompressed xz stream with limited memory, unlike `lzma.open`."""

    def __init__(self, source: IO[bytes]) -> None:
        self._source, self._rest = source, b""
        self._stream = self._new()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = b""
        while not data:
            if self._stream.eof:
                # A file may have several streams, with padding zeros between them.
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
