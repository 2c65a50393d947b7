"""Files fit in one sitting and hold nothing that does not belong into them."""

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

LONG_FOR_A_REASON = {
    "python/penstock/config.py": "every setting, with its kind and help, and once more as a keyword argument",
    "python/penstock/_server/server.py": "one public class: what users can do with a server, each with what it raises",
    "rust/server/src/rest/routes.rs": "the table of REST routes",
    "rust/server/src/settings/config.rs": "everything that can be set, as plain values",
    "rust/wire/src/json/reader.rs": "one grammar: every token of JSON, and where it is wrong",
}
"""Files that may have more than the soft limit of lines, and why they are not split."""

UNPICKLERS_ALLOWED_IN = {
    "python/penstock/_runtime/pickling.py",
    "python/penstock/compat/kserve/_model/model_transfer.py",
    "python/penstock/compat/modelbit/_function/pickles.py",
}
"""Reads what its own parent process has written, or what lies beside the user's code; nothing of the network."""
UNPICKLERS = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}
OF_A_MACHINE = re.compile(r"/root/|/home/(?!me/|penstock\b)\w|/Users/\w|/work/(?:main|shared)|/tmp/[a-z]+/")
OF_A_REGISTRY = re.compile(r"--?(?:extra-)?index-url|\[registries|replace-with|https?://[^/\s]*@")


def length(path: Path) -> int:
    """Lines without in-file tests."""
    source = path.read_text()
    return len((without_tests(source) if path.suffix == ".rs" else source).splitlines())


def test_files_fit_in_one_sitting() -> None:
    lengths = {relative(path): length(path) for path in sources(".rs", ".py") if not is_test(path)}
    assert not {name: lines for name, lines in lengths.items() if lines > HARD}, f"split what has over {HARD} lines"
    long = {name for name, lines in lengths.items() if lines > SOFT}
    assert long <= set(LONG_FOR_A_REASON), f"over {SOFT} lines: split it, or give a reason in LONG_FOR_A_REASON"
    short = {name for name in LONG_FOR_A_REASON if lengths.get(name, 0) < SOFT * 9 // 10}
    assert not short, "well below the soft limit: take it out of LONG_FOR_A_REASON"


def test_modules_of_tests_have_names_of_their_own() -> None:
    # pytest imports those of folders that are no packages by their bare names.
    bare = [path for path in sources(".py", under="tests/") if not (path.parent / "__init__.py").exists()]
    names = [path.stem for path in bare if path.parent.name != "scripts" and path.stem != "conftest"]
    assert not {name for name in names if names.count(name) > 1}


def test_lib_and_mod_files_only_declare() -> None:
    for path in sources(".rs", under="rust/"):
        if path.name == "mod.rs" or relative(path).endswith(
            ("core/src/lib.rs", "wire/src/lib.rs", "client/src/lib.rs", "server/src/lib.rs", "process/src/lib.rs")
        ):
            assert length(path) <= 90, f"{relative(path)} does more than declare and re-export"


def test_generated_code_is_fresh() -> None:
    if "CI" not in os.environ:
        pytest.skip("builds the generator: `make check` does")
    if shutil.which("cargo") is None:
        pytest.skip("there is no cargo to run the generator")
    command = ["cargo", "run", "--quiet", "--locked", "-p", "penstock-codegen", "--", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_no_python_module_registers_the_protocols_messages() -> None:
    # A second registration of package `inference` would fail in a process that also has tritonclient. The integration
    # for KServe's scripts has modules of KServe's names, whose messages are plain classes.
    integration = "python/penstock/compat/kserve/"
    python = [path for path in files() if relative(path).startswith("python/")]
    assert not [relative(path) for path in python if "_pb2" in path.name and not relative(path).startswith(integration)]
    for path in sources(".py", ".pyi", under="python/"):
        assert not re.search(r"google\.protobuf\b.*import|import google|Serialized\w*\(b[\"']", path.read_text()), path
        if not relative(path).startswith(integration):
            assert "_pb2" not in path.read_text(), relative(path)


def test_the_package_unpickles_and_evaluates_nothing() -> None:
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


def test_no_file_knows_a_machine_or_a_registry() -> None:
    for path in files():
        if path == Path(__file__) or path.suffix in (".bin", ".png", ".npz", ".svg", ".lock"):
            continue
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(lines, 1):
            where = f"{relative(path)}:{number}: {line.strip()[:80]}"
            assert not OF_A_MACHINE.search(line), f"a path of one machine in {where}"
            assert not OF_A_REGISTRY.search(line), f"a registry's address in {where}"


def test_locked_crates_come_from_the_public_index() -> None:
    found = set(re.findall(r'^source = "(.*)"$', text("Cargo.lock"), re.MULTILINE))
    assert found == {"registry+https://github.com/rust-lang/crates.io-index"}


def test_the_package_says_that_it_is_typed() -> None:
    assert (ROOT / "python/penstock/py.typed").is_file()
    assert (ROOT / "python/penstock/_core.pyi").is_file()
