"""Integrations in `penstock.compat`: no import circles, no dependency on another integration, small folders."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from house import ROOT, relative, sources

PACKAGE = "python/penstock/compat/"

WITHOUT_CIRCLES = ["inferless", "kserve", "modelbit", "openinference", "pytriton"]
"""Integrations whose modules import one another in one direction only."""

INTEGRATIONS = sorted(
    {path.relative_to(ROOT / PACKAGE).parts[0] for path in sources(".py", under=PACKAGE)} - {"__init__.py"}
)


def module_name(path: Path) -> str:
    """The dotted name of a file's module."""
    parts = path.relative_to(ROOT / "python").with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def modules(integration: str) -> dict[str, Path]:
    """The modules of an integration by name."""
    return {module_name(path): path for path in sources(".py", under=f"{PACKAGE}{integration}/")}


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


@pytest.mark.parametrize("integration", WITHOUT_CIRCLES)
def test_modules_import_in_one_direction(integration: str) -> None:
    known = modules(integration)
    graph = {name: imports(path, known) for name, path in known.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"import circle: {' <- '.join(error.args[1])}")


@pytest.mark.parametrize("integration", INTEGRATIONS)
def test_an_integration_imports_no_other_one(integration: str) -> None:
    others = tuple(f"penstock.compat.{one}" for one in INTEGRATIONS if one != integration)
    for path in modules(integration).values():
        assert not [name for name in names(path) if name.startswith(others)], relative(path)


@pytest.mark.parametrize("integration", WITHOUT_CIRCLES)
def test_a_folder_has_at_most_20_modules(integration: str) -> None:
    for folder in {path.parent for path in modules(integration).values()}:
        assert len(list(folder.glob("*.py"))) <= 20, relative(folder)
