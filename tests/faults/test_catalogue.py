"""Coverage of faults: each has a test that injects it, or a reason."""

from __future__ import annotations

from .catalogue import NO_TEST, faults, injected


def test_every_fault_has_a_test_or_a_reason() -> None:
    tests = injected()
    missing = [fault for fault in faults() if fault not in tests and fault not in NO_TEST]
    assert not missing, f"neither a test nor a reason: {missing}"
    print(f"faults: {len(faults())}, {len(tests)} with tests, {len(NO_TEST)} with a reason")


def test_marked_faults_exist_and_have_no_reason() -> None:
    wrong = {fault: files for fault, files in injected().items() if fault not in faults() or fault in NO_TEST}
    assert not wrong
    assert set(NO_TEST) <= set(faults())
    assert len(faults()) == len(set(faults()))
