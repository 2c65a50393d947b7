"""Checks deployments before they are served, for `penstock check`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from penstock import StartupError
from penstock.compat.modelbit._function.source import function_of
from penstock.compat.modelbit._settings import Settings
from penstock.compat.modelbit._spec.deployment import Deployment
from penstock.compat.modelbit._spec.folders import fill
from penstock.compat.modelbit._spec.table import Table

__all__ = ["check", "main"]


def check(path: Path) -> list[str]:
    """What is wrong with a path, a sentence each. The code of deployments is imported, in processes of its own."""
    try:
        if path.is_file():
            return []
        table = Table()
        fill(table, path, Settings(), "")
    except StartupError as error:
        return [str(error)]
    problems = []
    for one in table.all():
        for file in sorted(Path(one.folder).rglob("*.pkl")):
            if _is_stub(file):
                problems.append(f"{file} stands for a file that is not here: clone the repository with its files")
        program = "from penstock.compat.modelbit import _check; _checking.main()"
        done = subprocess.run(  # noqa: S603 - the path that is checked is code, and trusted
            [sys.executable, "-c", program],
            env=_environment(one.environment()),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            last = done.stderr.strip().splitlines()[-1:] or [f"its process ended with {done.returncode}"]
            problems.append(f"deployment {one.name}, version {one.version}: {last[0]}")
    for endpoint in table.endpoints:
        for backend in (*endpoint.backends, *endpoint.mirrors):
            try:
                if backend.name:
                    table.find(backend.name, backend.version, backend.branch)
            except Exception as error:
                problems.append(f"endpoint {endpoint.name}, {backend.label}: {error}")
    return problems


def main() -> None:
    """Imports this process's deployment; the last line of standard error says why it cannot be."""
    deployment = Deployment.of_this_process()
    assert deployment is not None
    try:
        function_of(deployment)
    except Exception as error:
        print(f"{type(error).__name__}: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(1)


def _is_stub(file: Path) -> bool:
    """Whether a file only says where the real one is: text of YAML instead of a pickle."""
    with file.open("rb") as opened:
        return opened.read(20).startswith((b"_file", b"file:", b"contentHash"))


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    return {**os.environ, **more, "PYTHONPATH": os.pathsep.join(one for one in sys.path if one)}
