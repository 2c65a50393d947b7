"""How deployments are served: the options of `penstock serve PATH --option NAME=VALUE`, and of `Workspace`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from penstock import ConfigError

__all__ = ["Settings"]


@dataclass(frozen=True)
class Settings:
    """How deployments are served."""

    isolation: str = "process"
    """Where functions run: `process` for processes of their own, `server` for threads of the server's."""
    workers: int = 1
    """Processes or threads of each version: how many requests it computes at once."""
    timeout: float = 300.0
    """Seconds that a request may take; `timeout_seconds` of a request lowers it."""
    webhook_timeout: float = 900.0
    """The same of a request whose answer goes to a webhook."""
    join: int = 0
    """In DataFrame mode, how many waiting requests may share one call; 0 for a call for each."""
    split_rows: int = 64
    """With several workers, the least rows of a batch that each gets of it; 0 to leave batches whole."""
    keys: tuple[str, ...] = ()
    """The API keys; none means that nothing is looked at. Also MB_API_KEYS, with commas."""
    require_key: bool = True
    """Whether a key must be sent, where there are keys. One that is sent is looked at in any case."""
    webhooks: tuple[str, ...] = ()
    """The hosts that answers may be posted to; `*` for all with https. None: webhooks are refused."""
    links: str = ""
    """The folder for answers that are fetched by a link; empty for one that ends with the server."""
    link_seconds: float = 3600.0
    """How long a link is valid."""
    public_url: str = ""
    """How callers reach the server, for links; empty for the host that they asked."""
    log: str = ""
    """The file that gets a line of JSON for each request; empty for none."""
    images: str = ""
    """The folder for images that functions log; empty for none."""
    secrets: str = ""
    """A YAML or JSON file with secrets by name; empty for `secrets.yaml` beside the deployments, if it is there."""
    tracebacks: bool = False
    """Whether callers see tracebacks of what functions raise."""
    nan: str = "null"
    """What becomes of NaN and infinities in answers: `null`, or `error`."""
    extra: str = "drop"
    """What becomes of columns that a frame does not have: `drop` or `error`."""

    @property
    def times_out(self) -> bool:
        """Whether the limit of time was chosen: then it is kept at any cost."""
        return self.timeout != type(self).timeout

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Settings:
        """Settings of options, whose values may be texts.

        Raises:
            ConfigError: there is no such option, or not with such a value.
        """
        known = {one.name: one for one in fields(cls)}
        values: dict[str, Any] = {}
        for name, value in options.items():
            if name not in known:
                raise ConfigError(f"the Modelbit integration has no option {name!r}; it has {', '.join(known)}")
            values[name] = _read(name, value, known[name].default)
        if "keys" not in values and (text := os.environ.get("MB_API_KEYS")):
            values["keys"] = _read("keys", text, ())
        return replace(cls(), **values)._checked()

    def _checked(self) -> Settings:
        for name, least in (("workers", 1), ("join", 0), ("split_rows", 0)):
            if getattr(self, name) < least:
                raise ConfigError(f"{name} must be {least} or more, not {getattr(self, name)}")
        for name in ("timeout", "webhook_timeout", "link_seconds"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ConfigError(f"{name} must be more than 0 seconds, not {getattr(self, name)}")
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise ConfigError(f"{name} must be {' or '.join(choices)}, not {getattr(self, name)!r}")
        return self


def _read(name: str, value: Any, default: Any) -> Any:
    """A value of the type that its default has."""
    try:
        if isinstance(default, bool):
            return value if isinstance(value, bool) else _SWITCHES[str(value).lower()]
        if isinstance(default, tuple):
            given = value.split(",") if isinstance(value, str) else value
            return tuple(text for one in given if (text := str(one).strip()))
        if isinstance(value, bool):
            raise ValueError
        return type(default)(value)
    except (KeyError, TypeError, ValueError):
        kind = {bool: "on or off", int: "a whole number", float: "a number"}.get(type(default), "a text")
        raise ConfigError(f"{name} must be {kind}, not {value!r}") from None


_CHOICES = {"isolation": ("process", "server"), "nan": ("null", "error"), "extra": ("drop", "error")}
_SWITCHES = {"on": True, "true": True, "yes": True, "1": True, "off": False, "false": False, "no": False, "0": False}
