"""What this machine and this Python are, as far as serving is concerned. No variable of the environment is shown."""

from __future__ import annotations

import importlib.metadata
import logging
import os
import platform
import sys
from pathlib import Path

import penstock
from penstock.integrations import processors

__all__ = ["report"]

_PACKAGES = ("numpy", "opentelemetry-sdk", "tritonclient", "grpcio", "nvidia-pytriton", "torch")
"""What scripts use beside this package, or in its place."""


def report(workspace: Path, logger: logging.Logger) -> None:
    """Says it in the log."""
    del workspace
    logger.info("penstock %s on Python %s (%s)", penstock.__version__, platform.python_version(), sys.executable)
    logger.info("%s, %s, %s", platform.platform(), platform.machine(), " ".join(platform.libc_ver()))
    logger.info("processors: %s of %s", processors(), os.cpu_count())
    for name in _PACKAGES:
        try:
            logger.info("%s %s", name, importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            logger.info("%s is not installed", name)
