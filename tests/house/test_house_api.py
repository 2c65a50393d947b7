"""`__all__` is sorted and complete in every public module."""

from __future__ import annotations

import ast
import importlib
import inspect
from pathlib import Path

import pytest

import penstock
from house import relative, sources, text

PUBLIC = [
    path
    for path in sources(".py", under="python/penstock/")
    if not any(part.startswith("_") for part in (*path.parent.parts, path.stem.removeprefix("__init__")))
    and "compat" not in path.parts
]

INTERNAL_EXPORTS = {"logs": {"adapter", "inherit_console", "release_console", "setup_console"}}
"""Names of a public module that other modules use although they are not public."""


def exported(tree: ast.Module) -> list[str]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return list(ast.literal_eval(node.value))
    raise AssertionError("the module has no __all__")


def order(name: str) -> tuple[int, str]:
    """Constants, then classes, then functions; each by name."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


def module_name(path: Path) -> str:
    return relative(path).removeprefix("python/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def test_public_modules_are_as_listed() -> None:
    assert {module_name(path) for path in PUBLIC} == {
        "penstock",
        "penstock.client",
        "penstock.config",
        "penstock.errors",
        "penstock.images",
        "penstock.integrations",
        "penstock.integrations.archives",
        "penstock.integrations.downloads",
        "penstock.integrations.files",
        "penstock.integrations.modules",
        "penstock.integrations.options",
        "penstock.logs",
        "penstock.openai",
        "penstock.repository",
        "penstock.testing",
    }


@pytest.mark.parametrize("path", PUBLIC, ids=module_name)
def test_all_is_sorted_and_complete(path: Path) -> None:
    tree = ast.parse(path.read_text())
    names = exported(tree)
    assert names == sorted(names, key=order)
    definitions = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    defined = {node.name for node in tree.body if isinstance(node, definitions) and not node.name.startswith("_")}
    assert defined - set(names) == INTERNAL_EXPORTS.get(path.stem, set())
    module = importlib.import_module(module_name(path))
    assert all(inspect.getdoc(getattr(module, name)) for name in names)


def test_package_exports_all_its_imports() -> None:
    tree = ast.parse(text("python/penstock/__init__.py"))
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("penstock.")
        for alias in node.names
    }
    assert imported == set(exported(tree))
    assert exported(tree) == sorted(imported, key=order)
    for name in penstock.__all__:
        assert getattr(penstock, name) is not None
