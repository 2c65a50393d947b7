"""Stop texts of a completion, found across chunks."""

from __future__ import annotations

from penstock.openai._body import Body
from penstock.openai._errors import Refused

__all__ = ["Stops"]

MOST = 16


class Stops:
    """Passes text up to the first stop text, and holds back a possible beginning of one.

    Example:
        >>> stops = Stops(["END"])
        >>> [stops.feed("one E"), stops.feed("ND two"), stops.found]
        ['one ', '', True]
    """

    def __init__(self, texts: list[str]) -> None:
        self._texts, self._held = texts, ""
        self.found = False
        """True if a stop text was found."""

    @classmethod
    def of(cls, body: Body) -> list[str]:
        """The member `stop` of a request.

        Raises:
            Refused: neither text nor a short list of texts.
        """
        if isinstance(stop := body.get("stop", object, []), str):
            stop = [stop]
        if not isinstance(stop, list) or not all(isinstance(one, str) for one in stop) or len(stop) > MOST:
            raise Refused(f"'stop' must be a string or a list of {MOST} strings at most", "stop")
        return [one for one in stop if one]

    def feed(self, chunk: str) -> str:
        """Adds a chunk. Returns the text that can be passed on."""
        if not self._texts:
            return chunk
        text = self._held + chunk
        # The stop text that is complete first counts, so that the result does not depend on the chunks.
        ends = [(at + len(stop), at) for stop in self._texts if (at := text.find(stop)) >= 0]
        if ends:
            self.found, self._held = True, ""
            return text[: min(ends)[1]]
        keep = max(_overlap(text, stop) for stop in self._texts)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def rest(self) -> str:
        """The text that was held back, at the end of the text."""
        held, self._held = self._held, ""
        return held


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of the text that is a beginning of `stop`."""
    for length in range(min(len(stop) - 1, len(text)), 0, -1):
        if text.endswith(stop[:length]):
            return length
    return 0
