"""Shared test setup: this file puts tests/ on the import path, so that all test folders find the shared modules.

It also reports at the end of a run the conformance cases and traps that the run has proved.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# A shell ignores SIGINT in jobs that it starts in the background, which children inherit. Tests stop servers with it.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Modules shared with scripts that run under other products.
sys.path.append(str(Path(__file__).parent / "observing"))

# Their assertions hold under `python -O` too, like those of tests.
pytest.register_assert_rewrite(
    "conformance",
    "differential",
    "faults",
    "http2_by_hand",
    "http_by_hand",
    "live_events",
    "misbehaving",
    "models",
    "native_models",
    "pages",
    "repositories",
    "serving_process",
    "waiting",
)

from conformance.cases import COUNTS, EXCLUDED, NO_TEST, TRAPS, cases, proved_by  # noqa: E402
from faults.catalogue import NO_TEST as NOT_INJECTED  # noqa: E402
from faults.catalogue import faults  # noqa: E402

Proofs = dict[str, set[str]]
"""Outcomes of the tests of each case or trap."""


@pytest.fixture(autouse=True)
def log_of_commands() -> Iterator[None]:
    """Undoes what a command that ran in this process did to the log, which processes of models would inherit."""
    last_resort, level = logging.lastResort, logging.getLogger("penstock").level
    yield
    os.environ.pop("_PENSTOCK_LOG", None)
    logging.lastResort = last_resort
    logging.getLogger("penstock").setLevel(level)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    report = yield
    report.injects = [fault for mark in item.iter_markers("fault") for fault in mark.args]
    report.proves = [*proved_by(file_of(item), item.name), *(t for m in item.iter_markers("trap") for t in m.args)]
    return report


def file_of(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0].removeprefix("tests/")


def proofs_of(terminalreporter: Any, attribute: str) -> tuple[Proofs, set[str]]:
    """Outcomes of the tests by the names in an attribute of their reports, and the proved names."""
    proofs: Proofs = {}
    for outcome in ("passed", "failed", "error", "skipped"):
        for report in terminalreporter.stats.get(outcome, []):
            for name in getattr(report, attribute, ()):
                proofs.setdefault(name, set()).add(outcome)
    return proofs, {
        name for name, outcomes in proofs.items() if "passed" in outcomes and not outcomes & {"failed", "error"}
    }


def pytest_terminal_summary(terminalreporter: Any) -> None:
    injected, survived = proofs_of(terminalreporter, "injects")
    if injected:
        terminalreporter.section("faults", sep="-")
        terminalreporter.write_line(f"survived: {len(survived)} of {len(faults())}, {len(NOT_INJECTED)} without a test")
        if broken := sorted(set(injected) - survived):
            terminalreporter.write_line(f"failed or skipped: {', '.join(broken)}")
    proofs, proved = proofs_of(terminalreporter, "proves")
    if not proofs:
        return
    terminalreporter.section("conformance", sep="-")
    groups = [
        f"{group.upper()} {sum(case in proved for case in cases() if case[0] == group)}/{count}"
        for group, count in COUNTS.items()
    ]
    total = sum(case in proved for case in cases())
    terminalreporter.write_line(f"cases: {total} of {len(cases())} ({', '.join(groups)}), {len(EXCLUDED)} left out")
    traps = sum(trap in proved for trap in TRAPS)
    terminalreporter.write_line(f"traps: {traps} of {len(TRAPS)}, {len(NO_TEST)} without a test")
    if broken := sorted(set(proofs) - proved, key=lambda name: (name[0], len(name), name)):
        terminalreporter.write_line(f"failed or skipped: {', '.join(broken)}")
