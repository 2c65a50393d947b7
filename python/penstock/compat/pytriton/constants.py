"""Constants, some of them read from the environment at import."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = [
    "CREATE_TRITON_CLIENT_TIMEOUT_S",
    "DEFAULT_GRPC_PORT",
    "DEFAULT_HTTP_PORT",
    "DEFAULT_METRICS_PORT",
    "DEFAULT_TRITON_STARTUP_TIMEOUT_S",
    "PYTRITON_HOME",
    "TRITON_CONTEXT_FIELD_NAME",
    "TRITON_LOCAL_IP",
]

DEFAULT_HTTP_PORT = 8000
DEFAULT_GRPC_PORT = 8001
DEFAULT_METRICS_PORT = 8002
TRITON_LOCAL_IP = "127.0.0.1"
TRITON_CONTEXT_FIELD_NAME = "triton_context"
DEFAULT_TRITON_STARTUP_TIMEOUT_S = 120
CREATE_TRITON_CLIENT_TIMEOUT_S = 10


def _home() -> Path:
    configured = os.environ.get("PYTRITON_HOME")
    path = configured or os.path.join(os.environ.get("XDG_CACHE_HOME", "~/.cache"), "pytriton")
    return Path(os.path.expanduser(os.path.expandvars(path))).resolve()


PYTRITON_HOME = _home()
"""Folder of workspaces: `$PYTRITON_HOME`, by default a folder in the user's cache."""
