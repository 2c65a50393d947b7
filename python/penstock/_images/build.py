"""Builds an image: writes its context, runs the builder, and records the result."""

from __future__ import annotations

import os
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from penstock._images import builders, checks, context, record
from penstock._images.fingerprint import stamp
from penstock._images.progress import Progress
from penstock._images.record import Built
from penstock._spec.image import ImageSpec

__all__ = ["BuildOptions", "build"]


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildOptions:
    """Options of a build."""

    builder: str | None = None
    """Name of the builder; None for the first installed one."""
    context: Path | None = None
    """Folder for the build context; None for a temporary one."""
    wheel: Path | None = None
    """Wheel of Penstock; None for the package index."""
    no_cache: bool = False
    """True if to build every layer again."""
    verbose: bool = False
    """True if to print all output of the builder."""


def build(
    spec: ImageSpec, name: str, options: BuildOptions, *, source: Path | None = None, object_name: str = ""
) -> Built:
    """Builds an image, and records it as that of the path `source`.

    Raises:
        StartupError: the image cannot be built, or there is no builder.
    """
    checks.check_name(name)
    # Fails before large files are copied.
    context.dockerfile_text(spec, options.wheel)
    builder = builders.find(options.builder)
    before = stamp(source, object_name) if source is not None else ""
    with tempfile.TemporaryDirectory(prefix="penstock-build-") as folder:
        context_folder = context.write(spec, options.context or Path(folder, "context"), wheel=options.wheel)
        progress = Progress(sys.stderr, all_lines=options.verbose)
        id_ = builder.image(context_folder, name, context.epoch(os.environ), progress, no_cache=options.no_cache)
        built = Built(name, id_, builder.name, context.digest(context_folder), spec.http_port, spec.grpc_port)
    # A file that changed during the build may be in the image in either form.
    unchanged = source is not None and before == stamp(source, object_name)
    if spec.record is not None:
        spec.record(name)
    if source is not None:
        # After `spec.record`, which may have changed a file of the folder.
        built = replace(built, sources=stamp(source, object_name) if unchanged else "")
        record.write(source, built)
    return built
