"""Build context of an image: a Dockerfile and files, reproducible on every machine."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import penstock
from penstock._images.checks import image_path
from penstock._images.dockerfile import FIRST_LINE, dockerfile
from penstock._images.dockerignore import IgnoreRules
from penstock._spec.image import ImageSpec
from penstock.errors import StartupError

__all__ = ["check_wheel", "digest", "dockerfile_text", "epoch", "files_of", "write"]

_DEFAULT_EPOCH = 315532800
"""The first of January 1980, the earliest date in zip archives."""


def dockerfile_text(spec: ImageSpec, wheel: Path | None) -> str:
    """The text of the Dockerfile.

    Raises:
        StartupError: the description is wrong, or the wheel is not one of Penstock.
    """
    if wheel is not None:
        check_wheel(wheel)
    return dockerfile(spec, version=penstock.__version__, wheel=wheel.name if wheel else None)


def write(spec: ImageSpec, folder: Path, *, wheel: Path | None = None, environ: Mapping[str, str] = os.environ) -> Path:
    """Writes the context of an image into a folder that is new, empty, or an older context. Returns the folder.

    Raises:
        StartupError: the folder has other files, or a file of the image is missing or links out of its folder.
    """
    timestamp = epoch(environ)
    text = dockerfile_text(spec, wheel)
    for source, _ in spec.files:
        if folder.resolve().is_relative_to(source.resolve()):
            raise StartupError(f"{folder} is in {source}, which is copied into the image; name a folder outside of it")
    _clear(folder)
    try:
        (folder / "Dockerfile").write_text(text, encoding="utf-8")
        if spec.requirements:
            (folder / "requirements.txt").write_text("\n".join(spec.requirements) + "\n", encoding="utf-8")
        if wheel is not None:
            (folder / "wheels").mkdir()
            shutil.copyfile(wheel, folder / "wheels" / wheel.name)
        for source, target in spec.files:
            _copy(source, folder / "files" / image_path(target).lstrip("/"))
        _normalise(folder, timestamp)
    except OSError as error:
        raise StartupError(f"the context cannot be written: {error}") from None
    return folder


def digest(folder: Path) -> str:
    """SHA-256 of the names, modes and bytes of a context's files, in hexadecimal."""
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            mode = "x" if path.stat().st_mode & stat.S_IXUSR else "-"
            total.update(f"{path.relative_to(folder).as_posix()}\0{mode}\0{_content(path)}\n".encode())
    return total.hexdigest()


def _content(path: Path) -> str:
    total = hashlib.sha256()
    with path.open("rb") as file:
        # In parts: weights may be larger than memory.
        while part := file.read(1 << 20):
            total.update(part)
    return total.hexdigest()


def epoch(environ: Mapping[str, str]) -> int:
    """The modification time of all files of an image, in seconds since 1970.

    Raises:
        StartupError: `SOURCE_DATE_EPOCH` is not a number.
    """
    value = environ.get("SOURCE_DATE_EPOCH", "")
    if value and not (value.isascii() and value.isdigit()):
        raise StartupError(f"SOURCE_DATE_EPOCH is {value!r}, expected seconds since 1970")
    return int(value) if value else _DEFAULT_EPOCH


def check_wheel(wheel: Path) -> None:
    """Checks that a file is a wheel of Penstock.

    Raises:
        StartupError: there is no such file, or it is not a wheel of Penstock.
    """
    if not wheel.is_file():
        raise StartupError(f"--wheel: there is no file {wheel}")
    if not wheel.name.startswith("penstock-") or wheel.suffix != ".whl" or not zipfile.is_zipfile(wheel):
        raise StartupError(f"--wheel: {wheel} is not a wheel of Penstock, expected a file such as penstock-1.0-....whl")


def _clear(folder: Path) -> None:
    if folder.exists():
        if not folder.is_dir():
            raise StartupError(f"{folder} is a file, expected a folder for the context")
        if any(folder.iterdir()):
            dockerfile = folder / "Dockerfile"
            if not dockerfile.is_file() or not dockerfile.read_text(encoding="utf-8", errors="replace").startswith(
                FIRST_LINE
            ):
                raise StartupError(f"{folder} is not empty, and not a context of penstock build; name a new folder")
            for name in ("files", "wheels"):
                shutil.rmtree(folder / name, ignore_errors=True)
            (folder / "requirements.txt").unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)


def _copy(source: Path, target: Path) -> None:
    if source.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        shutil.copymode(source, target)
        return
    if not source.is_dir():
        raise StartupError(f"there is no file or folder {source} to copy into the image")
    target.mkdir(parents=True, exist_ok=True)
    for path in files_of(source):
        _copy(source / path, target / path)


def files_of(folder: Path) -> Iterator[str]:
    """The files of a folder that are not ignored, sorted. Links within the folder count as their targets."""
    root = folder.resolve()
    is_ignored = IgnoreRules(folder)

    def walk(below: str, seen: frozenset[Path]) -> Iterator[str]:
        for entry in sorted(os.scandir(folder / below), key=lambda entry: entry.name):
            path = f"{below}/{entry.name}" if below else entry.name
            ignored = is_ignored(path)
            if ignored and not (entry.is_dir(follow_symlinks=False) and is_ignored.includes_below):
                continue
            resolved = (folder / path).resolve()
            if entry.is_symlink() and not resolved.is_relative_to(root):
                raise StartupError(
                    f"{path} links to {os.readlink(entry.path)}, outside of what is copied into the image; "
                    "copy it, or name it in .dockerignore"
                )
            if entry.is_dir():
                if resolved in seen:
                    raise StartupError(f"{path} links to a folder that it is in; name it in .dockerignore")
                yield from walk(path, seen | {resolved})
            elif entry.is_file():
                if not ignored:
                    yield path
            else:
                raise StartupError(f"{path} is neither a file nor a folder; name it in .dockerignore")

    yield from walk("", frozenset({root}))


def _normalise(folder: Path, timestamp: int) -> None:
    """Sets modes and times that do not depend on the machine."""
    # Folders come after their files, whose changes update the time of the folder.
    for path in sorted(folder.rglob("*"), reverse=True):
        executable = path.is_dir() or bool(path.stat().st_mode & stat.S_IXUSR)
        path.chmod(0o755 if executable else 0o644)
        os.utime(path, (timestamp, timestamp))
    folder.chmod(0o755)
    os.utime(folder, (timestamp, timestamp))
