"""The option `stall_timeout` of a model."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

from penstock._spec.instances import Processes
from penstock.errors import SignatureError

__all__ = ["stall_timeout_of"]


def stall_timeout_of(value: Any, processes: Processes | None, where: str) -> float | None:
    """The time without progress after which the server is not live, in seconds; None for the server's setting.

    Raises:
        SignatureError: not 0 or a time of 1 second or more, or the instances are processes.
    """
    if value is None:
        return None
    if processes is not None:
        raise SignatureError(
            f"{where}: stall_timeout is for instances that are threads; processes have Processes(hang_after=...)"
        )
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    is_number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
    if not is_number or not (seconds == 0 or 1 <= seconds < math.inf):
        raise SignatureError(f"{where}: stall_timeout must be 0 or at least 1 second, not {value!r}")
    return float(seconds)
