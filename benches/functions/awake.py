"""Keeps a machine's processors from sleeping while one request at a time is measured.

A core that has nothing to do between two requests sleeps, and waking it takes longer than a call: on a virtual machine
that is most of the time measured, and all of the noise.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_SPIN = "import os\nos.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))\nwhile os.getppid() == {}: pass"


@contextmanager
def awake() -> Iterator[None]:
    """Gives each core something to do that gives way to all else."""
    spinning = [subprocess.Popen([sys.executable, "-c", _SPIN.format(os.getpid())]) for _ in os.sched_getaffinity(0)]
    try:
        yield
    finally:
        for one in spinning:
            one.kill()
            one.wait()
