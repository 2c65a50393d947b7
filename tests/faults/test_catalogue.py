"""No fault is silently missing: each has a test that injects it, or a reason."""

from __future__ import annotations

from .catalogue import NO_TEST, faults, injected


def test_every_fault_has_a_test_or_a_reason() -> None:
    found = injected()
    missing = [fault for fault in faults() if fault not in found and fault not in NO_TEST]
    assert not missing, f"neither a test nor a reason: {missing}"
    print(f"faults: {len(faults())}, {len(found)} with tests, {len(NO_TEST)} with a reason")


def test_no_fault_is_named_that_does_not_exist_or_has_a_reason() -> None:
    wrong = {fault: files for fault, files in injected().items() if fault not in faults() or fault in NO_TEST}
    assert not wrong
    assert set(NO_TEST) <= set(faults())
    assert len(faults()) == len(set(faults()))
