"""Coverage of conformance cases and traps: each has a test that names it, or a reason."""

from __future__ import annotations

import re

from .cases import (
    DEVIATIONS,
    EXCLUDED,
    NO_TEST,
    PROVED_BY_FILES,
    PROVED_WITHOUT_A_CASE,
    TESTS,
    TRAPS,
    cases,
    functions,
    named,
    trapped,
)


def test_every_case_has_a_test_or_a_reason() -> None:
    missing = set(cases()) - set(named()) - set(EXCLUDED) - set(PROVED_BY_FILES)
    assert not missing, f"neither a test nor a reason: {sorted(missing)}"


def test_no_excluded_case_has_a_test() -> None:
    both = (set(named()) | set(PROVED_BY_FILES)) & set(EXCLUDED)
    assert not both, f"tested now: take them out of EXCLUDED: {sorted(both)}"


def test_case_names_of_tests_exist() -> None:
    unknown = {case: tests for case, tests in named().items() if case not in cases()}
    assert not unknown
    assert not (set(EXCLUDED) | set(PROVED_BY_FILES)) - set(cases())


def test_files_that_prove_a_case_exist_and_name_it() -> None:
    for case, files in PROVED_BY_FILES.items():
        for file in files:
            text = (TESTS / file).read_text(encoding="utf-8")
            assert case.upper() in text.split('"""')[1], f"{file} does not name case {case.upper()} at its top"


def test_names_are_unique() -> None:
    # A second function with the same name would hide the first.
    tests = [test for tests in named().values() for test in tests]
    assert len(tests) == len(set(tests))


def test_every_trap_has_a_test_or_a_reason() -> None:
    tests = trapped()
    missing = [trap for trap in TRAPS if trap not in tests and trap not in NO_TEST]
    assert not missing, f"neither a test nor a reason: {missing}"
    print(f"traps: {len(TRAPS)}, {len(tests)} with tests of their own, {len(NO_TEST)} with a reason")


def test_marked_traps_exist_and_have_no_reason() -> None:
    wrong = {trap: tests for trap, tests in trapped().items() if trap not in TRAPS or trap in NO_TEST}
    assert not wrong
    assert set(NO_TEST) <= set(TRAPS)


def test_every_documented_deviation_is_proved() -> None:
    text = (TESTS.parent / "docs" / "protocol.md").read_text(encoding="utf-8").partition("## Deliberate deviations")[2]
    documented = re.findall(r"^\| (.+?) \| .+? \| .+? \| .+? \|$", text, re.MULTILINE)[1:]
    assert documented == list(DEVIATIONS), "docs/protocol.md and DEVIATIONS have the same rows in the same order"
    proved = {*named(), *PROVED_BY_FILES, *trapped()}
    assert {name for names in DEVIATIONS.values() for name in names} <= proved
    test_ids = {f"{path.relative_to(TESTS)}::{test.name}" for path, test in functions(TESTS)}
    assert {deviation for deviation, names in DEVIATIONS.items() if not names} == set(PROVED_WITHOUT_A_CASE)
    assert set(PROVED_WITHOUT_A_CASE.values()) <= test_ids
