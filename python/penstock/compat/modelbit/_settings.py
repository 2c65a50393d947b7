"""Options of the integration: those of `penstock serve PATH --option NAME=VALUE`, and of `Workspace`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from penstock import ConfigError

__all__ = ["Settings"]


@dataclass(frozen=True)
class Settings:
    """Options of the integration."""

    isolation: str = "process"
    """Where functions run: in worker processes (`process`) or in threads of the server's process (`server`)."""
    workers: int = 1
    """Processes or threads per version, each of which computes one request at a time."""
    timeout: float = 300.0
    """Time limit of a request, in seconds; its `timeout_seconds` may lower it."""
    webhook_timeout: float = 900.0
    """Time limit of a request with a webhook, in seconds."""
    join: int = 0
    """In DataFrame mode, the most waiting requests that share a call; 0 for one call per request."""
    split_rows: int = 64
    """With several workers, the least rows per worker of a split batch; 0 to leave batches whole."""
    keys: tuple[str, ...] = ()
    """API keys, separated by commas; empty disables the check. Default: MB_API_KEYS."""
    require_key: bool = True
    """Whether a request without a key is rejected. A key that is sent is always checked."""
    webhooks: tuple[str, ...] = ()
    """Hosts that responses may be posted to; `*` for all hosts with https. Empty disables webhooks."""
    links: str = ""
    """Folder of linked responses; empty for a temporary folder."""
    link_seconds: float = 3600.0
    """Validity of a link, in seconds."""
    public_url: str = ""
    """Base URL of links; empty for the host of the request."""
    log: str = ""
    """File of the request log, one line of JSON per request; empty for none."""
    images: str = ""
    """Folder for images that functions log; empty to drop them."""
    secrets: str = ""
    """YAML or JSON file of secrets by name; empty for `secrets.yaml` of the repository, if present."""
    tracebacks: bool = False
    """Whether clients see tracebacks."""
    nan: str = "null"
    """Treatment of NaN and infinities in results: `null` or `error`."""
    extra: str = "drop"
    """Treatment of undeclared columns: `drop` or `error`."""

    @property
    def has_timeout(self) -> bool:
        """Whether the time limit was set. A call in process is then made through an event loop, which enforces it."""
        return self.timeout != type(self).timeout

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Settings:
        """Reads options, whose values may be strings.

        Raises:
            ConfigError: an option is unknown or has an invalid value.
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
    """Converts a value to the type of its default."""
    try:
        if isinstance(default, bool):
            return value if isinstance(value, bool) else _SWITCHES[str(value).lower()]
        if isinstance(default, tuple):
            items = value.split(",") if isinstance(value, str) else value
            return tuple(text for one in items if (text := str(one).strip()))
        if isinstance(value, bool):
            raise ValueError
        return type(default)(value)
    except (KeyError, TypeError, ValueError):
        kind = {bool: "on or off", int: "a whole number", float: "a number"}.get(type(default), "a text")
        raise ConfigError(f"{name} must be {kind}, not {value!r}") from None


_CHOICES = {"isolation": ("process", "server"), "nan": ("null", "error"), "extra": ("drop", "error")}
_SWITCHES = {"on": True, "true": True, "yes": True, "1": True, "off": False, "false": False, "no": False, "0": False}
