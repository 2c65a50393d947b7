"""A JSON answer for a web framework, or for none."""

from __future__ import annotations

import json
import sys
from typing import Any

__all__ = ["JSONResponse", "json_response"]


class JSONResponse:
    """What the handlers give where there is no starlette: its JSON response's attributes, and no more.

    Attributes:
        status_code: The HTTP status.
        body: The JSON text, in UTF-8.
        media_type: `application/json`.
        headers: Names in lower case.
    """

    media_type = "application/json"

    def __init__(self, content: Any, status_code: int = 200) -> None:
        self.status_code = status_code
        self.body = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
        self.headers = {"content-length": str(len(self.body)), "content-type": self.media_type}


def json_response(status: int, content: Any) -> Any:
    """The framework's own class where the script has loaded it: its application can send no other."""
    framework = sys.modules.get("starlette.responses")
    kind = JSONResponse if framework is None else framework.JSONResponse
    return kind(content=content, status_code=status)
