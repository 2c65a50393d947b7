"""The cases of the protocol's list and the traps that clients set: which tests prove each, and why some have none."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]

COUNTS = {"a": 20, "b": 68, "c": 30, "d": 30, "e": 25, "f": 25, "g": 12}
"""The cases of each group, numbered from 1."""

EXCLUDED = {
    "c30": "a body of 2 GiB needs a large machine; the limit's own text is b59, whose declared lengths go to 2^64",
    "d6": "answers are always raw, as d5 checks; there is no setting that mirrors typed requests",
}

ELSEWHERE: dict[str, tuple[str, ...]] = {
    "g1": ("conformance/test_tritonclient.py", "conformance/test_tritonclient_methods.py"),
    "g3": (
        "conformance/test_tritonclient.py",
        "conformance/test_tritonclient_methods.py",
        "clients/test_triton_streams.py",
    ),
    "g5": ("clients/test_perf_analyzer.py", "clients/test_triton_streams.py"),
    "g6": ("clients/test_kserve.py",),
    "g7": ("clients/test_ghz.py", "clients/test_grpcurl.py"),
    "g8": ("clients/test_k6.py",),
    "g10": ("clients/test_curl.py",),
}
"""Cases of whole clients, which whole files of tests prove."""

TRAPS = [*(f"T{number}" for number in range(1, 59)), "T58a", *(f"T{number}" for number in range(59, 71))]
"""Where servers and clients differ from one another, or from the protocol's text."""

NO_TEST = {
    "T21": "a fault of KServe's own client, which knows no BF16: docs/protocol.md says to declare such outputs as FP32",
}
"""Traps that no test of this server can prove."""


def cases() -> list[str]:
    return [f"{group}{number}" for group, count in COUNTS.items() for number in range(1, count + 1)]


def named() -> dict[str, list[str]]:
    """The tests by the case that they are named after."""
    found: dict[str, list[str]] = {}
    for path, test in tests(TESTS / "conformance"):
        if match := re.match(r"test_([a-g]\d+)_", test.name):
            found.setdefault(match[1], []).append(f"{path.name}::{test.name}")
    return found


def trapped() -> dict[str, list[str]]:
    """The tests by the trap that they are marked with: `@pytest.mark.trap("T1")`."""
    found: dict[str, list[str]] = {}
    for path, test in tests(TESTS):
        for decorator in test.decorator_list:
            if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.trap":
                for trap in decorator.args:
                    found.setdefault(ast.literal_eval(trap), []).append(f"{path.relative_to(TESTS)}::{test.name}")
    return found


def tests(folder: Path) -> Iterator[tuple[Path, ast.FunctionDef]]:
    for path in sorted(folder.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                yield path, node


def proved_by(file: str, test: str) -> list[str]:
    """The cases that a test proves; `file` is its place in the folder of tests."""
    match = re.match(r"test_([a-g]\d+)_", test) if file.startswith("conformance/") else None
    return [case for case, files in ELSEWHERE.items() if file in files] + ([match[1]] if match else [])
