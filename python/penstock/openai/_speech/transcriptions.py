"""`Transcriptions` and `Translations`: models that write down recordings."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

import penstock
from penstock.errors import SignatureError
from penstock.openai._body import Body
from penstock.openai._errors import Refused
from penstock.openai._events import Document, End, Part, event
from penstock.openai._form import Form
from penstock.openai._served import Endpoint, Served
from penstock.openai._speech.segments import Heard, Outputs, Piece, joined
from penstock.openai._speech.subtitles import srt, vtt
from penstock.openai._tensors import as_model, is_text, pick

if TYPE_CHECKING:
    from penstock._core import Context, Request, Response

__all__ = ["Transcriptions", "Translations"]

KINDS: dict[str, type] = {"stream": bool, "temperature": float}
"""Types of the fields that are not text."""
KNOWN = frozenset(
    {"file", "model", "response_format", "stream", "timestamp_granularities", "include", "chunking_strategy"}
)
"""Fields that are not parameters of the model."""
DONE = b"data: [DONE]\n\n"
"""The last event of a stream."""
OF_TEXT, OF_SEGMENTS = ("json", "text"), ("srt", "verbose_json", "vtt")
"""Formats of responses, for each model, and for those that give segments."""


def _read(request: Request) -> Body:
    return Form(request, KINDS)


class Transcriptions(Served):
    """Serves a model at `/v1/audio/transcriptions`.

    The model's input is the file in bytes. Its output is text, at once or in chunks, or segments: the outputs `start`
    and `end` in seconds besides the text, each one number or a list. Optional outputs are `language`, `duration`, and
    the segments' `avg_logprob`, `compression_ratio`, `no_speech_prob`, `seek` and `temperature`. The fields `language`,
    `prompt` and `temperature` are in `ctx.parameters`, and `task`.

    Args:
        model: The model. The server needs it too.
        name: The `model` in requests; default: the model's name.
        input: Name of the input for the file; required if several inputs fit.
        output: Name of the text output; required if several outputs fit.

    Raises:
        SignatureError: the model has no such input or output.

    Example:
        >>> @model
        ... def whisper(audio: bytes, ctx: Context) -> Iterator[str]:
        ...     yield from transcribe(audio, language=ctx.parameters.get("language"))
        >>> serve(whisper, openai.routes(openai.Transcriptions(whisper, name="whisper-1")))
    """

    example: ClassVar[dict[str, Any]] = {}
    path: ClassVar[str] = "audio/transcriptions"
    task: ClassVar[str] = "transcribe"

    def __init__(
        self,
        model: Any,
        *,
        name: str | None = None,
        input: str | None = None,  # noqa: A002 - the API's name
        output: str | None = None,
    ) -> None:
        kind = type(self).__name__
        self.model = as_model(model, kind)
        self.name = self.model.name if name is None else name
        what = f"{kind}({self.model.name!r})"
        if self.model.batching is not None:
            raise SignatureError(f"{what}: the model must not have batching=: recordings are of different lengths")
        files = [one for one in self.model.inputs if not one.text]
        self._audio = pick(files, input, lambda one: is_text(one) and len(one.shape) <= 1, f"{what}: its input")
        for other in self.model.inputs:
            if not other.optional and other.name != self._audio.name:
                raise SignatureError(f"{what}: input {other.name!r} is needed too; make it optional=True")
        self._outputs = Outputs(self.model, output, what)

    def endpoints(self) -> dict[str, Endpoint]:
        """The endpoints by path."""
        return {self.path: Endpoint(self.answer, read=_read)}

    async def answer(self, body: Body, ctx: Context) -> Document | AsyncGenerator[Part, None] | Response:
        """Returns the response: a document, a text, or an iterator over the parts of a stream."""
        assert isinstance(body, Form)
        content = body.file("file").content
        wanted = self._format(body)
        body.refuse({"include": (), "chunking_strategy": ("auto",)})
        heard = Heard()
        parameters = {**body.rest(KNOWN), "task": self.task}
        peer = ctx.models[self.model.name, self.model.version].with_parameters(**parameters)
        audio: np.ndarray[Any, Any] = np.empty(1, object)
        audio[0] = content
        pieces = self._outputs.pieces(peer, {self._audio.name: audio.reshape([1] * len(self._audio.shape))}, heard)
        if body.get("stream", bool, False):
            return self._events(pieces)
        found: list[Piece] = []
        async with aclosing(pieces):
            async for some in pieces:
                found += some
        language = heard.language or body.get("language", str, "")
        return self._response(found, wanted, language, heard.duration)

    def _format(self, body: Form) -> str:
        wanted = body.get("response_format", str, "json")
        if wanted not in OF_TEXT + OF_SEGMENTS:
            expected = ", ".join(OF_TEXT + OF_SEGMENTS)
            raise Refused(f"'response_format' must be one of {expected}, not {wanted[:100]!r}", "response_format")
        if wanted in OF_SEGMENTS and not self._outputs.has_segments:
            raise Refused(
                f"'response_format' {wanted!r} needs segments, which model {self.name!r} does not give: "
                f"expected one of {', '.join(OF_TEXT)}",
                "response_format",
            )
        if wanted != "json" and body.get("stream", bool, False):
            raise Refused(f"'stream' needs the 'response_format' 'json', not {wanted!r}", "stream")
        granularities = body.get("timestamp_granularities", list, [])
        if granularities and (granularities != ["segment"] or wanted != "verbose_json"):
            raise Refused(
                "'timestamp_granularities' must be 'segment', with the 'response_format' 'verbose_json'",
                "timestamp_granularities",
            )
        return wanted

    def _response(self, pieces: list[Piece], wanted: str, language: str, duration: float | None) -> Document | Response:
        text = joined(pieces)
        if wanted == "json":
            return {"text": text}
        if wanted == "text":
            return penstock.Response(text + "\n")
        segments = [{"id": index, **(one.segment or {}), "text": one.text} for index, one in enumerate(pieces)]
        if wanted == "srt":
            return penstock.Response(srt(segments), content_type="application/x-subrip; charset=utf-8")
        if wanted == "vtt":
            return penstock.Response(vtt(segments), content_type="text/vtt; charset=utf-8")
        seconds = max((float(one["end"]) for one in segments), default=0.0) if duration is None else duration
        return {
            "task": self.task,
            "language": language,
            "duration": seconds,
            "text": text,
            "segments": segments,
            "usage": {"type": "duration", "seconds": seconds},
        }

    async def _events(self, pieces: AsyncGenerator[list[Piece], None]) -> AsyncGenerator[Part, None]:
        found: list[Piece] = []
        async with aclosing(pieces):
            async for some in pieces:
                delta = joined(some) if not found else "".join(one.text for one in some)
                found += some
                yield event({"type": "transcript.text.delta", "delta": delta})
        yield End(event({"type": "transcript.text.done", "text": joined(found)}) + DONE)


class Translations(Transcriptions):
    """Serves a model at `/v1/audio/translations`: recordings in any language, text in English.

    As `Transcriptions`, with the parameter `task` of "translate" in place of "transcribe". One model may serve both.

    Example:
        >>> serve(whisper, openai.routes(openai.Transcriptions(whisper), openai.Translations(whisper)))
    """

    path = "audio/translations"
    task = "translate"
