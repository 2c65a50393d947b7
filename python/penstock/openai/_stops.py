"""Stop texts of a request."""

from __future__ import annotations

from penstock.openai._body import Body
from penstock.openai._errors import Refused

__all__ = ["stop_texts"]

MOST = 16


def stop_texts(body: Body) -> list[str]:
    """The member `stop` of a request.

    Raises:
        Refused: neither text nor a short list of texts.
    """
    if isinstance(stop := body.get("stop", object, []), str):
        stop = [stop]
    if not isinstance(stop, list) or not all(isinstance(one, str) for one in stop) or len(stop) > MOST:
        raise Refused(f"'stop' must be a string or a list of {MOST} strings at most", "stop")
    return [one for one in stop if one]
