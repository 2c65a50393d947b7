"""Fetches a function's code: from the definition, a path or the network."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from penstock.compat.openinference._definition.function_spec import FunctionSpec, Source
from penstock.compat.openinference._sources import git, s3, web
from penstock.errors import StartupError
from penstock.integrations import archives

__all__ = ["FetchedCode", "fetch_code", "is_remote_source", "locate_code"]

_DEFAULT_MODULE = "main"
"""Module name of code without a file name."""


@dataclass(frozen=True)
class FetchedCode:
    """Location of a function's code."""

    root: Path
    """Root folder of imports."""
    module: str
    """Module of the handler."""
    function: str
    files: tuple[Path, ...] = ()
    """Folders below the root that imports search too."""


def is_remote_source(source: Source) -> bool:
    """True if the code is not in the definition or on this machine."""
    return source.code is None and "://" in (source.source or "")


def fetch_code(function: FunctionSpec, folder: Path) -> FetchedCode:
    """Fetches the code of a function.

    Args:
        function: Function of the code.
        folder: Empty folder for code that is not on this machine already.

    Raises:
        StartupError: the code cannot be fetched, or does not match the definition.
    """
    try:
        return _fetch(function, folder)
    except RuntimeError as error:
        raise StartupError(f"function {function.name!r}: {error}") from None


def locate_code(function: FunctionSpec, root: Path) -> FetchedCode:
    """Returns the location of remote code that `fetch_code` has fetched."""
    name = unquote(urlsplit(function.source.source or "").path.rpartition("/")[2])
    return _find_module(function.source, root, name[:-3] if name.endswith(".py") else _DEFAULT_MODULE)


def _fetch(function: FunctionSpec, folder: Path) -> FetchedCode:
    source = function.source
    if source.code is not None:
        return _write_inline(source, source.code, folder)
    location = source.source or ""
    if "://" not in location:
        return _use_path(source, function.folder / location, location, folder)
    scheme, parts = urlsplit(location).scheme, urlsplit(location)
    if scheme == "git+https" or scheme.startswith("git+"):
        git.clone(location, folder)
        return _find_module(source, folder)
    if scheme in ("zip+http", "zip+https", "zip+s3"):
        archive = folder / "source.zip"
        get = s3.download if scheme == "zip+s3" else web.download
        get(location.removeprefix("zip+"), archive)
        archives.unpack(archive, folder)
        return _find_module(source, folder)
    if scheme in ("http", "https"):
        name = archives.checked(unquote(parts.path.rpartition("/")[2]) or "/").name
        if not name.endswith(".py"):
            raise RuntimeError(f"{web.redact_url(location)} names no Python file; an archive is zip+{scheme}://")
        web.download(location, folder / name)
        return _find_module(source, folder, name[:-3])
    if scheme == "s3":
        raise RuntimeError("s3:// is for archives only: write zip+s3://bucket/name.zip")
    raise RuntimeError(
        f"{scheme}:// is not supported, expected git+https, zip+https, zip+http, zip+s3, https, http or a path"
    )


def _write_inline(source: Source, code: bytes, folder: Path) -> FetchedCode:
    """Writes code of the definition to its path, by default main.py."""
    name = source.source if source.source and source.source.endswith(".py") and "://" not in source.source else None
    location = archives.checked(name.lstrip("/")) if name else archives.checked(f"{_DEFAULT_MODULE}.py")
    target = folder / location
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(code)
    return _find_module(source, folder, ".".join(location.with_suffix("").parts))


def _use_path(source: Source, path: Path, shown: str, folder: Path) -> FetchedCode:
    if path.is_dir():
        return _find_module(source, path)
    if not path.is_file():
        raise RuntimeError(f"there is no file or folder {shown}")
    if path.suffix == ".py":
        module, separator, _ = source.handler.rpartition(":")
        if separator and not (path.parent / Path(*module.split("."))).with_suffix(".py").is_file():
            raise RuntimeError(f"the handler is in module {module!r}, which is not next to {shown}")
        relative = Path(shown)
        if not relative.is_absolute() and ".." not in relative.parts and len(relative.parts) > 1:
            # Same as upstream: files in subfolders are imported by their path from the definition's folder.
            root = path.parents[len(relative.parts) - 1]
            return _find_module(source, root, ".".join(relative.with_suffix("").parts), (path.parent,))
        return _find_module(source, path.parent, path.stem)
    if archives.is_archive(path.name):
        copy = folder / path.name
        shutil.copyfile(path, copy)
        archives.unpack(copy, folder)
        return _find_module(source, folder)
    raise RuntimeError(f"{shown} is neither a folder, an archive nor a Python file")


def _find_module(
    source: Source, root: Path, module: str = _DEFAULT_MODULE, files: tuple[Path, ...] = ()
) -> FetchedCode:
    named_module, separator, function = source.handler.rpartition(":")
    module = named_module if separator else module
    path = root / Path(*module.split("."))
    if not path.with_suffix(".py").is_file() and not (path / "__init__.py").is_file():
        hint = "" if separator else f"; say where it is, as in module:{function}"
        raise RuntimeError(f"the source has no module {module!r} for the handler {source.handler!r}{hint}")
    return FetchedCode(root, module, function, files)
