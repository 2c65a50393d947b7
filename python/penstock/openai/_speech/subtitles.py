"""Segments as subtitles: SubRip and WebVTT."""

from __future__ import annotations

from typing import Any

__all__ = ["srt", "vtt"]


def srt(segments: list[dict[str, Any]]) -> str:
    """The segments in SubRip."""
    cues = [
        f"{index}\n{_time(one['start'], ',')} --> {_time(one['end'], ',')}\n{_lines(one['text'])}\n"
        for index, one in enumerate(segments, 1)
    ]
    return "\n".join(cues)


def vtt(segments: list[dict[str, Any]]) -> str:
    """The segments in WebVTT."""
    cues = [f"{_time(one['start'], '.')} --> {_time(one['end'], '.')}\n{_lines(one['text'])}\n" for one in segments]
    return "\n".join(["WEBVTT\n", *cues])


def _time(seconds: float, point: str) -> str:
    milliseconds = round(max(0.0, seconds) * 1000)
    minutes, rest = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{rest // 1000:02}{point}{rest % 1000:03}"


def _lines(text: str) -> str:
    """The text of a cue: an empty line or an arrow would end it."""
    lines = [line.strip() for line in text.splitlines()]
    return "\n".join(line for line in lines if line).replace("-->", "->")
