"""The file by which the processes of one app, and the server, know that it was loaded anew, or unloaded."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.compat.inferless._spec.schema import Schema

__all__ = ["State", "StateFile"]


@dataclass(frozen=True)
class State:
    """What is to be loaded."""

    generation: int
    """It is one more each time that the app is to be loaded anew."""
    loaded: bool
    schema: Schema


class StateFile:
    """A state that several processes read, and one at a time writes."""

    def __init__(self, path: Path) -> None:
        self._path, self._text = path, str(path)
        self._seen: tuple[int, int] | None = None

    @classmethod
    def made(cls, schema: Schema) -> StateFile:
        """A new file for an app that is loaded, in a folder of its own that goes when this process ends."""
        folder = Path(tempfile.mkdtemp(prefix="penstock-inferless-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        file = cls(folder / "state.json")
        file.write(State(0, loaded=True, schema=schema))
        return file

    @property
    def path(self) -> Path:
        """Where it is."""
        return self._path

    def changed(self) -> bool:
        """Whether it was written since this object last asked, or wrote it."""
        now = self._stamp()
        before, self._seen = self._seen, now
        return before is not None and before != now

    def read(self) -> State:
        """The state."""
        told = json.loads(self._path.read_text(encoding="utf-8"))
        return State(told["generation"], told["loaded"], Schema.from_json(told["schema"]))

    def write(self, state: State) -> None:
        """Writes a state in the place of the one before, in one step."""
        told = {"generation": state.generation, "loaded": state.loaded, "schema": state.schema.to_json()}
        new = self._path.with_suffix(f".{os.getpid()}")
        new.write_text(json.dumps(told, default=_left_out), encoding="utf-8")
        new.replace(self._path)
        self._seen = self._stamp()

    def _stamp(self) -> tuple[int, int]:
        # As text: each request looks, and making a text of a path takes as long as looking.
        found = os.stat(self._text)
        return found.st_mtime_ns, found.st_ino


def _left_out(value: Any) -> None:
    """An example that JSON does not have, such as an array."""
    return
