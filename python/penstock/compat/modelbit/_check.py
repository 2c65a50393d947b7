"""Checks of deployments before they are served, for `penstock check`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from penstock import StartupError
from penstock.compat.modelbit._function.source import load_in_worker
from penstock.compat.modelbit._settings import Settings
from penstock.compat.modelbit._spec.deployment import Deployment
from penstock.compat.modelbit._spec.folders import fill_table
from penstock.compat.modelbit._spec.table import DeploymentTable

__all__ = ["check", "main"]


def check(path: Path) -> list[str]:
    """Returns the problems of a path, one sentence each. Imports each deployment's code in a process."""
    try:
        if path.is_file():
            return []
        table = DeploymentTable()
        fill_table(table, path, Settings(), "")
    except StartupError as error:
        return [str(error)]
    problems = []
    for one in table.all():
        for file in sorted(Path(one.folder).rglob("*.pkl")):
            if _is_placeholder(file):
                problems.append(f"{file} is a placeholder of a missing file: clone the repository with its files")
        program = "from penstock.compat.modelbit import _check; _check.main()"
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
    """Imports the deployment of this process. On failure the last line of standard error is the reason."""
    deployment = Deployment.of_process()
    assert deployment is not None
    try:
        load_in_worker(deployment)
    except Exception as error:
        print(f"{type(error).__name__}: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(1)


def _is_placeholder(file: Path) -> bool:
    """Returns whether a file is YAML that refers to the real file, not a pickle."""
    with file.open("rb") as opened:
        return opened.read(20).startswith((b"_file", b"file:", b"contentHash"))


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    return {**os.environ, **more, "PYTHONPATH": os.pathsep.join(one for one in sys.path if one)}
