"""R9: small archives that demand much memory: for headers, names, folders, dictionaries."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import struct
import tarfile
import tracemalloc
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from stored import FILES, files_in, packed_tar, packed_zip

from penstock.compat.kserve.storage import Storage

LARGE = 64 << 20
NOT_VALID = r"Failed to unpack archive file. The file format is not valid\."
HEADERS = "the headers of one entry of the archive have more than the 1048576 bytes that are read"


@pytest.fixture
def traced() -> Iterator[None]:
    """Fails a test whose download takes much memory."""
    tracemalloc.start()
    yield
    tracemalloc.stop()


def block(name: bytes, kind: bytes, size: int) -> bytes:
    """Returns a header of any kind and size."""
    entry = tarfile.TarInfo(name.decode())
    entry.type, entry.size = kind, size
    return entry.tobuf(tarfile.GNU_FORMAT)


def padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % tarfile.BLOCKSIZE)


def record(key: str, value: str) -> bytes:
    """Returns a line of an extended header."""
    rest = f" {key}={value}\n"
    length = len(rest)
    while length != len(str(length)) + len(rest):
        length = len(str(length)) + len(rest)
    return f"{length}{rest}".encode()


def extended(kind: bytes, content: bytes) -> bytes:
    return block(b"h", kind, len(content)) + padded(content)


FILE = block(b"a", tarfile.REGTYPE, 1) + padded(b"x")
END = bytes(2 * tarfile.BLOCKSIZE)


def packed_by_gzip(*parts: bytes) -> bytes:
    return gzip.compress(b"".join(parts), 1)


def get(tmp_path: Path, body: bytes, name: str = "m.tar.gz") -> Path:
    (tmp_path / name).write_bytes(body)
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    try:
        return Path(Storage.download(str(tmp_path / name), str(tmp_path / "out")))
    finally:
        assert tracemalloc.get_traced_memory()[1] - before < LARGE // 4


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize("kind", [b"x", b"g", b"X", b"L", b"K"])
def test_r9_tar_header_size_is_bounded(tmp_path: Path, kind: bytes) -> None:
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=1) as archive:
        archive.write(FILE + block(b"h", kind, 2 * LARGE))
        for _ in range(2 * LARGE >> 20):
            archive.write(bytes(1 << 20))
        archive.write(FILE + END)
    with pytest.raises(RuntimeError, match=HEADERS):
        get(tmp_path, buffer.getvalue())
    with pytest.raises(RuntimeError, match=HEADERS):
        get(tmp_path, packed_by_gzip(block(b"h", kind, 1 << 40)), "n.tar.gz")


@pytest.mark.parametrize("kind", [b"x", b"L"])
def test_r9_long_entry_names_are_truncated_in_the_error(tmp_path: Path, kind: bytes) -> None:
    name = "/".join(["n" * 200] * 12)
    content = record("path", name) if kind == b"x" else name.encode() + b"\0"
    with pytest.raises(RuntimeError, match=r"refused a name that begins with 'n{200}': it is longer than 2048 bytes"):
        get(tmp_path, packed_by_gzip(extended(kind, content), FILE, END))
    assert get(tmp_path, packed_tar({"/".join(["n" * 200] * 5): b"x"}), "n.tar.gz").is_dir()


@pytest.mark.usefixtures("traced")
def test_r9_sparse_file_map_size_is_bounded(tmp_path: Path) -> None:
    # GNU tar's first format: each block announces the next.
    old = bytearray(block(b"a", tarfile.GNUTYPE_SPARSE, 0))
    old[482] = 1
    old[148:156] = b"%06o\0 " % (sum(old[:148]) + sum(old[156:512]) + 8 * 32)
    more = (struct.pack("12s12s", b"00000000001\0", b"00000000000\0") * 21 + b"\1").ljust(512, b"\0")
    # GNU tar's current format: numbers before the content.
    new = extended(b"x", record("GNU.sparse.major", "1") + record("GNU.sparse.minor", "0"))
    numbers = block(b"a", tarfile.REGTYPE, LARGE) + b"99999999\n" + b"0\n" * (LARGE // 2)
    for name, parts in [("m.tar.gz", (bytes(old), more * (LARGE // 512))), ("n.tar.gz", (new, numbers))]:
        with pytest.raises(RuntimeError, match=HEADERS):
            get(tmp_path, packed_by_gzip(*parts), name)


def test_r9_sparse_files_are_unpacked(tmp_path: Path) -> None:
    content = struct.pack("512s", b"1\n4\n2\n") + padded(b"ab")
    attributes = {"major": "1", "minor": "0", "name": "sparse", "realsize": "8"}
    header = b"".join(record(f"GNU.sparse.{key}", value) for key, value in attributes.items())
    body = packed_by_gzip(extended(b"x", header), block(b"a", tarfile.REGTYPE, 514), content, END)
    assert (get(tmp_path, body) / "sparse").read_bytes() == b"\0\0\0\0ab\0\0"


@pytest.mark.usefixtures("traced")
def test_r9_global_tar_headers_are_bounded_in_number(tmp_path: Path) -> None:
    parts = [extended(b"g", record(f"key{number}", "v" * 500_000)) + FILE for number in range(101)]
    with pytest.raises(RuntimeError, match="more than 100 headers for all entries"):
        get(tmp_path, packed_by_gzip(*parts, END))


@pytest.mark.parametrize(
    "parts",
    [
        [extended(b"x", record("a", "b"))] * 1000,
        [extended(b"x", record("size", "-1024")), FILE],
        [extended(b"x", record("GNU.sparse.major", "1") + record("GNU.sparse.minor", "0")), FILE[:512], b"no number"],
    ],
    ids=["a chain", "backwards", "no map"],
)
def test_r9_malformed_tar_headers_are_rejected(tmp_path: Path, parts: list[bytes]) -> None:
    with pytest.raises(RuntimeError, match=NOT_VALID):
        get(tmp_path, packed_by_gzip(FILE, *parts, FILE, END))


def test_r9_implicit_folders_count_as_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_STORAGE_MAX_FILES", "10")
    for name, body in [
        ("m.tar.gz", packed_tar({"/".join("abcdefghijk"): b"x"})),
        ("m.zip", packed_zip({"/".join("abcdefghijk"): b"x"})),
    ]:
        with pytest.raises(RuntimeError, match="more than 10 entries: PENSTOCK_STORAGE_MAX_FILES allows more"):
            get(tmp_path, body, name)


@pytest.mark.usefixtures("traced")
def test_r9_zip_directory_size_is_bounded(tmp_path: Path) -> None:
    entry = struct.pack("<4s6H3I5H2I", b"PK\x01\x02", 20, 20, 0, 0, 0, 33, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0) + b"a"
    for number, reason in [
        (100_001, "more than 100000 entries"),
        ((110 << 20) // len(entry), "a list of them of more"),
    ]:
        end = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, 0, 0, number * len(entry), 0, 0)
        with open(tmp_path / "m.zip", "wb") as file:
            for _ in range(number // 1000):
                file.write(entry * 1000)
            file.write(entry * (number % 1000) + end)
        with pytest.raises(RuntimeError, match=reason):
            get(tmp_path, (tmp_path / "m.zip").read_bytes(), "m.zip")


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_r9_zip_compression_other_than_deflate_is_refused(tmp_path: Path, method: int) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        archive.writestr("a", bytes(1 << 20))
    with pytest.raises(RuntimeError, match=f"refused 'a': it is compressed by method {method}, expected 0 .* or 8"):
        get(tmp_path, buffer.getvalue(), "m.zip")


def test_r9_xz_memory_is_bounded(tmp_path: Path) -> None:
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 256 << 20}]
    with pytest.raises(RuntimeError, match="the archive needs more than 128 MiB of memory to be unpacked"):
        get(tmp_path, lzma.compress(packed_tar(FILES, "w"), filters=filters), "m.tar.xz")


def test_r9_xz_with_several_streams_is_unpacked(tmp_path: Path) -> None:
    body = packed_tar(FILES, "w")
    streams = lzma.compress(body[:700]) + bytes(8) + lzma.compress(b"") + lzma.compress(body[700:])
    assert files_in(get(tmp_path, streams, "m.tar.xz")) == FILES
    with pytest.raises(RuntimeError, match=NOT_VALID):
        get(tmp_path, lzma.compress(packed_tar({"a": os.urandom(5000)}, "w"))[:3000], "n.tar.xz")


def test_r9_tar_with_appended_zip_is_a_tar(tmp_path: Path) -> None:
    files = {"a.txt": b"a", "z.zip": packed_zip(FILES)}
    assert files_in(get(tmp_path, packed_tar(files, "w"), "m.tar")) == files


def test_r9_entries_may_have_the_name_of_the_archive(tmp_path: Path) -> None:
    assert files_in(get(tmp_path, packed_tar({"m.tar.gz": b"x"}))) == {"m.tar.gz": b"x"}
