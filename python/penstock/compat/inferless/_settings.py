"""`Settings`: options of an app, passed to its processes as text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from penstock import ConfigError
from penstock.integrations.options import check_least, read_options

__all__ = ["Settings"]


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
    """Place of the app: worker processes (`process`) or the server's process (`server`)."""
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
    """Rejects integers out of their declared datatype's range; otherwise a warning is logged once."""
    numpy_inputs: bool = False
    """Passes numpy scalars and arrays to `infer` instead of Python values."""
    reload: bool = False
    """Reloads the app, between two requests, when one of its files has changed."""
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
            ConfigError: an option is unknown or has an invalid value.
        """
        given = read_options(cls, options, choices={"isolation": ("process", "server")}, exclude=("folder", "state"))
        environment = {**defaults.pop("env", {}), **given.pop("env", {})}
        settings = cls(**{"folder": str(folder.resolve()), "name": name, "env": environment, **defaults, **given})
        check_least(settings, container_concurrency=1, threads=1, workers=1, max_queue=1)
        if settings.isolation == "server" and (settings.workers > 1 or settings.gpus):
            raise ConfigError("the options 'workers' and 'gpus' require isolation=process")
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
