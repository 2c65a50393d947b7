"""Integrations that serve folders and files made for other products.

An integration is a module with these functions, which `penstock serve PATH` and its sister commands call:

| function | what it does |
|---|---|
| `detect(path) -> Finding or None` | says whether a folder or file is its kind, without running any of its code |
| `load(path, options) -> list of models` | makes what is served of it; `options` are the command line's `--option` |
| `describe(path) -> ImageSpec` | says what an image of it needs, see `penstock.images` |
| `scaffold(folder) -> list of paths` | writes a first example for `penstock init`; gives the files that it wrote |
| `check(path) -> list of texts` | may be missing: what is wrong with it, one sentence each; nothing if all is well |
| `settings(path) -> mapping of texts` | may be missing: the server's settings, behind every other source |
| `greeting(models, url) -> list of texts` | may be missing: shell lines to try, shown when the server has started |

`settings` has them by name, such as `{"http": "127.0.0.1:8080"}`, and runs none of the path's code. `greeting` gets the
models that `load` made and where HTTP is, `http://127.0.0.1:8000` for example. What it gives is shown in place of
Penstock's own line to try.

Each `path` is a `pathlib.Path` that exists. An integration raises `StartupError` where it cannot do what it is asked.
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
    """An integration knows a path.

    Raises:
        ValueError: `confidence` is not from 1 to 100.
    """

    integration: str
    """The integration's name, as `--integration` takes it."""
    why: str
    """What was found that says so, as the end of a sentence: "it has app.py and input_schema.py"."""
    confidence: int
    """From 1 to 100. About 90: nothing else looks so. 60: probably. 30: possible, if no other matches."""

    def __post_init__(self) -> None:
        if not 1 <= self.confidence <= 100:
            raise ValueError(f"a finding's confidence is from 1 to 100, not {self.confidence}")


class Integration(Protocol):
    """What an integration's module offers, beside `check`, `settings` and `greeting`, which may be missing."""

    def detect(self, path: Path) -> Finding | None:
        """Says whether it knows the path. It reads, and runs nothing of what it reads."""

    def load(self, path: Path, options: Mapping[str, Any]) -> Sequence[Model[..., Any] | Pipeline]:
        """Makes what is served of it."""

    def describe(self, path: Path) -> ImageSpec:
        """Says what an image of it needs."""

    def scaffold(self, folder: Path) -> list[Path]:
        """Writes a first example into a folder that is empty."""
