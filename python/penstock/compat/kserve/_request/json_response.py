"""JSON responses, of a web framework's class where one is loaded."""

from __future__ import annotations

import json
import sys
from typing import Any

__all__ = ["JSONResponse", "json_response"]


class JSONResponse:
    """A response without starlette, with the attributes of starlette's JSON response.

    Attributes:
        status_code: The HTTP status.
        body: The JSON text, in UTF-8.
        media_type: `application/json`.
        headers: Headers by name in lower case.
    """

    media_type = "application/json"

    def __init__(self, content: Any, status_code: int = 200) -> None:
        self.status_code = status_code
        self.body = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
        self.headers = {"content-length": str(len(self.body)), "content-type": self.media_type}


def json_response(status: int, content: Any) -> Any:
    """Returns starlette's `JSONResponse` if it is loaded, since its applications send no other class."""
    framework = sys.modules.get("starlette.responses")
    kind = JSONResponse if framework is None else framework.JSONResponse
    return kind(content=content, status_code=status)
