"""Fields of the access log."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["FIELDS", "check_fields"]

FIELDS = (
    "time",
    "id",
    "protocol",
    "model",
    "version",
    "outcome",
    "status",
    "duration_ms",
    "queue_ms",
    "compute_ms",
    "batch_rows",
    "error",
    "address",
    "client",
    "method",
    "route",
    "request_bytes",
    "response_bytes",
    "trace_id",
    "user_agent",
    "tls",
)
"""Names of all fields, in the order of a line of JSON."""


def check_fields(names: Sequence[str], form: str) -> None:
    """Checks the setting `access_log_fields`.

    Raises:
        ValueError: an unknown or repeated field, or a form with fixed fields.
    """
    for index, name in enumerate(names):
        if name not in FIELDS:
            raise ValueError(f"{name!r} is not a field, expected any of {', '.join(FIELDS)}")
        if name in names[:index]:
            raise ValueError(f"{name!r} is there twice")
    if names and form == "short":
        raise ValueError("has no meaning with access_log = short, expected text or json")
