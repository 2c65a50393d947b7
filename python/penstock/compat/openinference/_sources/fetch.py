"""Brings a function's code into a folder: from where it lies, or from the network."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from penstock.compat.openinference._definition.function_spec import FunctionSpec, Source
from penstock.compat.openinference._sources import git, s3, web
from penstock.errors import StartupError
from penstock.integrations import archives

__all__ = ["Code", "fetched", "is_remote", "located"]

_MAIN = "main"
"""The module of code that has no file."""


@dataclass(frozen=True)
class Code:
    """Where a function's code lies."""

    root: Path
    """What its imports begin at."""
    module: str
    """The handler's module."""
    function: str
    files: tuple[Path, ...] = ()
    """What of the root belongs to it; empty for all."""


def is_remote(source: Source) -> bool:
    """Whether the code is to be got from elsewhere."""
    return source.code is None and "://" in (source.source or "")


def fetched(function: FunctionSpec, folder: Path) -> Code:
    """Gets the code.

    Args:
        function: Whose.
        folder: An empty folder for what does not lie here already.

    Raises:
        StartupError: it cannot be got, or it is not what the definition says.
    """
    try:
        return _fetched(function, folder)
    except RuntimeError as error:
        raise StartupError(f"function {function.name!r}: {error}") from None


def located(function: FunctionSpec, root: Path) -> Code:
    """The code where `fetched` has put what is from elsewhere."""
    name = unquote(urlsplit(function.source.source or "").path.rpartition("/")[2])
    return _named(function.source, root, name[:-3] if name.endswith(".py") else _MAIN)


def _fetched(function: FunctionSpec, folder: Path) -> Code:
    source = function.source
    if source.code is not None:
        return _written(source, source.code, folder)
    place = source.source or ""
    if "://" not in place:
        return _local(source, function.folder / place, place, folder)
    scheme, parts = urlsplit(place).scheme, urlsplit(place)
    if scheme == "git+https" or scheme.startswith("git+"):
        git.clone(place, folder)
        return _named(source, folder)
    if scheme in ("zip+http", "zip+https", "zip+s3"):
        archive = folder / "source.zip"
        get = s3.download if scheme == "zip+s3" else web.download
        get(place.removeprefix("zip+"), archive)
        archives.unpack(archive, folder)
        return _named(source, folder)
    if scheme in ("http", "https"):
        name = archives.checked(unquote(parts.path.rpartition("/")[2]) or "/").name
        if not name.endswith(".py"):
            raise RuntimeError(f"{web.shown(place)} names no Python file; an archive is zip+{scheme}://")
        web.download(place, folder / name)
        return _named(source, folder, name[:-3])
    if scheme == "s3":
        raise RuntimeError("s3:// is for archives only: write zip+s3://bucket/name.zip")
    raise RuntimeError(
        f"{scheme}:// is no source of code; there are git+https, zip+https, zip+http, zip+s3, https, http and paths"
    )


def _written(source: Source, code: bytes, folder: Path) -> Code:
    """Code in the definition, at the path that it has there, or as main.py."""
    name = source.source if source.source and source.source.endswith(".py") and "://" not in source.source else None
    place = archives.checked(name.lstrip("/")) if name else archives.checked(f"{_MAIN}.py")
    target = folder / place
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(code)
    return _named(source, folder, ".".join(place.with_suffix("").parts))


def _local(source: Source, path: Path, shown: str, folder: Path) -> Code:
    if path.is_dir():
        return _named(source, path)
    if not path.is_file():
        raise RuntimeError(f"there is no file or folder {shown}")
    if path.suffix == ".py":
        module, separator, _ = source.handler.rpartition(":")
        if separator and not (path.parent / Path(*module.split("."))).with_suffix(".py").is_file():
            raise RuntimeError(f"the handler is in module {module!r}, which is not beside {shown}")
        relative = Path(shown)
        if not relative.is_absolute() and ".." not in relative.parts and len(relative.parts) > 1:
            # Upstream, what lies below is imported by its path from here.
            root = path.parents[len(relative.parts) - 1]
            return _named(source, root, ".".join(relative.with_suffix("").parts), (path.parent,))
        return _named(source, path.parent, path.stem)
    if archives.is_archive(path.name):
        copy = folder / path.name
        shutil.copyfile(path, copy)
        archives.unpack(copy, folder)
        return _named(source, folder)
    raise RuntimeError(f"{shown} is neither a folder, an archive nor a Python file")


def _named(source: Source, root: Path, module: str = _MAIN, files: tuple[Path, ...] = ()) -> Code:
    said, separator, function = source.handler.rpartition(":")
    module = said if separator else module
    path = root / Path(*module.split("."))
    if not path.with_suffix(".py").is_file() and not (path / "__init__.py").is_file():
        hint = "" if separator else f"; say where it is, as in module:{function}"
        raise RuntimeError(f"the source has no module {module!r} for the handler {source.handler!r}{hint}")
    return Code(root, module, function, files)
