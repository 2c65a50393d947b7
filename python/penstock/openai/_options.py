"""Members of a request that completions and chats have in common."""

from __future__ import annotations

from penstock.openai._body import Body

__all__ = ["check_once", "streams", "wants_usage"]


def check_once(body: Body) -> None:
    """Refuses to answer several times over."""
    body.refuse({"n": (1,)})


def streams(body: Body) -> bool:
    """Whether the answer is to come in pieces."""
    return body.get("stream", bool, False)


def wants_usage(body: Body) -> bool:
    """Whether the pieces are to end with one that counts tokens."""
    return bool(body.get("stream_options", dict, {}).get("include_usage"))
