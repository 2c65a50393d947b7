"""How a request is run whose caller wishes nothing else, and how its answer is sent."""

from __future__ import annotations

from typing import Any

from penstock import Response
from penstock.compat.modelbit._function.runner import Answer

__all__ = ["JSON", "given", "usual"]

JSON = "application/json"
_ONE_BY_ONE: dict[str, Any] = {}
_SINGLE: dict[str, Any] = {"single": True}


def usual(single: bool) -> dict[str, Any]:
    """What a runner is told of such a request, whose data may be one argument, whatever it looks like."""
    return _SINGLE if single else _ONE_BY_ONE


def given(answer: Answer) -> Response:
    """An answer as it is sent."""
    return Response(answer.body, status=answer.status, content_type=JSON)
