"""The layers hold: what each crate may depend on, who may name the interpreter, where `unsafe` may stand."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from house import CRATES, ROOT, relative, sources, text, without_comments

FORBIDDEN = {
    "core": {"axum", "tonic", "hyper", "prost", "serde_json", "tokio", "mio", "socket2", "pyo3", "numpy"},
    "wire": {"axum", "tonic", "hyper", "tokio", "mio", "socket2", "pyo3", "numpy"},
    "client": {"pyo3", "numpy", "axum", "tonic", "hyper"},
    "server": {"pyo3", "numpy"},
    "process": {"axum", "tonic", "hyper", "prost", "serde_json", "tokio", "mio", "socket2", "pyo3", "numpy"},
    "py": set[str](),
}
UNSAFE_IN = {
    "rust/process/src/region.rs",
    "rust/py/src/client/lend.rs",
    "rust/py/src/hand_in.rs",
    "rust/py/src/hand_out.rs",
}
INTERPRETER = re.compile(r"Python::(?:try_)?attach|\btry_attach\b|\.detach\(|\bwith_gil\b|\ballow_threads\b")


def dependencies(crate: str) -> set[str]:
    """All crates that a crate is built with."""
    if shutil.which("cargo") is None:
        pytest.skip("there is no cargo to ask for the crate graph")
    command = ["cargo", "tree", "--locked", "-p", f"penstock-{crate}", "-e", "normal", "--prefix", "none"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {line.split()[0] for line in done.stdout.splitlines() if line}


@pytest.mark.parametrize("crate", CRATES)
def test_a_crate_is_built_without_what_its_layer_must_not_know(crate: str) -> None:
    found = dependencies(crate) & FORBIDDEN[crate]
    assert not found, f"penstock-{crate} is built with {sorted(found)}: see the invariants in ARCHITECTURE.md"


@pytest.mark.parametrize("crate", CRATES)
def test_a_crate_knows_those_below_it_and_no_others(crate: str) -> None:
    own = {name for name in dependencies(crate) if name.startswith("penstock-")}
    below = set(CRATES[: CRATES.index(crate) + 1])
    # The two ends of a connection do not know each other, and what computes knows neither.
    below -= {"server": {"client"}, "process": {"wire", "client", "server"}}.get(crate, set())
    assert own == {f"penstock-{name}" for name in below}


def test_one_file_is_the_door_to_the_interpreter() -> None:
    spelled = {relative(path) for path in sources(".rs") if INTERPRETER.search(without_comments(path.read_text()))}
    assert spelled == {"rust/py/src/attach.rs"}


def test_pyo3_is_named_in_one_crate() -> None:
    named = [path for path in sources(".rs") if re.search(r"\b(pyo3|numpy)::", without_comments(path.read_text()))]
    assert {relative(path).split("/src/")[0] for path in named} == {"rust/py"}


@pytest.mark.parametrize(
    "root", ["core/src/lib.rs", "wire/src/lib.rs", "client/src/lib.rs", "server/src/lib.rs", "codegen/src/main.rs"]
)
def test_a_crate_without_an_interpreter_forbids_unsafe(root: str) -> None:
    assert "#![forbid(unsafe_code)]" in text(f"rust/{root}").splitlines()


def test_unsafe_stands_in_few_files_and_says_why() -> None:
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


def test_a_panic_unwinds_in_release_builds() -> None:
    # With "abort" a panic in one batch would end the user's interpreter.
    profiles = re.findall(r"^\[profile\.(\w+)\]\n((?:(?!\[).*\n?)*)", text("Cargo.toml"), re.MULTILINE)
    assert {"release", "fast"} <= {name for name, _ in profiles}
    assert 'panic = "unwind"' in dict(profiles)["release"]
    assert not [name for name, body in profiles if 'panic = "abort"' in body]
