"""What is fixed, or fixed by the environment when this is imported."""

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
    named = os.environ.get("PYTRITON_HOME")
    path = named or os.path.join(os.environ.get("XDG_CACHE_HOME", "~/.cache"), "pytriton")
    return Path(os.path.expanduser(os.path.expandvars(path))).resolve()


PYTRITON_HOME = _home()
"""Where workspaces are made: `$PYTRITON_HOME`, else a folder of the user's cache."""
