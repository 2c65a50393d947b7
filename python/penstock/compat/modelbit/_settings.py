"""Options of the integration: those of `penstock serve PATH --option NAME=VALUE`, and of `Workspace`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.integrations.options import check_least, check_positive, read_options

__all__ = ["Settings"]


@dataclass(frozen=True)
class Settings:
    """Options of the integration."""

    isolation: str = "process"
    """Place of the functions: worker processes (`process`) or threads of the server's process (`server`)."""
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
    """Rejects requests without a key. A key that is sent is always checked."""
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
    """Sends tracebacks to clients."""
    nan: str = "null"
    """Treatment of NaN and infinities in results: `null` or `error`."""
    extra: str = "drop"
    """Treatment of undeclared columns: `drop` or `error`."""

    @property
    def has_timeout(self) -> bool:
        """True if the option `timeout` differs from its default.

        Calls in process then use an event loop, which enforces the limit.
        """
        return self.timeout != type(self).timeout

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Settings:
        """Reads options, whose values may be strings.

        Raises:
            ConfigError: an option is unknown or has an invalid value.
        """
        given = dict(options)
        if "keys" not in given and (keys := os.environ.get("MB_API_KEYS")):
            given["keys"] = keys
        settings = cls(**read_options(cls, given, choices=_CHOICES))
        check_least(settings, workers=1, join=0, split_rows=0)
        check_positive(settings, "timeout", "webhook_timeout", "link_seconds")
        return settings


_CHOICES = {"isolation": ("process", "server"), "nan": ("null", "error"), "extra": ("drop", "error")}
