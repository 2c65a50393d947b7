"""Lines of an input file, and their checks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from penstock.openai._batches.jobs import Line

__all__ = ["check_lines"]

MOST_ERRORS = 100
"""Limit of errors of a batch."""
MOST_ID = 512
"""Limit of the length of a line's name."""


def check_lines(chunks: Iterable[bytes], endpoint: str, most: int) -> tuple[list[Line], list[dict[str, Any]]]:
    """The lines of a file, and the errors in it, of which there are at most 100.

    Args:
        chunks: The content of the file.
        endpoint: The expected `url` of each line.
        most: Limit of lines.
    """
    lines: list[Line] = []
    errors: list[dict[str, Any]] = []
    known: set[str] = set()
    for number, text in enumerate(_split(chunks), 1):
        if not text.strip():
            continue
        if len(lines) == most:
            errors.append(_error("too_many_lines", f"The file has more than {most} requests", None, number))
            break
        checked = _check(text, endpoint, known, number)
        if isinstance(checked, dict):
            errors.append(checked)
            if len(errors) == MOST_ERRORS:
                break
        else:
            known.add(checked.custom_id)
            lines.append(checked)
    if not lines and not errors:
        errors.append(_error("empty_file", "The file has no requests", None, None))
    return lines, errors


def _split(chunks: Iterable[bytes]) -> Iterator[bytes]:
    begun = bytearray()
    for chunk in chunks:
        first, *others = chunk.split(b"\n")
        begun += first
        for one in others:
            yield bytes(begun)
            begun = bytearray(one)
    yield bytes(begun)


def _check(text: bytes, endpoint: str, known: set[str], number: int) -> Line | dict[str, Any]:
    try:
        line = json.loads(text)
    except (ValueError, RecursionError) as error:
        return _error("invalid_json_line", f"The line is not JSON: {error}", None, number)
    if not isinstance(line, dict):
        return _error("invalid_json_line", "The line must be a JSON object", None, number)
    custom_id, body = line.get("custom_id"), line.get("body")
    if not isinstance(custom_id, str) or not 0 < len(custom_id) <= MOST_ID or not _is_unicode(custom_id):
        message = f"'custom_id' must be a text of 1 to {MOST_ID} characters"
        return _error("invalid_custom_id", message, "custom_id", number)
    if custom_id in known:
        return _error("duplicate_custom_id", f"'custom_id' {custom_id!r} is in the file twice", "custom_id", number)
    if line.get("method") != "POST":
        return _error("invalid_method", "'method' must be 'POST'", "method", number)
    if line.get("url") != endpoint:
        return _error("mismatched_url", f"'url' must be the endpoint of the batch, {endpoint!r}", "url", number)
    if not isinstance(body, dict):
        return _error("invalid_body", "'body' must be a JSON object", "body", number)
    return Line(number, custom_id, json.dumps(body, separators=(",", ":")).encode())


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def _error(code: str, message: str, param: str | None, line: int | None) -> dict[str, Any]:
    return {"code": code, "message": message, "param": param, "line": line}
