"""State file: shares reloads and unloads of an app between its processes and the server."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from penstock.compat.inferless._spec.schema import Schema
from penstock.integrations.files import temporary_folder

__all__ = ["State", "StateFile"]


@dataclass(frozen=True)
class State:
    """Load state of an app."""

    generation: int
    """Increments with each reload."""
    loaded: bool
    schema: Schema


class StateFile:
    """A state that several processes read, and one at a time writes."""

    def __init__(self, path: Path) -> None:
        self._path, self._text = path, str(path)
        self._seen: tuple[int, int] | None = None

    @classmethod
    def create(cls, schema: Schema) -> StateFile:
        """Creates the file of a loaded app, in a temporary folder that is deleted when this process ends."""
        file = cls(temporary_folder("penstock-inferless-") / "state.json")
        file.write(State(0, loaded=True, schema=schema))
        return file

    @property
    def path(self) -> Path:
        """The file's path."""
        return self._path

    def changed(self) -> bool:
        """Returns whether another object wrote the file since the last call or write of this one."""
        now = self._version()
        before, self._seen = self._seen, now
        return before is not None and before != now

    def read(self) -> State:
        """Reads the state."""
        members = json.loads(self._path.read_text(encoding="utf-8"))
        return State(members["generation"], members["loaded"], Schema.from_json(members["schema"]))

    def write(self, state: State) -> None:
        """Replaces the state atomically."""
        members = {"generation": state.generation, "loaded": state.loaded, "schema": state.schema.to_json()}
        new = self._path.with_suffix(f".{os.getpid()}")
        # An example that is not JSON, such as an array, becomes null.
        new.write_text(json.dumps(members, default=lambda _: None), encoding="utf-8")
        new.replace(self._path)
        self._seen = self._version()

    def _version(self) -> tuple[int, int]:
        # Called per request: converting a Path to a string takes as long as `stat`.
        found = os.stat(self._text)
        return found.st_mtime_ns, found.st_ino
