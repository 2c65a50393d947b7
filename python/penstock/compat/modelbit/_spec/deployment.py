"""`Deployment`: one version of a function, and the folder of its code."""

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
"""The default branch."""
_VARIABLE = "PENSTOCK_MODELBIT"
_BATCH = re.compile(rb'\s*\{\s*"data"\s*:\s*\[\s*\[')


@dataclass(frozen=True)
class Deployment:
    """One version of a function. Worker processes read it from their environment, so its values are JSON."""

    name: str
    version: int
    folder: str
    """Folder of source.py and metadata.yaml."""
    main_function: str
    branch: str = MAIN
    root: str = ""
    """Folder of `deployments/`, `common/` and `registry/`; empty for a deployment outside a repository."""
    columns: tuple[Column, ...] | None = None
    """Columns of the DataFrame in DataFrame mode; else None."""
    extra: str = "drop"
    """Treatment of undeclared columns: `drop` or `error`."""
    nan: str = "null"
    """Treatment of NaN and infinities in results: `null` or `error`."""
    tracebacks: bool = False
    """Sends the traceback of an exception to the client."""
    secrets: str = ""
    """File of the secrets; empty for none."""
    images: str = ""
    """Folder for images that the function logs; empty to drop them."""
    token: str = ""
    """Secret that the gateway sends to its workers, so that V2 requests cannot bypass it."""
    in_process: bool = False
    """True if the function runs in the server's process."""
    batched: bool = False
    """True if waiting requests share a call."""
    is_async: bool = False
    """True if source.py defines the function with `async def`."""
    workers: int = 1
    """Number of processes or threads."""
    split_rows: int = 0
    """Least rows per worker of a split batch; 0 to leave batches whole."""
    direct: bool = False
    """True if worker processes respond to ordinary requests themselves, without the gateway."""
    key_digests: tuple[str, ...] = ()
    """Digests of the API keys, for direct workers."""
    require_key: bool = True
    """Rejects requests without a key."""

    @property
    def model(self) -> str:
        """Name of the Penstock model that computes it; the model's version is the deployment's."""
        return self.name if self.branch == MAIN else f"{self.name}.{self.branch.replace('/', '~')}"

    @property
    def serves_in_process(self) -> bool:
        """True if requests are computed where they arrive. Batched requests go through their model's queue instead."""
        return self.in_process and not self.batched

    @cached_property
    def key(self) -> tuple[str, int]:
        """Identity for dictionaries: hashing all fields per request would take longer."""
        return self.model, self.version

    def environment(self) -> dict[str, str]:
        """Returns the environment variables of its worker processes."""
        return {
            _VARIABLE: json.dumps(asdict(self)),
            "DEPLOYMENT_NAME": self.name,
            "DEPLOYMENT_VERSION": str(self.version),
        }

    @classmethod
    def current(cls) -> Deployment | None:
        """Returns the deployment whose code is running; None outside a deployment."""
        return _CURRENT.get() or cls.of_process()

    @contextlib.contextmanager
    def activate(self) -> Iterator[None]:
        """Makes it the result of `current` within the block."""
        token = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(token)

    @classmethod
    def of_process(cls) -> Deployment | None:
        """Returns the deployment of this worker process; None in other processes."""
        text = os.environ.get(_VARIABLE)
        if not text:
            return None
        values: dict[str, Any] = json.loads(text)
        columns, digests = values.pop("columns"), tuple(values.pop("key_digests"))
        columns = None if columns is None else tuple(Column(**one) for one in columns)
        return cls(columns=columns, key_digests=digests, **values)

    def part_count(self, body: bytes) -> int:
        """Returns the number of parts to split a request's batch into, one per worker; 0 to leave it whole."""
        if self.workers < 2 or not self.split_rows or self.columns is not None or not _BATCH.match(body):
            return 0
        # Counts opening brackets as rows; nested lists in arguments only make the parts smaller.
        parts = min(self.workers, (body.count(b"[") - 1) // self.split_rows)
        return parts if parts > 1 else 0

    def resolve(self, name: str) -> Path:
        """Returns the path of a file in the deployment's folder or repository.

        Raises:
            ValueError: the name leads elsewhere.
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
