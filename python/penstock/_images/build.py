"""Makes an image: writes its context, has it built, and remembers it."""

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

__all__ = ["Wanted", "make"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """How an image is to be made."""

    builder: str | None = None
    """Which program builds; None for the first that is here."""
    context: Path | None = None
    """Where to leave what it is built of; None for nowhere."""
    wheel: Path | None = None
    """Penstock's wheel; None for the package index."""
    fresh: bool = False
    """Whether to use no layers of before."""
    verbose: bool = False
    """Whether to show all that the builder says."""


def make(spec: ImageSpec, name: str, wanted: Wanted, *, of: Path | None = None, named: str = "") -> Built:
    """Builds an image and remembers it as that of a path.

    Raises:
        StartupError: it cannot be built, or there is nothing that builds.
    """
    checks.check_name(name)
    # Before large files are copied for nobody.
    context.text_of(spec, wanted.wheel)
    builder = builders.find(wanted.builder)
    before = stamp(of, named) if of is not None else ""
    with tempfile.TemporaryDirectory(prefix="penstock-build-") as folder:
        where = context.write(spec, wanted.context or Path(folder, "context"), wheel=wanted.wheel)
        progress = Progress(sys.stderr, all_lines=wanted.verbose)
        id_ = builder.image(where, name, context.epoch(os.environ), progress, fresh=wanted.fresh)
        built = Built(name, id_, builder.name, context.digest(where), spec.http_port, spec.grpc_port)
    # Whatever has changed while it was built may be in it, or not.
    same = of is not None and before == stamp(of, named)
    if spec.record is not None:
        spec.record(name)
    if of is not None:
        # After an integration has written the image's name into a file of its own.
        built = replace(built, sources=stamp(of, named) if same else "")
        record.write(of, built)
    return built
