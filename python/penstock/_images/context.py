"""Writes what an image is built of: a Dockerfile, the files, and nothing that depends on where or when."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import penstock
from penstock._images.checks import place_of
from penstock._images.dockerfile import FIRST_LINE, dockerfile
from penstock._images.dockerignore import Ignored
from penstock._spec.image import ImageSpec
from penstock.errors import StartupError

__all__ = ["check_wheel", "digest", "epoch", "files_of", "text_of", "write"]

_NO_DATE = 315532800
"""The first of January 1980, the first day that archives can say."""


def text_of(spec: ImageSpec, wheel: Path | None) -> str:
    """The Dockerfile that `write` writes.

    Raises:
        StartupError: the description cannot be built, or the wheel is none of Penstock's.
    """
    if wheel is not None:
        check_wheel(wheel)
    return dockerfile(spec, version=penstock.__version__, wheel=wheel.name if wheel else None)


def write(spec: ImageSpec, folder: Path, *, wheel: Path | None = None, environ: Mapping[str, str] = os.environ) -> Path:
    """Writes the context of an image into a folder, which is new, empty, or an older one of these; gives it.

    Raises:
        StartupError: the folder has something else in it, a file is missing, or it links out of its folder.
    """
    when = epoch(environ)
    text = text_of(spec, wheel)
    for here, _ in spec.files:
        if folder.resolve().is_relative_to(here.resolve()):
            raise StartupError(f"{folder} is in {here}, which is copied into the image; name a folder outside of it")
    _make_room(folder)
    try:
        (folder / "Dockerfile").write_text(text, encoding="utf-8")
        if spec.requirements:
            (folder / "requirements.txt").write_text("\n".join(spec.requirements) + "\n", encoding="utf-8")
        if wheel is not None:
            (folder / "wheels").mkdir()
            shutil.copyfile(wheel, folder / "wheels" / wheel.name)
        for here, place in spec.files:
            _copy(here, folder / "files" / place_of(place).lstrip("/"))
        _settle(folder, when)
    except OSError as error:
        raise StartupError(f"the context cannot be written: {error}") from None
    return folder


def digest(folder: Path) -> str:
    """What a context is, in 64 hexadecimal digits: the names, modes and bytes of its files."""
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            mode = "x" if path.stat().st_mode & stat.S_IXUSR else "-"
            total.update(f"{path.relative_to(folder).as_posix()}\0{mode}\0{_content(path)}\n".encode())
    return total.hexdigest()


def _content(path: Path) -> str:
    total = hashlib.sha256()
    with path.open("rb") as file:
        # Weights may be larger than memory.
        while part := file.read(1 << 20):
            total.update(part)
    return total.hexdigest()


def epoch(environ: Mapping[str, str]) -> int:
    """The time that all files of an image have.

    Raises:
        StartupError: `SOURCE_DATE_EPOCH` is no number.
    """
    said = environ.get("SOURCE_DATE_EPOCH", "")
    if said and not (said.isascii() and said.isdigit()):
        raise StartupError(f"SOURCE_DATE_EPOCH is {said!r}, expected seconds since 1970")
    return int(said) if said else _NO_DATE


def check_wheel(wheel: Path) -> None:
    """Refuses what pip would not install as Penstock.

    Raises:
        StartupError: it is not there, or no wheel of Penstock's.
    """
    if not wheel.is_file():
        raise StartupError(f"--wheel: there is no file {wheel}")
    if not wheel.name.startswith("penstock-") or wheel.suffix != ".whl" or not zipfile.is_zipfile(wheel):
        raise StartupError(f"--wheel: {wheel} is no wheel of Penstock's, expected a file such as penstock-1.0-....whl")


def _make_room(folder: Path) -> None:
    if folder.exists():
        if not folder.is_dir():
            raise StartupError(f"{folder} is a file, expected a folder for the context")
        if any(folder.iterdir()):
            made = folder / "Dockerfile"
            if not made.is_file() or not made.read_text(encoding="utf-8", errors="replace").startswith(FIRST_LINE):
                raise StartupError(f"{folder} is not empty, and was not made by penstock build; name a new folder")
            for name in ("files", "wheels"):
                shutil.rmtree(folder / name, ignore_errors=True)
            (folder / "requirements.txt").unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)


def _copy(here: Path, there: Path) -> None:
    if here.is_file():
        there.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(here, there)
        shutil.copymode(here, there)
        return
    if not here.is_dir():
        raise StartupError(f"there is no file or folder {here} to copy into the image")
    there.mkdir(parents=True, exist_ok=True)
    for path in files_of(here):
        _copy(here / path, there / path)


def files_of(folder: Path) -> Iterator[str]:
    """The files in a folder that are not left out, in one order; links to what is in it are as what they link to."""
    root = folder.resolve()
    is_out = Ignored(folder)

    def walk(below: str, seen: frozenset[Path]) -> Iterator[str]:
        for entry in sorted(os.scandir(folder / below), key=lambda one: one.name):
            path = f"{below}/{entry.name}" if below else entry.name
            left_out = is_out(path)
            if left_out and not (entry.is_dir(follow_symlinks=False) and is_out.keeps_below):
                continue
            whole = (folder / path).resolve()
            if entry.is_symlink() and not whole.is_relative_to(root):
                raise StartupError(
                    f"{path} links to {os.readlink(entry.path)}, outside of what is copied into the image; "
                    "copy it, or name it in .dockerignore"
                )
            if entry.is_dir():
                if whole in seen:
                    raise StartupError(f"{path} links to a folder that it is in; name it in .dockerignore")
                yield from walk(path, seen | {whole})
            elif entry.is_file():
                if not left_out:
                    yield path
            else:
                raise StartupError(f"{path} is neither a file nor a folder; name it in .dockerignore")

    yield from walk("", frozenset({root}))


def _settle(folder: Path, when: int) -> None:
    """Gives everything the modes and the time that it has on every machine."""
    # Folders after what is in them: a file that is written changes its folder's time.
    for path in sorted(folder.rglob("*"), reverse=True):
        runs = path.is_dir() or bool(path.stat().st_mode & stat.S_IXUSR)
        path.chmod(0o755 if runs else 0o644)
        os.utime(path, (when, when))
    folder.chmod(0o755)
    os.utime(folder, (when, when))
