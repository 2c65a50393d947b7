"""`Deployment`: one version of a function, and where its code lies."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from penstock.compat.modelbit._spec.metadata import Column

__all__ = ["MAIN", "Deployment"]

MAIN = "main"
"""The branch of which nothing is said."""
_VARIABLE = "PENSTOCK_MODELBIT"
_BATCH = re.compile(rb'\s*\{\s*"data"\s*:\s*\[\s*\[')


@dataclass(frozen=True)
class Deployment:
    """One version of a function. Its process learns of it by its environment, so it is made of what JSON has."""

    name: str
    version: int
    folder: str
    """Where source.py and metadata.yaml lie."""
    main_function: str
    branch: str = MAIN
    root: str = ""
    """The folder that has `deployments/`, `common/` and the like; empty if the deployment stands alone."""
    columns: tuple[Column, ...] | None = None
    extra: str = "drop"
    """What becomes of columns that are not declared: `drop` or `error`."""
    nan: str = "null"
    tracebacks: bool = False
    """Whether callers see the traceback of what the function raised."""
    secrets: str = ""
    images: str = ""
    """The folder for images that the function logs; empty to leave them out."""
    token: str = ""
    """What the integration says to its processes, so that nobody goes around it."""
    here: bool = False
    """Whether its function runs in the server's process."""
    joins: bool = False
    """Whether requests that wait share a call."""
    waits: bool = False
    """Whether its function is known to be async."""
    workers: int = 1
    """How many processes or threads it has."""
    split_rows: int = 0
    """The least rows of a batch that each process gets of it; 0 to leave batches whole."""
    direct: bool = False
    """Whether its processes answer usual requests themselves; else the integration asks them."""
    keys: tuple[str, ...] = ()
    """The digests of the API keys, for such a process."""
    require_key: bool = True
    """Whether a request must have one of them."""

    @property
    def model(self) -> str:
        """The name of the Penstock model that computes it; its version is the deployment's."""
        return self.name if self.branch == MAIN else f"{self.name}.{self.branch.replace('/', '~')}"

    @property
    def alone(self) -> bool:
        """Whether requests are computed where they arrive: what is to be joined waits in its model's queue instead."""
        return self.here and not self.joins

    @cached_property
    def key(self) -> tuple[str, int]:
        """What it is known by: looked up for each request, where comparing all of it would take longer."""
        return self.model, self.version

    def environment(self) -> dict[str, str]:
        """What is different in the environment of its processes."""
        return {
            _VARIABLE: json.dumps(asdict(self)),
            "DEPLOYMENT_NAME": self.name,
            "DEPLOYMENT_VERSION": str(self.version),
        }

    @classmethod
    def current(cls) -> Deployment | None:
        """The one whose code asks; None where it is no deployment's."""
        return _CURRENT.get() or cls.of_this_process()

    @contextlib.contextmanager
    def asking(self) -> Iterator[None]:
        """Has `current` give it meanwhile."""
        token = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(token)

    @classmethod
    def of_this_process(cls) -> Deployment | None:
        """The one that this process computes; None where it is no such process."""
        told = os.environ.get(_VARIABLE)
        if not told:
            return None
        values: dict[str, Any] = json.loads(told)
        columns, keys = values.pop("columns"), tuple(values.pop("keys"))
        return cls(columns=None if columns is None else tuple(Column(**one) for one in columns), keys=keys, **values)

    def parts(self, body: bytes) -> int:
        """How many parts a request's batch is to have, each for a process; 0 for one that stays whole."""
        if self.workers < 2 or not self.split_rows or self.columns is not None or not _BATCH.match(body):
            return 0
        # Each row begins with a bracket; more of them than rows only make smaller parts.
        parts = min(self.workers, (body.count(b"[") - 1) // self.split_rows)
        return parts if parts > 1 else 0

    def inside(self, name: str) -> Path:
        """A file of the deployment's own, or of the folder that it belongs to.

        Raises:
            ValueError: it lies elsewhere.
        """
        homes = [Path(one).resolve() for one in (self.folder, self.root) if one]
        for home in homes:
            path = (home / name).resolve()
            if any(path.is_relative_to(one) for one in homes) and path.exists():
                return path
        path = (homes[0] / name).resolve()
        if not any(path.is_relative_to(one) for one in homes):
            raise ValueError(f"{name!r} lies outside of the deployment's folder")
        return path


_CURRENT: ContextVar[Deployment | None] = ContextVar("penstock_modelbit_deployment", default=None)
