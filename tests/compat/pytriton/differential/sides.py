"""The two sides that run the same scripts: the real PyTriton in its own environment, and Penstock under its shim."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from waiting import until

SCRIPTS = Path(__file__).parent / "scripts"
REPOSITORY = Path(__file__).resolve().parents[4]
REAL = Path(os.environ.get("PENSTOCK_TEST_TOOLS") or REPOSITORY / ".tools").absolute() / "pytriton" / "bin" / "python"

LONGEST = 240.0
"""Seconds for a whole script. The real product takes about two for each model."""
NEEDED_GLIBC = (2, 35)

Observed = dict[str, Any]
"""What each case gave or raised."""


class Side:
    """One of the two: how it runs a script."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self._command, self._environment = command, environment

    def start(self, script: Path, *arguments: str, log: IO[str], **environment: str) -> subprocess.Popen[bytes]:
        """Starts a script; what it prints goes to the log."""
        command = [*self._command, str(script), *arguments]
        return subprocess.Popen(
            command, env={**self._environment, **environment}, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )

    def printed(self, script: Path, *arguments: str, patience: float, **environment: str) -> str:
        """What a script prints to standard output until its end, which must be a good one."""
        done = subprocess.run(
            [*self._command, str(script), *arguments],
            env={**self._environment, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=patience,
            check=False,
        )
        assert done.returncode == 0, f"{script}: {done.stdout}\n{done.stderr[-4000:]}"
        return done.stdout

    def observe(self, script: str, *arguments: str) -> Observed:
        """Runs a script to its end, and gives what it said of its cases."""
        with tempfile.TemporaryDirectory() as folder:
            said = Path(folder) / "observed"
            done = subprocess.run(
                [*self._command, script, *arguments],
                env={**self._environment, "OBSERVED": str(said)},
                cwd=SCRIPTS,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=LONGEST,
                check=False,
            )
            assert done.returncode == 0, f"{script}: {done.stdout[-2000:]}\n{done.stderr[-4000:]}"
            cases = [json.loads(line) for line in said.read_text().splitlines()]
        names = [one.pop("case") for one in cases]
        assert len(set(names)) == len(names), f"{script}: two cases of one name"
        return dict(zip(names, cases, strict=True))

    @contextmanager
    def serving(self, script: str) -> Iterator[str]:
        """Runs a script that serves, and gives what it said of where."""
        with tempfile.TemporaryDirectory() as folder, open(Path(folder) / "log", "w+") as log:
            said = Path(folder) / "observed"
            process = subprocess.Popen(
                [*self._command, script],
                env={**self._environment, "OBSERVED": str(said)},
                cwd=SCRIPTS,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
            )
            try:
                self._await(process, said, Path(log.name))
                yield said.read_text()
            finally:
                # The end of its input is the end of its service.
                assert process.stdin
                process.stdin.close()
                try:
                    process.wait(60)
                finally:
                    process.kill()

    def _await(self, process: subprocess.Popen[bytes], said: Path, log: Path) -> None:
        def up() -> bool:
            assert process.poll() is None, log.read_text(errors="replace")[-4000:]
            return said.exists() and said.read_text().endswith("\n")

        until(up, "the server to start", patience=LONGEST)


def penstock() -> Side:
    """Penstock, in the place of what the scripts import."""
    known = {name: value for name, value in os.environ.items() if not name.startswith(("PENSTOCK_", "PYTRITON_"))}
    return Side([sys.executable, "-m", "penstock", "shim", "pytriton", "--", sys.executable], known)


def real() -> Side:
    """The real product; it finds the library of its interpreter by LD_LIBRARY_PATH only."""
    known = {
        name: value for name, value in os.environ.items() if not name.startswith(("PENSTOCK_", "PYTRITON_", "PYTHON"))
    }
    path = os.pathsep.join(filter(None, [_library_folder(), known.get("LD_LIBRARY_PATH")]))
    return Side([str(REAL)], {**known, "LD_LIBRARY_PATH": path})


def why_not_real() -> str | None:
    """Why the real product cannot run here; `None` if it can."""
    if not REAL.exists():
        return "the real PyTriton is not installed; python tests/clients/setup_tools.py pytriton fetches it"
    version = os.confstr("CS_GNU_LIBC_VERSION") if "CS_GNU_LIBC_VERSION" in os.confstr_names else None
    if not version or tuple(map(int, version.split()[-1].split(".")[:2])) < NEEDED_GLIBC:
        return f"the real PyTriton needs glibc {'.'.join(map(str, NEEDED_GLIBC))} or newer, this is {version}"
    if _library_folder() is None:
        return "the real PyTriton needs its interpreter as a library, and this one has none"
    return None


def _library_folder() -> str | None:
    ask = (
        "import sysconfig; print(sysconfig.get_config_var('LIBDIR'), sysconfig.get_config_var('INSTSONAME'), sep='\\n')"
    )
    done = subprocess.run([str(REAL), "-c", ask], capture_output=True, text=True, check=True)
    folder, name = done.stdout.split("\n")[:2]
    return folder if (Path(folder) / name).exists() else None
