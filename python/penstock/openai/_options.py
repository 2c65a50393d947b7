"""Common members of completion and chat requests."""

from __future__ import annotations

from penstock.openai._body import Body

__all__ = ["check_once", "streams", "wants_usage"]


def check_once(body: Body) -> None:
    """Refuses requests for more than one choice."""
    body.refuse({"n": (1,)})


def streams(body: Body) -> bool:
    """True if the request wants a stream."""
    return body.get("stream", bool, False)


def wants_usage(body: Body) -> bool:
    """True if the request wants token counts at the end of the stream."""
    return bool(body.get("stream_options", dict, {}).get("include_usage"))
