"""The faults that a served process must survive: the tests that inject each, and reasons for those without.

A fault is survived if its client gets a clear status, the counters record it, nothing leaks, and the next request is
answered correctly.
"""

from __future__ import annotations

import ast
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]

FAULTS: dict[str, tuple[str, ...]] = {
    "handler": (
        "raises",
        "wrong count",
        "wrong shape",
        "wrong datatype",
        "not contiguous",
        "raises on one row",
        "generator raises midway",
        "sleeps past deadline",
        "never returns",
        "holds the GIL in C",
        "segfault",
        "os._exit",
        "killed for memory",
        "device out of memory",
        "prints 100 MB",
        "forks",
        "forks and returns twice",
        "threads that outlive it",
        "mutates its input",
        "keeps a view",
        "endless recursion",
        "KeyboardInterrupt",
        "SystemExit",
        "interpreter shutting down",
    ),
    "client": (
        "leaves before the head",
        "leaves in the body",
        "leaves in the queue",
        "leaves in compute",
        "leaves in a stream",
        "slow head",
        "slow body",
        "zero window",
        "storm of resets",
        "half close",
        "10 000 idle connections",
        "pipelined requests",
        "Expect: 100-continue",
        "contradicting lengths",
    ),
    "machine": (
        "port in use",
        "no descriptors left",
        "no space for the log",
        "SIGPIPE",
        "clock jump",
        "SIGTERM under load",
        "SIGTERM in compute",
        "SIGTERM twice",
        "SIGTERM while held",
        "SIGSTOP and SIGCONT",
        "no name resolution",
    ),
    "attached process": (
        "killed in compute",
        "killed with a fork alive",
        "killed while it loads",
        "malformed response",
        "malformed control message",
    ),
    "reload": (
        "queue is full",
        "new version fails",
        "same version twice",
        "files deleted",
    ),
}
"""The faults by their origin."""

NO_TEST: dict[str, str] = {}
"""Faults without a test, with the reason."""


def faults() -> list[str]:
    return [fault for group in FAULTS.values() for fault in group]


def injected() -> dict[str, list[str]]:
    """Test files by the fault in their marks: `@pytest.mark.fault("raises")`."""
    tests: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.fault":
                for fault in node.args:
                    tests.setdefault(ast.literal_eval(fault), []).append(str(path.relative_to(TESTS)))
    return tests
