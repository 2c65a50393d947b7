"""No case of the protocol's list and no trap is silently missing: each has a test that names it, or a reason."""

from __future__ import annotations

import re

from .cases import (
    DEVIATIONS,
    ELSEWHERE,
    ELSEWHERE_PROVED,
    EXCLUDED,
    NO_TEST,
    TESTS,
    TRAPS,
    cases,
    functions,
    named,
    trapped,
)


def test_every_case_has_a_test_or_a_reason() -> None:
    missing = set(cases()) - set(named()) - set(EXCLUDED) - set(ELSEWHERE)
    assert not missing, f"neither a test nor a reason: {sorted(missing)}"


def test_no_excluded_case_has_a_test() -> None:
    both = (set(named()) | set(ELSEWHERE)) & set(EXCLUDED)
    assert not both, f"tested now: take them out of EXCLUDED: {sorted(both)}"


def test_no_test_is_named_after_a_case_that_does_not_exist() -> None:
    unknown = {case: tests for case, tests in named().items() if case not in cases()}
    assert not unknown
    assert not (set(EXCLUDED) | set(ELSEWHERE)) - set(cases())


def test_files_that_prove_a_case_are_there_and_say_so() -> None:
    for case, files in ELSEWHERE.items():
        for file in files:
            text = (TESTS / file).read_text(encoding="utf-8")
            assert case.upper() in text.split('"""')[1], f"{file} does not name case {case.upper()} at its top"


def test_names_are_unique() -> None:
    # A second function of one name in a file would hide the first.
    tests = [test for tests in named().values() for test in tests]
    assert len(tests) == len(set(tests))


def test_every_trap_has_a_test_or_a_reason() -> None:
    found = trapped()
    missing = [trap for trap in TRAPS if trap not in found and trap not in NO_TEST]
    assert not missing, f"neither a test nor a reason: {missing}"
    print(f"traps: {len(TRAPS)}, {len(found)} with tests of their own, {len(NO_TEST)} with a reason")


def test_no_trap_is_named_that_does_not_exist_or_has_a_reason() -> None:
    wrong = {trap: tests for trap, tests in trapped().items() if trap not in TRAPS or trap in NO_TEST}
    assert not wrong
    assert set(NO_TEST) <= set(TRAPS)


def test_every_deviation_that_is_told_is_proved() -> None:
    text = (TESTS.parent / "docs" / "protocol.md").read_text(encoding="utf-8").partition("## Deliberate deviations")[2]
    told = re.findall(r"^\| (.+?) \| .+? \| .+? \| .+? \|$", text, re.MULTILINE)[1:]
    assert told == list(DEVIATIONS), "docs/protocol.md and DEVIATIONS have the same rows in the same order"
    proved = {*named(), *ELSEWHERE, *trapped()}
    assert {name for names in DEVIATIONS.values() for name in names} <= proved
    there = {f"{path.relative_to(TESTS)}::{test.name}" for path, test in functions(TESTS)}
    assert {what for what, names in DEVIATIONS.items() if not names} == set(ELSEWHERE_PROVED)
    assert set(ELSEWHERE_PROVED.values()) <= there
