"""How a request is run whose caller wishes nothing else, and how its answer is sent."""

from __future__ import annotations

from typing import Any

from penstock import Response
from penstock.compat.modelbit._running import Answer

__all__ = ["JSON", "ONE_BY_ONE", "SINGLE", "given"]

JSON = "application/json"
ONE_BY_ONE: dict[str, Any] = {}
"""What a runner is told of such a request."""
SINGLE: dict[str, Any] = {"single": True}
"""The same, where its data is one argument."""


def given(answer: Answer) -> Response:
    """An answer as it is sent."""
    return Response(answer.body, status=answer.status, content_type=JSON)
