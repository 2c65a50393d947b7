"""Virtual environments for functions that ask for packages: made once for each set of them, then kept."""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from penstock.errors import StartupError

__all__ = ["interpreter_for", "is_own", "is_servers", "python_of"]

_log = logging.getLogger("penstock.openinference")
_FINISHED = "finished.json"


def is_own(python: str) -> bool:
    """Whether an interpreter is the server's."""
    return python == sys.executable


def is_servers(version: str | None) -> bool:
    """Whether a version of Python, if any is said, is that of this process."""
    return version in (None, f"{sys.version_info.major}.{sys.version_info.minor}")


def python_of(version: str | None, *, exact: bool) -> str:
    """The interpreter of a version: the server's, or one of the machine's; or the server's though it is of another.

    Raises:
        StartupError: the machine has none, and it has to be exact.
    """
    if version is None or is_servers(version):
        return sys.executable
    if (found := shutil.which(f"python{version}")) is not None:
        return found
    if exact:
        raise StartupError(
            f"the function is for Python {version}, which is not here: install python{version}, "
            "set the option python to auto, or make an image with `penstock build`"
        )
    _log.warning("the function is for Python %s, which is not here: it runs with the server's", version)
    return sys.executable


def interpreter_for(requirements: Iterable[str], python: str, folder: Path | None = None) -> str:
    """The interpreter of an environment that has the requirements, and numpy. Makes it if it is not there.

    Args:
        requirements: Lines as pip takes them.
        python: The interpreter that it is made with.
        folder: Where environments are kept; else PENSTOCK_ENVIRONMENTS, or a folder of the user's cache.

    Raises:
        StartupError: they cannot be installed.
    """
    wanted = [*requirements]
    kept = folder or Path(os.environ.get("PENSTOCK_ENVIRONMENTS") or _cache() / "penstock" / "environments")
    told = json.dumps({"python": os.path.realpath(python), "requirements": wanted})
    place = kept / hashlib.sha256(told.encode()).hexdigest()[:16]
    kept.mkdir(parents=True, exist_ok=True)
    # Two servers that start at once make it once.
    with open(kept / f"{place.name}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / _FINISHED).is_file():
            shutil.rmtree(place, ignore_errors=True)
            _log.info("making an environment for %s", ", ".join(wanted))
            _run([python, "-m", "venv", str(place)], "make an environment")
            # numpy without a version gives way to whatever the requirements say of it.
            listed = place / "requirements.txt"
            listed.write_text("\n".join([*wanted, "numpy>=1.24", ""]), encoding="utf-8")
            pip = [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            _run([*pip, "-r", str(listed)], "install the requirements")
            (place / _FINISHED).write_text(told, encoding="utf-8")
    return str(place / "bin" / "python")


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _run(command: list[str], what: str) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()[-12:]
        raise StartupError(f"cannot {what}: {os.linesep.join(said)}")
