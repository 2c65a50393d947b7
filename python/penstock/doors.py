"""Front doors that serve folders and files made for other products.

A door is a module with these functions, which `penstock serve PATH` and its sister commands call:

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

Each `path` is a `pathlib.Path` that exists. A door raises `StartupError` where it cannot do what it is asked, with a
message for whoever typed the command.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from penstock.errors import StartupError

if TYPE_CHECKING:
    from penstock._model import Model
    from penstock.images import ImageSpec
    from penstock.pipeline import Pipeline

__all__ = ["Door", "Finding", "detect", "load", "settings"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A door knows a path.

    Raises:
        ValueError: `confidence` is not from 1 to 100.
    """

    door: str
    """The door's name, as `--door` takes it."""
    why: str
    """What was found that says so, as the end of a sentence: "it has app.py and input_schema.py"."""
    confidence: int
    """From 1 to 100. About 90: nothing else looks so. 60: probably. 30: it could be, if no other door wants it."""

    def __post_init__(self) -> None:
        if not 1 <= self.confidence <= 100:
            raise ValueError(f"a finding's confidence is from 1 to 100, not {self.confidence}")


class Door(Protocol):
    """What a door's module offers, beside `check`, `settings` and `greeting`, which may be missing."""

    def detect(self, path: Path) -> Finding | None:
        """Says whether it knows the path. It reads, and runs nothing of what it reads."""

    def load(self, path: Path, options: Mapping[str, Any]) -> Sequence[Model[..., Any] | Pipeline]:
        """Makes what is served of it."""

    def describe(self, path: Path) -> ImageSpec:
        """Says what an image of it needs."""

    def scaffold(self, folder: Path) -> list[Path]:
        """Writes a first example into a folder that is empty."""


def detect(path: str | Path) -> list[Finding]:
    """Which doors know a folder or file, the surest first. A door that fails to look at it is logged, and left out.

    Raises:
        StartupError: there is no such folder or file.
    """
    from penstock._doors import asking

    return asking.findings(Path(path))


def load(
    path: str | Path, options: Mapping[str, Any] | None = None, *, door: str | None = None
) -> list[Model[..., Any] | Pipeline]:
    """What `penstock serve PATH` would serve of a folder or file.

    Args:
        path: The folder or file.
        options: What the door takes beside it.
        door: The door's name; else the one that is surest to know the path.

    Raises:
        StartupError: no door knows it, two are equally sure, or it cannot be served.
    """
    from penstock._doors import asking

    where = Path(path)
    chosen = asking.chosen(where, door)
    if chosen == asking.NATIVE:
        if options:
            raise StartupError(f"{path} is served without a door, which takes no option {next(iter(options))!r}")
        return list(asking.native(where))
    return list(asking.module(chosen).load(where, dict(options or {})))


def settings(path: str | Path, *, door: str | None = None) -> dict[str, str]:
    """Settings of the server that the door of a folder or file has as its defaults, as text by name.

    `penstock serve PATH` puts them behind every other source; see `defaults` of `penstock.config.load_config`.

    Args:
        path: The folder or file.
        door: The door's name; else the one that is surest to know the path.

    Raises:
        StartupError: no door knows it, two are equally sure, or what it says of them cannot be read.
        ConfigError: the door names a setting that there is not.
    """
    from penstock import _settings
    from penstock._doors import asking
    from penstock.config import ServerConfig

    where = Path(path)
    chosen = asking.chosen(where, door)
    wanted: Any = None if chosen == asking.NATIVE else getattr(asking.module(chosen), "settings", None)
    found = dict(wanted(where)) if wanted else {}
    # Here, where it is known whose they are.
    _settings.read_texts(found, f"the door {chosen}", {one.name: one for one in fields(ServerConfig)})
    return found
