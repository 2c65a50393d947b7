"""Normalization of observations: ports, folders and tracebacks differ between runs."""

from __future__ import annotations

import re
from typing import Any

TRACEBACK = "Traceback (most recent call last):"


def normal(value: Any) -> Any:
    """Returns an observation without values that differ between runs."""
    if isinstance(value, str):
        return text(value)
    if isinstance(value, list):
        return [normal(one) for one in value]
    if isinstance(value, dict):
        return {name: normal(one) for name, one in value.items() if name != "workspace-path"}
    return value


def text(message: str) -> str:
    """Returns a message without request number, addresses and folders. Reduces a traceback to its last line."""
    message = re.sub(r"\[request id: [^\]]*\] ", "", message)
    message = re.sub(r"127\.0\.0\.1:\d+", "HOST:PORT", message)
    if TRACEBACK in message:
        before, _, _ = message.partition(TRACEBACK)
        _, _, inner = message.rpartition(TRACEBACK)
        # The exception follows the last frame and its source lines.
        raised = re.split(
            r'\n  File "[^\n]*(?:\n    [^\n]*)*(?=\n)', re.sub(r"\n\n+At:\n.*", "", inner, flags=re.DOTALL)
        )[-1]
        message = before + raised.lstrip()
    # A traceback contains the module of the exception's class.
    message = re.sub(
        r"^(.*error: )?(?:[a-z_]+\.)+([A-Z]\w+)", lambda match: (match[1] or "") + match[2], message, flags=re.DOTALL
    )
    return message.rstrip(": \n")
