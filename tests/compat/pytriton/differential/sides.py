"""The two sides of the comparison: the real PyTriton in its virtual environment, and Penstock with its shim."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from differential import TOOLS, Side

SCRIPTS = Path(__file__).parent / "scripts"
REAL = TOOLS / "pytriton" / "bin" / "python"
NEEDED_GLIBC = (2, 35)


def penstock() -> Side:
    """Returns Penstock's side, which replaces the scripts' imports."""
    known = {name: value for name, value in os.environ.items() if not name.startswith(("PENSTOCK_", "PYTRITON_"))}
    return Side([sys.executable, "-m", "penstock", "shim", "pytriton", "--", sys.executable], known)


def real() -> Side:
    """Returns the real product's side. It finds libpython by LD_LIBRARY_PATH only."""
    known = {
        name: value for name, value in os.environ.items() if not name.startswith(("PENSTOCK_", "PYTRITON_", "PYTHON"))
    }
    path = os.pathsep.join(filter(None, [_library_folder(), known.get("LD_LIBRARY_PATH")]))
    return Side([str(REAL)], {**known, "LD_LIBRARY_PATH": path})


def why_not_real() -> str | None:
    """Returns the reason why the real product cannot run here; `None` if it can."""
    if not REAL.exists():
        return "the real PyTriton is not installed; python tests/clients/setup_tools.py pytriton fetches it"
    version = os.confstr("CS_GNU_LIBC_VERSION") if "CS_GNU_LIBC_VERSION" in os.confstr_names else None
    if not version or tuple(map(int, version.split()[-1].split(".")[:2])) < NEEDED_GLIBC:
        return f"the real PyTriton needs glibc {'.'.join(map(str, NEEDED_GLIBC))} or newer, this is {version}"
    if _library_folder() is None:
        return "the real PyTriton needs its interpreter as a library, and this one has none"
    return None


def _library_folder() -> str | None:
    code = (
        "import sysconfig; print(sysconfig.get_config_var('LIBDIR'), sysconfig.get_config_var('INSTSONAME'), sep='\\n')"
    )
    done = subprocess.run([str(REAL), "-c", code], capture_output=True, text=True, check=True)
    folder, name = done.stdout.split("\n")[:2]
    return folder if (Path(folder) / name).exists() else None
