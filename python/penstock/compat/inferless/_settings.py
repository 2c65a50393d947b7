"""`Settings`: how an app is served. It goes to the app's processes as text."""

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
    """How an app is served. All but the folder can be given as options."""

    folder: str
    """The app's folder, as an absolute path."""
    name: str
    """The model's name; else that of `inferless.yaml`, else the folder's."""
    api_key: str = ""
    """The key that callers send as `Authorization: Bearer KEY`; empty for none."""
    isolation: str = "process"
    """Where the app runs: in `process`es of its own, or in the `server`'s, which saves the way there and back."""
    timeout: float = 0.0
    """Seconds that a call of `infer` may take; 0 for any time. Else `inference_time` of `inferless.yaml`."""
    container_concurrency: int = 1
    """How many requests of an app whose `infer` is async are computed at once; one of any other app."""
    threads: int = 1
    """How many requests of a plain app are computed at once, on threads of its process. It must be made for that."""
    workers: int = 1
    """How many processes there are, each with the whole app."""
    max_queue: int = 4096
    """The most requests that wait."""
    strict: bool = False
    """Whether numbers that are out of the range of a declared integer type are refused; else the log warns once."""
    numpy_inputs: bool = False
    """Whether `infer` gets numpy scalars and arrays; else plain Python values."""
    reload: bool = False
    """Whether the app is loaded anew, between two requests, when one of its files has changed."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables of the app's processes."""
    gpus: str = ""
    """The devices of each process in turn, as in `0,1`."""
    volumes: str = ""
    """The folder in whose subfolders volumes lie; else /var/nfs-share, where there is one."""
    state: str = ""
    """The file by which processes of one app know that it is to be loaded anew; not an option."""

    @classmethod
    def of_options(cls, folder: Path, name: str, options: Mapping[str, Any], **known: Any) -> Settings:
        """Settings of what the folder says and options say, which are texts where they come of a command line.

        Raises:
            StartupError: there is no such option, or a value is none of its kind.
        """
        kinds = {one.name: one.type for one in fields(cls) if one.name not in ("folder", "state")}
        given: dict[str, Any] = {}
        for option, value in options.items():
            word = option.replace("-", "_")
            if word not in kinds:
                raise StartupError(f"inferless: there is no option {option!r}; there are {', '.join(kinds)}")
            given[word] = _read(option, str(kinds[word]), value)
        environment = {**known.pop("env", {}), **given.pop("env", {})}
        made = cls(**{"folder": str(folder.resolve()), "name": name, "env": environment, **known, **given})
        for word in ("container_concurrency", "threads", "workers", "max_queue"):
            if getattr(made, word) < 1:
                raise StartupError(f"inferless: the option {word!r} must be 1 or more, not {getattr(made, word)}")
        if made.isolation not in ("process", "server"):
            raise StartupError(f"inferless: the option 'isolation' must be process or server, not {made.isolation!r}")
        if made.isolation == "server" and (made.workers > 1 or made.gpus):
            raise StartupError("inferless: the options 'workers' and 'gpus' are for isolation=process")
        return made

    def with_state(self, path: Path) -> Settings:
        """The same, with the file by which its processes know that they are to load anew."""
        return replace(self, state=str(path))

    def to_text(self) -> str:
        """All of it, as a name that `from_text` reads."""
        return json.dumps(asdict(self)).encode().hex()

    @classmethod
    def from_text(cls, text: str) -> Settings:
        """What `to_text` wrote."""
        return cls(**json.loads(bytes.fromhex(text)))


def _read(option: str, kind: str, value: Any) -> Any:
    """A value of an option, as its kind.

    Raises:
        StartupError: it is none.
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
