"""Public names of `inferless.api`."""

from __future__ import annotations

from penstock.compat.inferless._client import call, call_async
from penstock.compat.inferless._decorators import Cls, config, local_entry_point, method, request, response

__all__ = ["Cls", "call", "call_async", "config", "local_entry_point", "method", "request", "response"]
