"""Layers of the crates: dependencies, use of the interpreter, and files with `unsafe`."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from house import CRATES, ROOT, relative, sources, text, without_comments

INTEGRATIONS = "python/penstock/compat/"

FORBIDDEN = {
    "core": {"axum", "tonic", "hyper", "prost", "serde_json", "tokio", "mio", "socket2", "pyo3", "numpy"},
    "wire": {"axum", "tonic", "hyper", "tokio", "mio", "socket2", "pyo3", "numpy"},
    "client": {"pyo3", "numpy", "axum", "tonic", "hyper"},
    "tls": {"pyo3", "numpy", "axum", "tonic", "hyper"},
    "server": {"pyo3", "numpy"},
    "process": {"axum", "tonic", "hyper", "prost", "serde_json", "tokio", "mio", "socket2", "pyo3", "numpy"},
    "py": set[str](),
}
UNSAFE_IN = {
    "rust/process/src/transport/region.rs",
    "rust/py/src/convert/borrow.rs",
    "rust/py/src/convert/from_numpy.rs",
    "rust/py/src/convert/to_numpy.rs",
    "rust/py/src/descriptors.rs",
    "rust/py/src/exit.rs",
    "rust/py/src/stacks.rs",
}
INTERPRETER = re.compile(r"Python::(?:try_)?attach|\btry_attach\b|\.detach\(|\bwith_gil\b|\ballow_threads\b")


def dependencies(crate: str) -> set[str]:
    """All crates in the dependency tree of a crate."""
    if shutil.which("cargo") is None:
        pytest.skip("cargo, which lists the dependencies, is not installed")
    command = ["cargo", "tree", "--locked", "-p", f"penstock-{crate}", "-e", "normal", "--prefix", "none"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {line.split()[0] for line in done.stdout.splitlines() if line}


@pytest.mark.parametrize("crate", CRATES)
def test_crate_has_no_forbidden_dependencies(crate: str) -> None:
    found = dependencies(crate) & FORBIDDEN[crate]
    assert not found, f"penstock-{crate} is built with {sorted(found)}: see the invariants in ARCHITECTURE.md"


@pytest.mark.parametrize("crate", CRATES)
def test_crate_depends_only_on_lower_crates(crate: str) -> None:
    own = {name for name in dependencies(crate) if name.startswith("penstock-")}
    below = set(CRATES[: CRATES.index(crate) + 1])
    # Client and server do not depend on each other, process depends on neither, and TLS on none.
    others = {"tls": {"core", "wire", "client"}, "server": {"client"}, "process": {"wire", "client", "tls", "server"}}
    below -= others.get(crate, set())
    assert own == {f"penstock-{name}" for name in below}


def test_only_one_file_attaches_to_the_interpreter() -> None:
    attaching = {relative(path) for path in sources(".rs") if INTERPRETER.search(without_comments(path.read_text()))}
    assert attaching == {"rust/py/src/attach.rs"}


def test_pyo3_is_used_in_one_crate() -> None:
    using = [path for path in sources(".rs") if re.search(r"\b(pyo3|numpy)::", without_comments(path.read_text()))]
    assert {relative(path).split("/src/")[0] for path in using} == {"rust/py"}


@pytest.mark.parametrize(
    "root", ["core/src/lib.rs", "wire/src/lib.rs", "client/src/lib.rs", "server/src/lib.rs", "codegen/src/main.rs"]
)
def test_crate_without_interpreter_forbids_unsafe(root: str) -> None:
    assert "#![forbid(unsafe_code)]" in text(f"rust/{root}").splitlines()


def test_unsafe_is_in_listed_files_with_safety_comments() -> None:
    found = set()
    for path in sources(".rs"):
        lines = path.read_text().splitlines()
        for number, line in enumerate(lines):
            if not re.search(r"\bunsafe\b", re.sub(r"//.*|unsafe_code", "", line)):
                continue
            found.add(relative(path))
            above = "\n".join(lines[max(0, number - 8) : number])
            assert "// SAFETY:" in above, f"{relative(path)}:{number + 1}: unsafe without a SAFETY comment"
    assert found == UNSAFE_IN


def test_panics_unwind_in_release_builds() -> None:
    # With "abort", a panic in one batch would end the user's interpreter.
    profiles = re.findall(r"^\[profile\.(\w+)\]\n((?:(?!\[).*\n?)*)", text("Cargo.toml"), re.MULTILINE)
    assert {"release", "fast"} <= {name for name, _ in profiles}
    assert 'panic = "unwind"' in dict(profiles)["release"]
    assert not [name for name, body in profiles if 'panic = "abort"' in body]


def imports(path: Path) -> list[tuple[ast.stmt, str]]:
    """Imports of a module: each statement with a full name; relative names are resolved."""
    package = list(path.relative_to(ROOT / "python").with_suffix("").parts)
    found: list[tuple[ast.stmt, str]] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [(node, one.name) for one in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = (
                [*package[: len(package) - node.level], *filter(None, [node.module])] if node.level else [node.module]
            )
            found += [(node, ".".join([*map(str, base), one.name])) for one in node.names]
    return found


def own_package(path: Path) -> str:
    """The integration of a module, such as `penstock.compat.pytriton`."""
    return ".".join(path.relative_to(ROOT / "python").with_suffix("").parts[:3])


@pytest.mark.parametrize("path", sources(".py", under=INTEGRATIONS), ids=relative)
def test_integration_uses_only_the_public_api(path: Path) -> None:
    tree = ast.parse(path.read_text())
    top = {id(node) for node in tree.body}
    for node, name in imports(path):
        where = f"{relative(path)}:{node.lineno}: {name}"
        if name.startswith(own_package(path)):
            continue
        first, *below = name.split(".")
        assert first in {"penstock", "numpy", *sys.stdlib_module_names} or id(node) not in top, f"{where}: a dependency"
        if first == "penstock":
            assert below[:1] != ["compat"], f"{where}: another integration"
            assert not [part for part in below if part.startswith("_") and part != "__version__"], f"{where}: private"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "penstock":
            assert not node.attr.startswith("_") or node.attr == "__version__", f"{relative(path)}:{node.lineno}"


def test_penstock_does_not_import_integrations() -> None:
    # The shim names integrations, but does not import them.
    for path in sources(".py", under="python/penstock/"):
        if not relative(path).startswith(INTEGRATIONS):
            assert not [name for _, name in imports(path) if name.startswith("penstock.compat")], relative(path)
    for path in sources(".rs"):
        assert "pytriton" not in without_comments(path.read_text()).lower(), relative(path)
