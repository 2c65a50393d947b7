"""`ServedSettings`: the settings of a server with their origins, and their description for operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Generic, NamedTuple, TypeVar

from penstock._config.report import rows_of, to_json
from penstock._config.resolve import Sources, resolve
from penstock._config.value_text import as_json

__all__ = ["Description", "ServedSettings"]

T = TypeVar("T")

_HASH_LENGTH = 16


class Description(NamedTuple):
    """Settings as operators see them. Rust reads it."""

    document: bytes
    """JSON of each setting with its value, origin and shadowed values, and of the models' options."""
    digest: str
    """Hash of the values, without secrets: equal for servers with equal settings, whatever their origins."""


class ServedSettings(Generic[T]):
    """The settings of a server.

    Args:
        kind: The class of the configuration.
        given: The sources of the settings.

    Raises:
        ConfigError: a setting is wrong; the message is that of the first one.
    """

    config: T
    """The configuration in force."""

    def __init__(self, kind: type[T], given: Sources) -> None:
        self._resolved = resolve(kind, given)
        self.config = self._resolved.config()

    def describe(self, models: Sequence[Any]) -> Description:
        """The settings in force.

        Args:
            models: The options of the models, as JSON.
        """
        # `import penstock` does not load it.
        import json

        rows = to_json(rows_of(self._resolved))
        document = {"file": self._resolved.file, "settings": rows, "models": models}
        return Description(json.dumps(document).encode(), self._digest())

    def _digest(self) -> str:
        import hashlib
        import json

        kinds = {entry.name: entry.metadata["kind"] for entry in fields(self._resolved.kind)}  # type: ignore[arg-type]
        values = {name: as_json(kind, self._resolved.values[name]) for name, kind in kinds.items()}
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:_HASH_LENGTH]
