"""`Integration`: the protocol of modules that serve folders and files of other frameworks.

An integration is a module with these functions, which `penstock serve PATH` and other commands call:

| function | what it does |
|---|---|
| `detect(path) -> Finding or None` | recognises a folder or file, without running its code |
| `load(path, options) -> list of models` | loads the models; `options` are those of `--option` |
| `describe(path) -> ImageSpec` | describes its image, see `penstock.images` |
| `scaffold(folder) -> list of paths` | writes an example for `penstock init`; returns its files |
| `check(path) -> list of texts` | optional: its problems, one sentence each |
| `settings(path) -> mapping of texts` | optional: defaults of the server's settings |
| `greeting(models, url) -> list of texts` | optional: shell lines with example requests, for the banner |

`settings` returns texts by name, such as `{"http": "127.0.0.1:8080"}`, without running code of the path. `greeting`
gets the models from `load` and the HTTP URL, for example `http://127.0.0.1:8000`. Its lines replace
Penstock's own example request.

Each `path` is a `pathlib.Path` that exists. On failure, an integration raises `StartupError`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from penstock._model.model import Model
    from penstock._model.pipeline import Pipeline
    from penstock._spec.image import ImageSpec

__all__ = ["Finding", "Integration"]


@dataclass(frozen=True, slots=True)
class Finding:
    """Recognition of a path by an integration.

    Raises:
        ValueError: `confidence` is not from 1 to 100.
    """

    integration: str
    """Name of the integration, as for `--integration`."""
    why: str
    """The reason, as the end of a sentence: "it has app.py and input_schema.py"."""
    confidence: int
    """From 1 to 100. About 90: certain. 60: probable. 30: possible, if no other integration matches."""

    def __post_init__(self) -> None:
        if not 1 <= self.confidence <= 100:
            raise ValueError(f"a finding's confidence is from 1 to 100, not {self.confidence}")


class Integration(Protocol):
    """Functions of an integration's module, besides the optional `check`, `settings` and `greeting`."""

    def detect(self, path: Path) -> Finding | None:
        """The finding for a path; None if it is not recognised. Runs no code of the path."""

    def load(self, path: Path, options: Mapping[str, Any]) -> Sequence[Model[..., Any] | Pipeline]:
        """Loads the models of a path."""

    def describe(self, path: Path) -> ImageSpec:
        """The image description of a path."""

    def scaffold(self, folder: Path) -> list[Path]:
        """Writes an example into an empty folder. Returns its files."""
