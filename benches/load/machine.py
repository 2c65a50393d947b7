"""Machine, commit and command of a measurement."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def provenance() -> dict[str, Any]:
    """The machine, the commit, the command and the time, for every line of results."""
    return {
        "machine": machine(),
        "commit": _git("rev-parse", "--short=12", "HEAD") or "unknown",
        # Results are written into this checkout, and do not count as changes of it.
        "modified": bool(_git("status", "--porcelain", "--untracked-files=no")),
        "command": shlex.join(["python", "-m", "benches.load", *sys.argv[1:]]),
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def machine() -> str:
    """One line: processor, cores, memory, kernel, Python."""
    cpuinfo = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(":", 1)[1].strip() for line in cpuinfo if line.startswith("model name")), "unknown CPU")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cores = len(os.sched_getaffinity(0))
    return (
        f"{model}, {cores} cores, {memory:.0f} GiB, "
        f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    )


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout.strip()
