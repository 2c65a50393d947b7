"""`Fallback`: the model that responds to HTTP requests which another one declines."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["Fallback"]


@dataclass(frozen=True)
class Fallback:
    """The model that responds to requests which the model of their route declines.

    It gets the same `Request` in two cases. If the first model's handler responds with the status 421 (Misdirected
    Request), `request.refused` is None. If the first model fails, by a timeout, the end of its process or an
    exception, `request.refused` is that error. Use it to compute common requests on a fast path, and all others in
    one general model.

    Args:
        model: The name of the fallback, a model of raw requests. It needs no route. If it is not loaded, the first
            model's response or error is sent.
        after: Timeout of the first model in seconds from the request's arrival; None for no limit.
        match_body: Byte strings of which a request's body contains one. Such a request goes to the fallback at once.

    Raises:
        ValueError: `after` is not a number above 0, or an entry of `match_body` is empty or not bytes.

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
