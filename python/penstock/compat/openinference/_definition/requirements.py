"""What a function needs to be installed: lines, or a file that has them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from penstock.compat.openinference._definition.files import parsed
from penstock.errors import StartupError

__all__ = ["lines_of"]


def lines_of(given: tuple[str, ...] | str, folder: Path) -> tuple[str, ...]:
    """Lines as pip takes them.

    Args:
        given: The lines; or the path of a requirements.txt, pyproject.toml, setup.py or conda environment.
        folder: What the path is relative to.

    Raises:
        StartupError: the file cannot be read.
    """
    if not isinstance(given, str):
        return given
    path = folder / given
    if not path.is_file():
        raise StartupError(f"there is no file {given} with requirements")
    if path.name == "pyproject.toml":
        return tuple(_of_project(path))
    if path.suffix in (".yaml", ".yml"):
        return tuple(_of_conda(parsed(path), given))
    if path.name == "setup.py":
        return tuple(_of_setup(path))
    return tuple(_of_text(path, set()))


def _of_text(path: Path, seen: set[Path]) -> Iterator[str]:
    """Lines without comments; those of other files that they name, too."""
    seen.add(path.resolve())
    for written in path.read_text(encoding="utf-8").replace("\\\n", "").splitlines():
        line = re.sub(r"(^|\s)#.*$", "", written).strip()
        other = re.fullmatch(r"(?:-r|--requirement)[ =]?\s*(\S+)", line)
        if other is None:
            if line:
                yield line
            continue
        further = path.parent / other[1]
        if not further.is_file():
            raise StartupError(f"there is no file {other[1]} with requirements, which {path.name} names")
        if further.resolve() not in seen:
            yield from _of_text(further, seen)


def _of_project(path: Path) -> Iterator[str]:
    try:
        import tomllib
    except ImportError:
        try:
            import tomli as tomllib  # type: ignore[import-not-found]
        except ImportError:
            raise StartupError("pyproject.toml needs Python 3.11, or the package tomli") from None
    try:
        found: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise StartupError(f"{path.name} cannot be read: {error}") from None
    yield from found.get("project", {}).get("dependencies", [])


def _of_setup(path: Path) -> Iterator[str]:
    """`install_requires` where it is written out: nothing of the file is run."""
    import ast

    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError) as error:
        raise StartupError(f"{path.name} cannot be read: {error}") from None
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "install_requires":
            try:
                yield from map(str, ast.literal_eval(node.value))
            except (ValueError, TypeError):
                raise StartupError(
                    f"{path.name}: install_requires is computed; give the requirements as a list"
                ) from None


def _of_conda(found: Any, name: str) -> Iterator[str]:
    for one in found.get("dependencies") or []:
        if isinstance(one, dict):
            yield from map(str, one.get("pip") or [])
            continue
        package = re.fullmatch(r"(?:[\w.-]+::)?([\w.-]+)(?:\s*(==?|>=|<=|>|<|~=|!=)\s*([^\s=]+).*)?", str(one))
        if package is None:
            raise StartupError(f"{name}: {one!r} is no package of conda")
        if package[1] in ("python", "pip"):
            continue
        sign = "==" if package[2] == "=" else package[2] or ""
        yield f"{package[1]}{sign}{package[3] or ''}"
