"""Layers of `python/penstock`: a package imports only from packages below it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from import_graph import check_no_circle, module_name

from house import ROOT, relative, sources

PACKAGE = "python/penstock/"

LAYERS = [
    {"errors"},
    {"_spec"},
    {"_handler"},
    {"_runtime"},
    {"_config"},
    {"config"},
    {"_model"},
    {"_loading"},
    {"client"},
    {"logs"},
    {"openai"},
    {"integrations"},
    {"_repository"},
    {"repository"},
    {"_worker"},
    {"_attach"},
    {"_server"},
    {"testing"},
    {"_images"},
    {"images"},
    {"_export"},
    {"_reload"},
    {"_serve"},
    {"_shim"},
    {"_bench"},
    {"_cli"},
    {"__main__"},
]
"""Lowest first. Imports inside functions and under TYPE_CHECKING count like all others."""

RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}

WITHOUT_FACE = [
    path
    for path in sources(".py", under=PACKAGE)
    if "compat" not in path.parts and relative(path) != f"{PACKAGE}__init__.py"
]
OWN = [path for path in WITHOUT_FACE if "hook" not in path.parts]


def part_of(path: Path) -> str:
    """The package or module directly below `penstock` that a file is in."""
    return path.relative_to(ROOT / PACKAGE).with_suffix("").parts[0]


def imported(path: Path) -> Iterator[tuple[int, str, str]]:
    """Line, package or module below `penstock`, and full name of each import of a file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{relative(path)}:{node.lineno}: a relative import"
            for one in node.names:
                name = f"{node.module}.{one.name}"
                if name.startswith("penstock."):
                    yield node.lineno, name.split(".")[1], name
        elif isinstance(node, ast.Import):
            for one in node.names:
                if one.name.startswith("penstock."):
                    yield node.lineno, one.name.split(".")[1], one.name


def test_each_file_has_a_layer() -> None:
    assert {part_of(path) for path in OWN} == set(RANK)


@pytest.mark.parametrize("path", OWN, ids=relative)
def test_imports_are_from_lower_layers(path: Path) -> None:
    own = part_of(path)
    for line, part, name in imported(path):
        where = f"{relative(path)}:{line}: {name}"
        if part == "_core":
            continue
        assert part in RANK, f"{where}: import it from the module that declares it, not from the package"
        assert RANK[part] < RANK[own] or part == own, f"{where}: {part} is above {own}"


def test_modules_import_in_one_direction() -> None:
    check_no_circle({module_name(path): path for path in WITHOUT_FACE})


def test_circle_is_found(tmp_path: Path) -> None:
    for name, text in (
        ("a", "import b"),
        ("b", "if TYPE_CHECKING:\n    from c import C"),
        ("c", "def f():\n    import a"),
    ):
        (tmp_path / f"{name}.py").write_text(text)
    with pytest.raises(pytest.fail.Exception, match="import circle: "):
        check_no_circle({path.stem: path for path in tmp_path.glob("*.py")})


@pytest.mark.parametrize("folder", sorted({path.parent for path in OWN}), ids=relative)
def test_folder_has_at_most_20_modules(folder: Path) -> None:
    assert len(list(folder.glob("*.py"))) <= 20
