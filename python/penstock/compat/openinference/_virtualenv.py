"""Virtual environments for functions with requirements: created once for each set of them, then cached."""

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

__all__ = ["find_interpreter", "is_server_interpreter", "is_server_version", "prepare_interpreter"]

_log = logging.getLogger("penstock.openinference")
_FINISHED = "finished.json"


def is_server_interpreter(python: str) -> bool:
    """True for the server's interpreter."""
    return python == sys.executable


def is_server_version(version: str | None) -> bool:
    """True if the Python version is this process's, or None."""
    return version in (None, f"{sys.version_info.major}.{sys.version_info.minor}")


def find_interpreter(version: str | None, *, exact: bool) -> str:
    """Returns an interpreter of the version, or the server's own as a fallback.

    Raises:
        StartupError: the version is not installed, and `exact` is set.
    """
    if version is None or is_server_version(version):
        return sys.executable
    if (found := shutil.which(f"python{version}")) is not None:
        return found
    if exact:
        raise StartupError(
            f"the function requires Python {version}, which is not installed: install python{version}, "
            "set the option python to auto, or build an image with `penstock build`"
        )
    _log.warning("the function requires Python %s, which is not installed: it runs with the server's", version)
    return sys.executable


def prepare_interpreter(requirements: Iterable[str], python: str, folder: Path | None = None) -> str:
    """Returns the interpreter of a virtual environment with the requirements and numpy. Creates it if it is missing.

    Args:
        requirements: Lines in pip's format.
        python: Interpreter that creates the environment.
        folder: Folder of the environments, by default PENSTOCK_ENVIRONMENTS or a folder in the user's cache.

    Raises:
        StartupError: the requirements cannot be installed.
    """
    lines = [*requirements]
    cache = folder or Path(os.environ.get("PENSTOCK_ENVIRONMENTS") or _user_cache() / "penstock" / "environments")
    description = json.dumps({"python": os.path.realpath(python), "requirements": lines})
    environment = cache / hashlib.sha256(description.encode()).hexdigest()[:16]
    cache.mkdir(parents=True, exist_ok=True)
    # The lock lets only one of several servers create the environment.
    with open(cache / f"{environment.name}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (environment / _FINISHED).is_file():
            shutil.rmtree(environment, ignore_errors=True)
            _log.info("creating an environment for %s", ", ".join(lines))
            _run([python, "-m", "venv", str(environment)], "create an environment")
            # Requirements with their own numpy version take precedence over this one.
            requirements_file = environment / "requirements.txt"
            requirements_file.write_text("\n".join([*lines, "numpy>=1.24", ""]), encoding="utf-8")
            pip = [
                str(environment / "bin" / "python"),
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
            ]
            _run([*pip, "-r", str(requirements_file)], "install the requirements")
            (environment / _FINISHED).write_text(description, encoding="utf-8")
    return str(environment / "bin" / "python")


def _user_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _run(command: list[str], action: str) -> None:
    completed = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603
    if completed.returncode != 0:
        output = (completed.stderr or completed.stdout).strip().splitlines()[-12:]
        raise StartupError(f"cannot {action}: {os.linesep.join(output)}")
