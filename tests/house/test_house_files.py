"""Limits on the length of files, and on their content."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from house import ROOT, files, is_test, relative, sources, text, without_tests

SOFT, HARD = 300, 500

LONG_WITH_REASON = {
    "python/penstock/config.py": "every setting with its kind and help, and as a keyword argument",
    "python/penstock/_model/model.py": "one public class: each option of a model, checked and defined",
    "python/penstock/_server/server.py": "one public class: the methods of a server with their exceptions",
    "rust/server/src/rest/routes.rs": "the table of REST routes",
    "rust/server/src/settings/config.rs": "every setting as a plain value",
    "rust/wire/src/json/reader.rs": "one grammar: every token of JSON with its errors",
}
"""Files that may exceed the soft limit of lines, with the reason."""

UNPICKLERS_ALLOWED_IN = {
    "python/penstock/_runtime/pickling.py",
    "python/penstock/compat/kserve/_model/model_transfer.py",
    "python/penstock/compat/modelbit/_function/pickles.py",
}
"""Modules that unpickle data of the parent process or of the user's folder, never of the network."""
UNPICKLERS = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}
MACHINE_PATH = re.compile(r"/root/|/home/(?!me/|penstock\b)\w|/Users/\w|/work/(?:main|shared)|/tmp/[a-z]+/")
REGISTRY_ADDRESS = re.compile(r"--?(?:extra-)?index-url|\[registries|replace-with|https?://[^/\s]*@")


def length(path: Path) -> int:
    """Lines without in-file tests."""
    source = path.read_text()
    return len((without_tests(source) if path.suffix == ".rs" else source).splitlines())


def test_files_stay_within_the_line_limits() -> None:
    lengths = {relative(path): length(path) for path in sources(".rs", ".py") if not is_test(path)}
    assert not {name: lines for name, lines in lengths.items() if lines > HARD}, f"split files of over {HARD} lines"
    long = {name for name, lines in lengths.items() if lines > SOFT}
    assert long <= set(LONG_WITH_REASON), f"over {SOFT} lines: split it, or give a reason in LONG_WITH_REASON"
    short = {name for name in LONG_WITH_REASON if lengths.get(name, 0) < SOFT * 9 // 10}
    assert not short, "well below the soft limit: remove it from LONG_WITH_REASON"


def test_module_names_of_tests_are_unique() -> None:
    # pytest imports modules outside of packages by their bare names.
    bare = [path for path in sources(".py", under="tests/") if not (path.parent / "__init__.py").exists()]
    names = [path.stem for path in bare if path.parent.name != "scripts" and path.stem != "conftest"]
    assert not {name for name in names if names.count(name) > 1}


def test_lib_and_mod_files_only_declare() -> None:
    for path in sources(".rs", under="rust/"):
        if path.name == "mod.rs" or relative(path).endswith(
            ("core/src/lib.rs", "wire/src/lib.rs", "client/src/lib.rs", "server/src/lib.rs", "process/src/lib.rs")
        ):
            assert length(path) <= 90, f"{relative(path)} does more than declare and re-export"


def test_generated_code_is_up_to_date() -> None:
    if "CI" not in os.environ:
        pytest.skip("builds the generator: `make check` does")
    if shutil.which("cargo") is None:
        pytest.skip("cargo, which runs the generator, is not installed")
    command = ["cargo", "run", "--quiet", "--locked", "-p", "penstock-codegen", "--", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_no_python_module_registers_protobuf_messages() -> None:
    # A second registration of package `inference` would fail in a process that also has tritonclient. The KServe
    # integration has modules with KServe's names, whose messages are plain classes.
    integration = "python/penstock/compat/kserve/"
    python = [path for path in files() if relative(path).startswith("python/")]
    assert not [relative(path) for path in python if "_pb2" in path.name and not relative(path).startswith(integration)]
    for path in sources(".py", ".pyi", under="python/"):
        assert not re.search(r"google\.protobuf\b.*import|import google|Serialized\w*\(b[\"']", path.read_text()), path
        if not relative(path).startswith(integration):
            assert "_pb2" not in path.read_text(), relative(path)


def test_package_does_not_unpickle_or_evaluate() -> None:
    modules = sources(".py", under="python/penstock/")
    assert len(modules) > 10
    for path in modules:
        for node in ast.walk(ast.parse(path.read_text())):
            where = f"{relative(path)}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.Import) and relative(path) not in UNPICKLERS_ALLOWED_IN:
                assert not {name.name.split(".")[0] for name in node.names} & UNPICKLERS, where
            elif isinstance(node, ast.ImportFrom):
                assert (node.module or "").split(".")[0] not in UNPICKLERS, where
            elif isinstance(node, ast.Call):
                assert getattr(node.func, "id", "") not in ("eval", "exec"), where
                assert "allow_pickle" not in {word.arg for word in node.keywords}, where


def test_files_have_no_machine_paths_or_registry_addresses() -> None:
    for path in files():
        if path == Path(__file__) or path.suffix in (".bin", ".png", ".npz", ".svg", ".lock"):
            continue
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(lines, 1):
            where = f"{relative(path)}:{number}: {line.strip()[:80]}"
            assert not MACHINE_PATH.search(line), f"a path of one machine in {where}"
            assert not REGISTRY_ADDRESS.search(line), f"a registry's address in {where}"


def test_locked_crates_are_from_the_public_index() -> None:
    registries = set(re.findall(r'^source = "(.*)"$', text("Cargo.lock"), re.MULTILINE))
    assert registries == {"registry+https://github.com/rust-lang/crates.io-index"}


def test_package_is_marked_as_typed() -> None:
    assert (ROOT / "python/penstock/py.typed").is_file()
    assert (ROOT / "python/penstock/_core.pyi").is_file()
