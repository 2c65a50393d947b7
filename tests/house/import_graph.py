"""Import graph of Python modules: at the top, inside functions and under TYPE_CHECKING."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from house import ROOT, relative


def module_name(path: Path) -> str:
    """The dotted name of a file's module."""
    parts = path.relative_to(ROOT / "python").with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def names(path: Path) -> set[str]:
    """The full names that a file imports: at the top, inside functions and under TYPE_CHECKING."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{relative(path)}:{node.lineno}: a relative import"
            found |= {f"{node.module}.{one.name}" for one in node.names}
        elif isinstance(node, ast.Import):
            found |= {one.name for one in node.names}
    return found


def imports(path: Path, known: dict[str, Path]) -> set[str]:
    """The modules among `known` that a file imports."""
    found = set()
    for name in names(path):
        module = name
        while module and module not in known:
            module = module.rpartition(".")[0]
        if module and known[module] != path:
            found.add(module)
    return found


def check_no_circle(known: dict[str, Path]) -> None:
    """Fails if modules among `known` import one another in a circle."""
    graph = {name: imports(path, known) for name, path in known.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"import circle: {' <- '.join(error.args[1])}")
