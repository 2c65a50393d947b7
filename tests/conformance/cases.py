"""The conformance cases and traps: the tests that prove each, and reasons for those without."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]

COUNTS = {"a": 20, "b": 68, "c": 30, "d": 30, "e": 25, "f": 25, "g": 12}
"""The cases of each group, numbered from 1."""

EXCLUDED = {
    "c30": "a body of 2 GiB needs a large machine; b59 tests the limit, with declared lengths up to 2^64",
    "d6": "responses are always raw, as d5 checks; no setting mirrors typed requests",
}

PROVED_BY_FILES: dict[str, tuple[str, ...]] = {
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
"""Cases about whole clients, proved by whole test files."""

TRAPS = [*(f"T{number}" for number in range(1, 59)), "T58a", *(f"T{number}" for number in range(59, 71))]
"""Differences between servers and clients, or from the protocol's text."""

NO_TEST = {
    "T21": "KServe's own client does not support BF16: docs/protocol.md recommends FP32 outputs",
}
"""Traps that a test of this server cannot prove."""


DEVIATIONS: dict[str, tuple[str, ...]] = {
    "`Content-Encoding: br` or `zstd` on a request": ("c22", "c20"),
    "another `Content-Encoding`": ("c22",),
    "raw deflate data in `Content-Encoding: deflate`": ("c21", "T66"),
    "compressed responses": ("c25", "c28"),
    "errors in JSON: invalid JSON, a wrong type, a wrong number of elements, a negative dimension": (
        "b21",
        "b23",
        "b26",
        "b29",
        "T10",
    ),
    "data nested differently from its shape": ("b22", "T51"),
    "integers outside their datatype's range": ("b34", "d12", "T50"),
    "FP16 and BF16 in JSON": ("b42", "b43", "T20"),
    "BOOL as 0 and 1, integers as `1.0`": ("b36", "b37"),
    "FP32 in JSON responses": ("b39", "T62"),
    "BYTES that are not UTF-8, requested as JSON": ("b46", "T18"),
    "`shape: []`": ("b68", "T49"),
    "an empty body on `infer`": ("b30", "T52"),
    "`binary_data_output` and a listed output without `binary_data`": ("c5", "T15"),
    "more entries in `raw_input_contents` than inputs": ("d10",),
    "a custom `uint64_param`": ("d15", "T25"),
    "health": ("a2", "a3", "T11", "T12", "T13"),
    "a model that is loading or not loaded": ("a15", "d2"),
    "readiness of the server during a later load": ("T14",),
    "statistics of an unknown model": ("f8", "T36"),
    "a version over gRPC that is not a number": ("d14",),
    "a full queue": ("b65", "d25", "T38"),
    "a deadline that passed": ("b66", "d23", "T38"),
    "`timeout`": ("b66", "T69"),
    "a body over the limit": ("b59",),
    "the largest message": ("b59", "d21", "T27", "T28"),
    "`generate` with no response or several": ("e16", "T33"),
    "errors on `ModelStreamInfer`": ("e4", "e5", "T32"),
    "arrays of arrays, or of texts, as parameters of `generate`": ("e14", "T34"),
    "typed outputs over gRPC": ("d5", "T1"),
    "`grpc.health.v1` about an unknown service": ("d26", "T60"),
    "restricted access over gRPC": (),
    "loading an unknown or misconfigured model": ("f3", "T37"),
    "unloading an unknown model": ("f3", "T37"),
    "`file:` parameters of a load": ("f3",),
    "the response to load and unload": ("f2", "g11", "T22"),
    "a wrong `log_format`": ("f22",),
    "a shared memory object that cannot be opened, a region too small for an output": ("f11", "f13"),
    "`max_sequence_idle_microseconds`": ("f20",),
    "forwarded headers": ("f25",),
    "metrics": (),
    "an offer to upgrade to HTTP/2": ("g10",),
}
"""First column of the deviations in docs/protocol.md, and the cases and traps that prove each."""

PROVED_WITHOUT_A_CASE = {
    "restricted access over gRPC": "conformance/test_access.py::test_grpc_requires_the_categorys_metadata",
    "metrics": "lifecycle/test_metrics.py::test_every_metric_is_described",
}
"""Deviations without a case in the list."""


def cases() -> list[str]:
    return [f"{group}{number}" for group, count in COUNTS.items() for number in range(1, count + 1)]


def named() -> dict[str, list[str]]:
    """Tests by the case in their name."""
    tests: dict[str, list[str]] = {}
    for path, test in functions(TESTS / "conformance"):
        if match := re.match(r"test_([a-g]\d+)_", test.name):
            tests.setdefault(match[1], []).append(f"{path.name}::{test.name}")
    return tests


def trapped() -> dict[str, list[str]]:
    """Tests by the trap in their mark: `@pytest.mark.trap("T1")`."""
    tests: dict[str, list[str]] = {}
    for path, test in functions(TESTS):
        for decorator in test.decorator_list:
            if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.trap":
                for trap in decorator.args:
                    tests.setdefault(ast.literal_eval(trap), []).append(f"{path.relative_to(TESTS)}::{test.name}")
    return tests


def functions(folder: Path) -> Iterator[tuple[Path, ast.FunctionDef]]:
    for path in sorted(folder.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                yield path, node


def proved_by(file: str, test: str) -> list[str]:
    """The cases that a test proves; `file` is its path in the folder of tests."""
    match = re.match(r"test_([a-g]\d+)_", test) if file.startswith("conformance/") else None
    return [case for case, files in PROVED_BY_FILES.items() if file in files] + ([match[1]] if match else [])
