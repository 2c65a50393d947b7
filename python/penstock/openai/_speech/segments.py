"""Output of speech models: pieces of text, or segments with their times."""

from __future__ import annotations

import codecs
import math
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from penstock._spec.tensor import Tensor
from penstock.errors import HandlerError
from penstock.openai._tensors import is_text, outputs_of, pick

if TYPE_CHECKING:
    from penstock._model.model import Model
    from penstock._runtime.peers import Peer

__all__ = ["Heard", "Outputs", "Piece", "joined"]

START, END, LANGUAGE, DURATION = "start", "end", "language", "duration"
"""Names of the outputs besides the text."""
FIGURES = ("avg_logprob", "compression_ratio", "no_speech_prob", "seek", "temperature")
"""Names of further outputs of segments, each a number."""


class Piece(NamedTuple):
    """Piece of a text.

    Attributes:
        text: The text.
        segment: Its times and figures; None if the model gives text only.
    """

    text: str
    segment: dict[str, Any] | None = None


class Heard:
    """Properties of a whole recording, as the model gives them."""

    def __init__(self) -> None:
        self.language: str | None = None
        self.duration: float | None = None


class Outputs:
    """The outputs of a speech model.

    Args:
        model: The model.
        output: Name of the text output; required if several outputs fit.
        what: Begin of messages.

    Raises:
        SignatureError: the model has no such output.
    """

    def __init__(self, model: Model[..., Any], output: str | None, what: str) -> None:
        texts = [one for one in model.outputs if one.name != LANGUAGE]
        self._text = pick(texts, output, is_text, f"{what}: its output")
        self._names = {one.name: one for one in model.outputs}
        self._model = model
        self.has_segments = all(_is_number(self._names.get(name)) for name in (START, END))
        self._figures = [name for name in FIGURES if _is_number(self._names.get(name))]

    async def pieces(self, peer: Peer, inputs: dict[str, Any], heard: Heard) -> AsyncGenerator[list[Piece], None]:
        """The pieces of each chunk of the model, never empty.

        Args:
            peer: The model.
            inputs: Its inputs by name.
            heard: Takes the language and the duration.
        """
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        async with aclosing(peer.stream(inputs)) as chunks:
            async for chunk in chunks:
                outputs = outputs_of(self._model, chunk)
                self._hear(outputs, heard)
                texts = outputs.get(self._text.name)
                elements = [] if texts is None else np.asarray(texts, object).reshape(-1).tolist()
                if self.has_segments:
                    found = self._segments([_whole(one) for one in elements], outputs)
                else:
                    # Characters may be cut between chunks.
                    joined = "".join(one if isinstance(one, str) else decoder.decode(one) for one in elements)
                    found = [Piece(joined)] if joined else []
                if found:
                    yield found
        if not self.has_segments and (rest := decoder.decode(b"", final=True)):
            yield [Piece(rest)]

    def _segments(self, texts: list[str], outputs: Any) -> list[Piece]:
        columns = {}
        for name in (START, END, *self._figures):
            if (given := outputs.get(name)) is None:
                continue
            numbers = np.asarray(given).reshape(-1).tolist()
            if len(numbers) != len(texts):
                raise HandlerError(
                    f"model {self._model.name!r} gave {len(numbers)} values of {name!r} for {len(texts)} segments"
                )
            if not all(map(math.isfinite, numbers)):
                raise HandlerError(f"model {self._model.name!r} gave NaN or infinity for {name!r}")
            columns[name] = numbers
        if texts and not {START, END} <= columns.keys():
            raise HandlerError(f"model {self._model.name!r} gave a segment without {START!r} and {END!r}")
        return [
            Piece(text, {name: numbers[index] for name, numbers in columns.items()}) for index, text in enumerate(texts)
        ]

    def _hear(self, outputs: Any, heard: Heard) -> None:
        language, duration = _first(outputs.get(LANGUAGE)), _first(outputs.get(DURATION))
        if isinstance(language, bytes | str):
            heard.language = _whole(language)
        if isinstance(duration, int | float) and math.isfinite(duration):
            heard.duration = float(duration)


def _first(given: Any) -> Any:
    values: list[Any] = [] if given is None else np.asarray(given).reshape(-1).tolist()
    return values[0] if values else None


def _whole(text: bytes | str) -> str:
    return text if isinstance(text, str) else text.decode(errors="replace")


def _is_number(tensor: Tensor | None) -> bool:
    return tensor is not None and tensor.dtype is not None and tensor.dtype.kind in "fiu"


def joined(pieces: list[Piece]) -> str:
    """The text of pieces. Segments begin with a blank, which the first of them loses."""
    text = "".join(one.text for one in pieces)
    return text.lstrip() if pieces and pieces[0].segment is not None else text
