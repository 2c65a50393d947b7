"""Texts at which a completion ends, found in pieces as they come."""

from __future__ import annotations

from penstock.openai._body import Body
from penstock.openai._errors import Refused

__all__ = ["Stops"]

MOST = 16


class Stops:
    """Passes text on up to the first of some texts, and holds back what may be the beginning of one.

    Example:
        >>> stops = Stops(["END"])
        >>> [stops.feed("one E"), stops.feed("ND two"), stops.found]
        ['one ', '', True]
    """

    def __init__(self, texts: list[str]) -> None:
        self._texts, self._held = texts, ""
        self.found = False
        """Whether one of them came."""

    @classmethod
    def of(cls, body: Body) -> list[str]:
        """The member `stop` of a request.

        Raises:
            Refused: it is neither text nor a short list of texts.
        """
        if isinstance(stop := body.get("stop", object, []), str):
            stop = [stop]
        if not isinstance(stop, list) or not all(isinstance(one, str) for one in stop) or len(stop) > MOST:
            raise Refused(f"'stop' must be a string or a list of {MOST} strings at most", "stop")
        return [one for one in stop if one]

    def feed(self, piece: str) -> str:
        """What of the text so far can be passed on now."""
        if not self._texts:
            return piece
        text = self._held + piece
        # The one that is whole first counts, so that it makes no difference in which pieces the text comes.
        ends = [(at + len(stop), at) for stop in self._texts if (at := text.find(stop)) >= 0]
        if ends:
            self.found, self._held = True, ""
            return text[: min(ends)[1]]
        keep = max(_overlap(text, stop) for stop in self._texts)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def rest(self) -> str:
        """What was held back, at the end of the text."""
        held, self._held = self._held, ""
        return held


def _overlap(text: str, stop: str) -> int:
    """How much of the text's end is a beginning of `stop`."""
    for length in range(min(len(stop) - 1, len(text)), 0, -1):
        if text.endswith(stop[:length]):
            return length
    return 0
