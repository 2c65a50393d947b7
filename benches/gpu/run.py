"""Runs one section as a separate process, with a time limit."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benches.gpu.report import rows_file
from benches.gpu.sections import Section

_STOP_SECONDS = 12
"""Time for a stopped section to end its servers."""


def run_section(section: Section, *, limit: float, cpu: bool) -> dict[str, Any]:
    """Status, duration and rows of a section."""
    rows_file(section.name).unlink(missing_ok=True)
    line = [sys.executable, "-u", "-m", "benches.gpu", "--here", section.name]
    started = time.monotonic()
    # Standard output is shared, so that rows appear as they are measured.
    process = subprocess.Popen([*line, *(["--cpu"] if cpu else [])], start_new_session=True)
    try:
        code = process.wait(timeout=limit)
        status = "done" if code == 0 else f"failed with status {code}"
    except subprocess.TimeoutExpired:
        status = f"stopped after {limit:.0f} s"
    finally:
        _stop(process)
    seconds = round(time.monotonic() - started, 1)
    return {"status": status, "seconds": seconds, "rows": _rows(rows_file(section.name))}


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=_STOP_SECONDS)
    with contextlib.suppress(ProcessLookupError):
        # Children that are left, with the section itself if it did not end.
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _rows(file: Path) -> list[dict[str, Any]]:
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text().splitlines() if line.endswith("}")]
