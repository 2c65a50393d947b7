"""No case of the protocol's list is silently missing: each is a test named after it, or is excluded with a reason."""

from __future__ import annotations

import ast
import re
from pathlib import Path

COUNTS = {"a": 20, "b": 68, "c": 30, "d": 30, "e": 25, "f": 25, "g": 12}
"""The cases of each group, numbered from 1."""

CLIENTS = "this client's own tests"

EXCLUDED: dict[str, str] = {
    "c30": "a body of 2 GiB needs a large machine; the limit's own text is b59",
    "d6": "answers are always raw, as d5 checks; there is no setting that mirrors typed requests",
    **{f"g{number}": CLIENTS for number in (5, 6, 7, 8, 10)},
}

PARTLY: dict[str, str] = {
    "g2": "test_compression.py, but for the calls of later extensions",
    "g1": "test_tritonclient.py, but for the calls of later extensions",
    "g3": "test_tritonclient.py, but for streaming",
}
"""Cases of which a part is left out; those of group g have no test of their own name."""


def cases() -> set[str]:
    return {f"{group}{number}" for group, count in COUNTS.items() for number in range(1, count + 1)}


def named() -> dict[str, list[str]]:
    """The tests by the case that they are named after."""
    found: dict[str, list[str]] = {}
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and (match := re.match(r"test_([a-g]\d+)_", node.name)):
                found.setdefault(match[1], []).append(f"{path.name}::{node.name}")
    return found


def test_every_case_has_a_test_or_a_reason() -> None:
    in_clients = {case for case in PARTLY if case.startswith("g")}
    missing = cases() - set(named()) - set(EXCLUDED) - in_clients
    assert not missing, f"neither a test nor a reason: {sorted(missing)}"


def test_no_excluded_case_has_a_test() -> None:
    both = set(named()) & set(EXCLUDED)
    assert not both, f"tested now: take them out of EXCLUDED: {sorted(both)}"


def test_no_test_is_named_after_a_case_that_does_not_exist() -> None:
    unknown = {case: tests for case, tests in named().items() if case not in cases()}
    assert not unknown
    assert not (set(EXCLUDED) | set(PARTLY)) - cases()


def test_names_are_unique() -> None:
    # A second function of one name in a file would hide the first.
    tests = [test for tests in named().values() for test in tests]
    assert len(tests) == len(set(tests))
