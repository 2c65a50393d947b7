"""Reader and writer of Triton's `config.pbtxt`: the part of protobuf's text format that model configurations use.

Written by hand: `google.protobuf.text_format` would add a dependency, and a private descriptor of all these fields is
no shorter than this module.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from penstock.compat.pytriton.exceptions import PyTritonModelConfigError

__all__ = ["read", "write"]

# Field order: by protobuf's field numbers.
_POLICY = ("timeout_action", "default_timeout_microseconds", "allow_timeout_override", "max_queue_size")
_TENSOR = ("name", "data_type", "dims", "optional")
_FIELDS: dict[str, tuple[str, ...]] = {
    "": (
        *("name", "platform", "max_batch_size", "input", "output", "instance_group", "dynamic_batching"),
        *("parameters", "model_warmup", "backend", "model_transaction_policy", "response_cache"),
    ),
    "input": _TENSOR,
    "output": _TENSOR,
    "instance_group": ("count", "kind"),
    "dynamic_batching": (
        *("preferred_batch_size", "max_queue_delay_microseconds", "preserve_ordering", "priority_levels"),
        *("default_priority_level", "default_queue_policy", "priority_queue_policy"),
    ),
    "default_queue_policy": _POLICY,
    "priority_queue_policy": _POLICY,
    "parameters": ("string_value",),
    "model_warmup": ("name", "batch_size", "inputs", "count"),
    "inputs": ("data_type", "dims", "zero_data", "random_data", "input_data_file"),
    "model_transaction_policy": ("decoupled",),
    "response_cache": ("enable",),
}
_MAPS = ("parameters", "priority_queue_policy", "inputs")
_REPEATED = ("input", "output", "instance_group", "dims", "preferred_batch_size", "model_warmup")
_ENUMS = ("data_type", "kind", "timeout_action")
_UNSET = ("REJECT", "KIND_AUTO", "TYPE_INVALID")
"""Default values, which are not written."""

_TOKEN = re.compile(r"""\s*(?:\#[^\n]*\s*)*("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|[\w.+-]+|[{}<>\[\]:;,])""")
_END = re.compile(r"\s*(?:\#[^\n]*\s*)*\Z")
_ESCAPE = re.compile(rb"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{1,2})|(.))", re.DOTALL)
_ESCAPED_LETTERS = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}


def write(config: Mapping[str, Any]) -> str:
    """Formats a configuration with the protocol's names."""
    return "".join(f"{line}\n" for line in _lines("", config))


def read(text: str) -> dict[str, Any]:
    """Parses a configuration. Unset fields are missing in the result.

    Raises:
        PyTritonModelConfigError: the syntax is invalid.
    """
    tokens = _Tokens(text)
    return _message(tokens, None)


def _lines(field: str, message: Mapping[str, Any]) -> Iterator[str]:
    for name in sorted(message, key=lambda name: _field_index(field, name)):
        value = message[name]
        if name in _MAPS:
            for key in sorted(value):
                inner = [
                    f"key: {_quote(str(key)) if isinstance(key, str) else key}",
                    *_nested("value", name, value[key]),
                ]
                yield from _block(name, inner)
        elif isinstance(value, (list, tuple)):
            for item in value:
                yield from (
                    _nested(name, name, item) if isinstance(item, Mapping) else [f"{name}: {_scalar(name, item)}"]
                )
        elif isinstance(value, Mapping):
            yield from _nested(name, name, value)
        elif value and value not in _UNSET:
            yield f"{name}: {_scalar(name, value)}"


def _field_index(field: str, name: str) -> int:
    known = _FIELDS.get(field, ())
    return known.index(name) if name in known else len(known)


def _nested(name: str, field: str, message: Mapping[str, Any]) -> Iterator[str]:
    return _block(name, _lines(field, message))


def _block(name: str, inner: Any) -> Iterator[str]:
    yield f"{name} {{"
    yield from (f"  {line}" for line in inner)
    yield "}"


def _scalar(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if name in _ENUMS or not isinstance(value, str) else _quote(value)


def _quote(value: str) -> str:
    named = {ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t", ord('"'): '\\"', ord("'"): "\\'", ord("\\"): "\\\\"}
    encoded = (named.get(byte, chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}") for byte in value.encode())
    return '"' + "".join(encoded) + '"'


class _Tokens:
    """Tokens of a text, in sequence."""

    def __init__(self, text: str) -> None:
        self._quote, self._position = text, 0

    def peek(self) -> str | None:
        found = _TOKEN.match(self._quote, self._position)
        if found is not None:
            return found[1]
        if _END.match(self._quote, self._position):
            return None
        line = self._quote.count("\n", 0, self._position) + 1
        raise PyTritonModelConfigError(f"The config cannot be read from line {line} on.")

    def take(self, expected: str | None = None) -> str:
        token = self.peek()
        if token is None or (expected is not None and token != expected):
            line = self._quote.count("\n", 0, self._position) + 1
            wanted = "more" if expected is None else repr(expected)
            raise PyTritonModelConfigError(f"The config has {token!r} after line {line}, expected {wanted}.")
        found = _TOKEN.match(self._quote, self._position)
        assert found is not None
        self._position = found.end()
        return token

    def skip(self, *tokens: str) -> bool:
        if self.peek() in tokens:
            self.take()
            return True
        return False


def _message(tokens: _Tokens, end: str | None) -> dict[str, Any]:
    """Parses the fields up to the token `end`."""
    message: dict[str, Any] = {}
    while tokens.peek() != end:
        name = tokens.take()
        for value in _values(tokens):
            _put(message, name, value)
        tokens.skip(",", ";")
    return message


def _put(message: dict[str, Any], name: str, value: Any) -> None:
    if name in _MAPS and isinstance(value, dict):
        message.setdefault(name, {})[value.get("key", "")] = value.get("value", {})
    elif name in _REPEATED:
        message.setdefault(name, []).append(value)
    else:
        message[name] = value


def _values(tokens: _Tokens) -> Iterator[Any]:
    tokens.skip(":")
    if tokens.skip("["):
        while not tokens.skip("]"):
            yield _value(tokens)
            tokens.skip(",")
    else:
        yield _value(tokens)


def _value(tokens: _Tokens) -> Any:
    word = tokens.take()
    if word in ("{", "<"):
        end = "}" if word == "{" else ">"
        message = _message(tokens, end)
        tokens.take(end)
        return message
    if word[0] in "\"'":
        text = _unquote(word)
        # Adjacent strings are concatenated.
        while (following := tokens.peek()) is not None and following[0] in "\"'":
            text += _unquote(tokens.take())
        return text.decode()
    if word in ("true", "false"):
        return word == "true"
    try:
        return int(word, 0)
    except ValueError:
        return word


def _unquote(token: str) -> bytes:
    def decode(found: re.Match[bytes]) -> bytes:
        octal, hexadecimal, letter = found.groups()
        if letter is not None:
            return _ESCAPED_LETTERS.get(letter, letter)
        return bytes([int(octal, 8) & 255 if octal else int(hexadecimal, 16)])

    return _ESCAPE.sub(decode, token[1:-1].encode())
