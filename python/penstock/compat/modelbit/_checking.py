"""The program of a process that imports a deployment, to see whether it can be."""

from __future__ import annotations

import sys

from penstock.compat.modelbit._deployment import Deployment
from penstock.compat.modelbit._source import function_of

__all__ = ["main"]


def main() -> None:
    """Imports this process's deployment; the last line of standard error says why it cannot be."""
    deployment = Deployment.of_this_process()
    assert deployment is not None
    try:
        function_of(deployment)
    except Exception as error:
        print(f"{type(error).__name__}: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(1)
