"""`Settings`: options of an app, passed to its processes as text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from penstock import StartupError

__all__ = ["Settings"]

_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off", "")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Options of an app. All but the folder and the state file can be set with `--option`."""

    folder: str
    """The app's folder, as an absolute path."""
    name: str
    """The model's name; default that of `inferless.yaml`, else the folder's."""
    api_key: str = ""
    """API key that clients send as `Authorization: Bearer KEY`; empty for none."""
    isolation: str = "process"
    """Where the app runs: in worker processes (`process`) or in the server's process (`server`)."""
    timeout: float = 0.0
    """Time limit of a call of `infer`, in seconds; 0 for none. Default: `inference_time` of `inferless.yaml`."""
    container_concurrency: int = 1
    """Concurrent requests of an app with an async `infer`."""
    threads: int = 1
    """Concurrent requests of an app without async `infer`, which must be thread-safe then."""
    workers: int = 1
    """Number of worker processes, each with the whole app."""
    max_queue: int = 4096
    """Most requests in the queue."""
    strict: bool = False
    """Whether to reject integers out of their declared datatype's range; otherwise a warning is logged once."""
    numpy_inputs: bool = False
    """Whether `infer` gets numpy scalars and arrays instead of Python values."""
    reload: bool = False
    """Whether to reload the app, between two requests, when one of its files has changed."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of the app's processes."""
    gpus: str = ""
    """GPU devices assigned to the processes in turn, such as `0,1`."""
    volumes: str = ""
    """Folder of the volumes; default /var/nfs-share, if present."""
    state: str = ""
    """Path of the state file; not an option."""

    @classmethod
    def of_options(cls, folder: Path, name: str, options: Mapping[str, Any], **defaults: Any) -> Settings:
        """Reads options, whose values may be strings.

        Args:
            folder: The app's folder.
            name: The model's name.
            options: Options by name; they override the defaults.
            defaults: Values from the app's files.

        Raises:
            StartupError: an option is unknown or has an invalid value.
        """
        kinds = {one.name: one.type for one in fields(cls) if one.name not in ("folder", "state")}
        given: dict[str, Any] = {}
        for option, value in options.items():
            word = option.replace("-", "_")
            if word not in kinds:
                raise StartupError(f"inferless: there is no option {option!r}; there are {', '.join(kinds)}")
            given[word] = _read(option, str(kinds[word]), value)
        environment = {**defaults.pop("env", {}), **given.pop("env", {})}
        settings = cls(**{"folder": str(folder.resolve()), "name": name, "env": environment, **defaults, **given})
        for word in ("container_concurrency", "threads", "workers", "max_queue"):
            if getattr(settings, word) < 1:
                raise StartupError(f"inferless: the option {word!r} must be 1 or more, not {getattr(settings, word)}")
        if settings.isolation not in ("process", "server"):
            raise StartupError(
                f"inferless: the option 'isolation' must be process or server, not {settings.isolation!r}"
            )
        if settings.isolation == "server" and (settings.workers > 1 or settings.gpus):
            raise StartupError("inferless: the options 'workers' and 'gpus' are for isolation=process")
        return settings

    def with_state(self, path: Path) -> Settings:
        """Returns a copy with the path of the state file."""
        return replace(self, state=str(path))

    def to_text(self) -> str:
        """Encodes the settings as hexadecimal JSON, usable within an identifier."""
        return json.dumps(asdict(self)).encode().hex()

    @classmethod
    def from_text(cls, text: str) -> Settings:
        """Decodes the result of `to_text`."""
        return cls(**json.loads(bytes.fromhex(text)))


def _read(option: str, kind: str, value: Any) -> Any:
    """Converts an option's value to the type of its field.

    Raises:
        StartupError: the value is invalid.
    """
    text = str(value).strip()
    try:
        if kind == "bool":
            if text.lower() in (*_TRUE, *_FALSE):
                return text.lower() in _TRUE
            raise ValueError
        if kind == "int":
            return int(text)
        if kind == "float":
            seconds = float(text)
            if not 0 <= seconds < float("inf"):
                raise ValueError
            return seconds
        if kind.startswith("Mapping"):
            return _variables(value)
    except ValueError:
        expected = {"bool": "true or false", "int": "a whole number", "float": "0 or more"}.get(kind, "NAME=VALUE,...")
        raise StartupError(f"inferless: the option {option!r} must be {expected}, not {value!r}") from None
    return text


def _variables(value: Any) -> dict[str, str]:
    if isinstance(value, Mapping):
        return {str(name): str(one) for name, one in value.items()}
    parts = [one.partition("=") for one in str(value).split(",") if one.strip()]
    if any(not name.strip() or not equals for name, equals, _ in parts):
        raise ValueError(value)
    return {name.strip(): one for name, _, one in parts}
