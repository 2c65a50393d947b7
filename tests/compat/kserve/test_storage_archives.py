"""R9: untrusted archives."""

from __future__ import annotations

import io
import os
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.compat.kserve.storage import Storage

Entry = tuple[str, bytes | None, dict[str, object]]


def tar(*entries: Entry) -> bytes:
    """Returns an archive of entries: name, content, and fields of `TarInfo`."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content, fields in entries:
            entry = tarfile.TarInfo(name)
            entry.size = len(content or b"")
            for field, value in fields.items():
                setattr(entry, field, value)
            archive.addfile(entry, io.BytesIO(content or b""))
    return buffer.getvalue()


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> Entry:
    return name, None, {"type": kind, "linkname": target}


def file(name: str, content: bytes = b"x") -> Entry:
    return name, content, {}


def get(tmp_path: Path, body: bytes, name: str = "m.tar.gz") -> Path:
    (tmp_path / name).write_bytes(body)
    return Path(Storage.download(str(tmp_path / name), str(tmp_path / "out")))


def zipped(fill: Callable[[zipfile.ZipFile], object]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        fill(archive)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ([file("../evil")], "leads out of the folder"),
        ([file("a/../../evil")], "leads out of the folder"),
        ([file("/tmp/evil")], "leads out of the folder"),
        ([link("a", "/etc/passwd")], "a link to '/etc/passwd', which leads out of the folder"),
        ([link("a", "..")], "which leads out of the folder"),
        ([link("d/a", "../../x")], "which leads out of the folder"),
        # Each link alone leads inside; both together lead out.
        ([link("here", "."), link("up", "here/..")], "which leads out of the folder"),
        ([link("up", "here/.."), link("here", ".")], "which leads out of the folder"),
        # The file would be written to the link's target.
        ([link("d", "sub"), link("d/e/f", "../../x"), file("sub/a")], "behind a link"),
        ([link("a", "/etc/passwd", tarfile.LNKTYPE)], "leads out of the folder"),
        ([link("a", "not/there", tarfile.LNKTYPE)], "which is not in the archive"),
        ([("a", None, {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 3})], "neither a file, a folder nor a link"),
        ([("a", None, {"type": tarfile.FIFOTYPE})], "neither a file, a folder nor a link"),
        ([file("a"), file("a/b")], "The file format is not valid"),
    ],
)
def test_r9_tar_entries_outside_the_folder_are_refused(tmp_path: Path, entries: list[Entry], reason: str) -> None:
    body = tar(file("first"), *entries)
    with pytest.raises(RuntimeError, match=reason):
        get(tmp_path, body)
    # Only the link to the archive, no unpacked file.
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["m.tar.gz"]
    assert not (tmp_path / "evil").exists()
    assert not Path("/tmp/evil").exists()


def test_r9_tar_files_are_not_written_through_links(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    with pytest.raises(RuntimeError, match="leads out of the folder"):
        get(tmp_path, tar(link("d", str(outside)), file("d/evil")))
    assert list(outside.iterdir()) == []


def test_r9_links_of_previous_downloads_are_not_followed(tmp_path: Path) -> None:
    outside, out = tmp_path / "outside", tmp_path / "out"
    outside.mkdir()
    out.mkdir()
    (out / "d").symlink_to(outside)
    get(tmp_path, tar(file("d/a")))
    assert list(outside.iterdir()) == []
    assert (out / "d" / "a").read_bytes() == b"x"


def test_r9_links_inside_the_folder_are_allowed(tmp_path: Path) -> None:
    entries = [
        file("v/1/model"),
        link("v/latest", "1"),
        link("v/1/up", "../../top"),
        link("hard", "v/1/model", tarfile.LNKTYPE),
    ]
    out = get(tmp_path, tar(*entries, file("top", b"top")))
    assert (out / "v" / "latest" / "model").read_bytes() == b"x"
    assert (out / "v" / "1" / "up").read_bytes() == b"top"
    assert (out / "hard").read_bytes() == b"x"


def test_r9_tar_modes_are_sanitized(tmp_path: Path) -> None:
    out = get(tmp_path, tar(("run", b"x", {"mode": 0o6755}), ("read", b"x", {"mode": 0o0})))
    assert stat.S_IMODE((out / "run").stat().st_mode) == 0o755
    assert stat.S_IMODE((out / "read").stat().st_mode) == 0o644


@pytest.mark.parametrize("name", ["../evil", "/tmp/evil", "a/../../evil"])
def test_r9_zip_entries_outside_the_folder_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(RuntimeError, match="leads out of the folder"):
        get(tmp_path, zipped(lambda archive: archive.writestr(name, b"x")), "m.zip")
    assert not (tmp_path / "evil").exists()


def test_r9_zip_links_are_refused(tmp_path: Path) -> None:
    entry = zipfile.ZipInfo("a")
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    with pytest.raises(RuntimeError, match="refused 'a': it is neither a file nor a folder"):
        get(tmp_path, zipped(lambda archive: archive.writestr(entry, b"/etc/passwd")), "m.zip")


def test_r9_invalid_archives_are_rejected(tmp_path: Path) -> None:
    for name, body in [
        ("m.zip", b"no"),
        ("m.tar.gz", b"no"),
        ("m.tar.bz2", b"BZh9no" * 9),
        ("n.tar.gz", tar(file("a", os.urandom(5000)))[:-2000]),
    ]:
        with pytest.raises(RuntimeError, match=r"Failed to unpack archive file. The file format is not valid\."):
            get(tmp_path, body, name)
        (tmp_path / "out" / name).unlink()


def test_r9_archives_with_too_many_bytes_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_STORAGE_MAX_BYTES", "1000000")
    for name, body in [
        ("m.tar.gz", tar(file("a", bytes(1_000_001)))),
        ("m.zip", zipped(lambda archive: archive.writestr("a", bytes(1_000_001)))),
    ]:
        with pytest.raises(RuntimeError, match="more than 1000000 bytes: PENSTOCK_STORAGE_MAX_BYTES allows more"):
            get(tmp_path, body, name)
        (tmp_path / "out" / name).unlink()
    monkeypatch.setenv("PENSTOCK_STORAGE_MAX_BYTES", "lots")
    with pytest.raises(RuntimeError, match="PENSTOCK_STORAGE_MAX_BYTES is 'lots', expected a number"):
        get(tmp_path, tar(file("a")))


def test_r9_default_unpacked_limit_is_100_times_the_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.integrations._bounds._LEAST", 0)
    with pytest.raises(RuntimeError, match="the archive holds more than"):
        get(tmp_path, tar(file("a", bytes(1 << 20))))


def test_r9_archives_with_too_many_entries_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_STORAGE_MAX_FILES", "10")
    with pytest.raises(RuntimeError, match="more than 10 entries: PENSTOCK_STORAGE_MAX_FILES allows more"):
        get(tmp_path, tar(*[file(str(number)) for number in range(11)]))
