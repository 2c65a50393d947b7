"""Requirements of a function: lines, or a file that contains them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from penstock.compat.openinference._definition.files import parse_file
from penstock.errors import StartupError

__all__ = ["requirement_lines"]


def requirement_lines(requirements: tuple[str, ...] | str, folder: Path) -> tuple[str, ...]:
    """Returns lines in pip's format.

    Args:
        requirements: The lines, or the path of a requirements.txt, pyproject.toml, setup.py or conda environment.
        folder: Base of the path.

    Raises:
        StartupError: the file cannot be read.
    """
    if not isinstance(requirements, str):
        return requirements
    path = folder / requirements
    if not path.is_file():
        raise StartupError(f"there is no file {requirements} with requirements")
    if path.name == "pyproject.toml":
        return tuple(_project_lines(path))
    if path.suffix in (".yaml", ".yml"):
        return tuple(_conda_lines(parse_file(path), requirements))
    if path.name == "setup.py":
        return tuple(_setup_lines(path))
    return tuple(_text_lines(path, set()))


def _text_lines(path: Path, visited: set[Path]) -> Iterator[str]:
    """Yields lines without comments, and the lines of included files."""
    visited.add(path.resolve())
    for raw_line in path.read_text(encoding="utf-8").replace("\\\n", "").splitlines():
        line = re.sub(r"(^|\s)#.*$", "", raw_line).strip()
        included = re.fullmatch(r"(?:-r|--requirement)[ =]?\s*(\S+)", line)
        if included is None:
            if line:
                yield line
            continue
        included_path = path.parent / included[1]
        if not included_path.is_file():
            raise StartupError(f"there is no file {included[1]} with requirements, which {path.name} names")
        if included_path.resolve() not in visited:
            yield from _text_lines(included_path, visited)


def _project_lines(path: Path) -> Iterator[str]:
    try:
        import tomllib
    except ImportError:  # Python 3.10
        import tomli as tomllib  # type: ignore[import-not-found]
    try:
        found: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise StartupError(f"{path.name} cannot be read: {error}") from None
    yield from found.get("project", {}).get("dependencies", [])


def _setup_lines(path: Path) -> Iterator[str]:
    """Yields a literal `install_requires`. The file is parsed, never run."""
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


def _conda_lines(found: Any, name: str) -> Iterator[str]:
    for one in found.get("dependencies") or []:
        if isinstance(one, dict):
            yield from map(str, one.get("pip") or [])
            continue
        package = re.fullmatch(r"(?:[\w.-]+::)?([\w.-]+)(?:\s*(==?|>=|<=|>|<|~=|!=)\s*([^\s=]+).*)?", str(one))
        if package is None:
            raise StartupError(f"{name}: {one!r} is not a conda package")
        if package[1] in ("python", "pip"):
            continue
        operator = "==" if package[2] == "=" else package[2] or ""
        yield f"{package[1]}{operator}{package[3] or ''}"
