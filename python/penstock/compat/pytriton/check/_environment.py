"""Report of the machine, Python and the packages. It leaves out environment variables, which may hold secrets."""

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
"""Packages that scripts use with this one, or instead of it."""


def report(workspace: Path, logger: logging.Logger) -> None:
    """Logs the report."""
    del workspace
    logger.info("penstock %s on Python %s (%s)", penstock.__version__, platform.python_version(), sys.executable)
    logger.info("%s, %s, %s", platform.platform(), platform.machine(), " ".join(platform.libc_ver()))
    logger.info("processors: %s of %s", processors(), os.cpu_count())
    for name in _PACKAGES:
        try:
            logger.info("%s %s", name, importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            logger.info("%s is not installed", name)
