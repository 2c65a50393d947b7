"""`Fallback`: the model that responds to HTTP requests which another one declines."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["Fallback"]


@dataclass(frozen=True)
class Fallback:
    """The model that responds to requests to another model's routes which that one declines.

    It gets the same `Request`. It is asked where the first model's handler answers with the status 421 (Misdirected
    Request), with `request.refused` None; and where the first cannot compute: its time is over, its process has ended,
    its handler raised. Then `request.refused` is that error. So one model can have the usual
    requests computed where they arrive, in a process of its own say, and another one sees to all else.

    Args:
        model: The name of the model that answers instead. It takes requests as they are, and needs no route for it.
            Where it is not there, the first model's own answer or error stands.
        after: Seconds that the first model has, from when the request arrived; None for as long as it takes.
        match_body: Byte strings of which a request's body contains one. Such a request goes to the fallback at once.

    Raises:
        ValueError: `after` is no number of seconds above 0, or a mark is no bytes, or empty.

    Example:
        >>> @model(routes=["POST /score"], instances=Processes(4), fallback=Fallback("rest", after=30))
        ... def score(request: Request) -> Response:
        ...     if request.headers.get("x-mode") == "slow":
        ...         return Response(status=421)
        ...     return Response(compute(request.body))
        >>> @model
        ... def rest(request: Request) -> Response:
        ...     return Response(str(request.refused or "later"), status=503 if request.refused else 202)
    """

    model: str
    after: float | None = None
    match_body: tuple[bytes, ...] = ()

    def __post_init__(self) -> None:
        after = self.after
        good = after is None or (
            isinstance(after, (int, float)) and not isinstance(after, bool) and 0 < after < math.inf
        )
        if not good:
            raise ValueError(f"Fallback: after must be a number of seconds above 0, or None, not {after!r}")
        if not isinstance(self.match_body, tuple) or not all(isinstance(one, bytes) and one for one in self.match_body):
            raise ValueError(
                f"Fallback: match_body must be a tuple of bytes that are not empty, not {self.match_body!r}"
            )
