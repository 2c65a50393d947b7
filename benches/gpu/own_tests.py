"""The project's tests that use torch, with this machine's torch."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

from benches.gpu.report import Report

_TESTS = ("tests/api/test_torch_annotations.py",)
_NEEDED = ("pytest", "pytest_timeout")


def run(report: Report) -> None:
    """Runs them, if pytest is there. Warnings of other plugins of pytest are not errors here."""
    if missing := [name for name in _NEEDED if importlib.util.find_spec(name) is None]:
        report.fact("tests", f"not run: {', '.join(missing)} not installed")
        return
    options = ["-q", "-p", "no:cacheprovider", "-o", "filterwarnings=default", "--no-header"]
    line = [sys.executable, "-m", "pytest", *options, *_TESTS]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
    lines = (done.stdout + done.stderr).strip().splitlines()
    report.fact("exit status", done.returncode)
    for text in lines if done.returncode == 0 else lines[-25:]:
        if done.returncode or "passed" in text or "failed" in text:
            report.fact("pytest", text[:200])
