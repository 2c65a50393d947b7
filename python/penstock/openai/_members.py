"""Members of requests for generated text: types, bounds, and those that a model must accept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from penstock.openai._body import Body
from penstock.openai._errors import Refused
from penstock.openai._tools import check_choice, check_response_format, check_tools

__all__ = [
    "DECLARED",
    "HANDLED",
    "PARTS",
    "StreamOptions",
    "answers",
    "members",
    "parameters",
    "stops",
    "stream_options",
]

MOST_ANSWERS = 128
MOST_STOPS = 16
PARTS = frozenset({"image_url", "input_audio", "video_url", "file"})
"""Types of content parts, besides text, that a model may accept."""
DECLARED = frozenset(
    {
        "audio",
        "chat_template_kwargs",
        "documents",
        "function_call",
        "functions",
        "logit_bias",
        "logprobs",
        "modalities",
        "parallel_tool_calls",
        "prediction",
        "reasoning_effort",
        "response_format",
        "suffix",
        "tool_choice",
        "tools",
        "top_logprobs",
        "verbosity",
        "web_search_options",
    }
)
"""Members that change what an answer is, so that a model must accept them."""
HANDLED = frozenset(
    {"best_of", "echo", "messages", "metadata", "model", "n", "prompt", "stop", "store", "stream", "stream_options"}
)
"""Members that the routes themselves read."""
_NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "function_call": ("none", "auto"),
    "logprobs": (False,),
    "modalities": (["text"],),
    "parallel_tool_calls": (True,),
    "response_format": ({"type": "text"},),
    "suffix": ("",),
    "tool_choice": ("none", "auto"),
    "top_logprobs": (0,),
}
"""Values that ask for nothing, besides null and what is empty."""
_LEAST: Mapping[str, float] = {
    "temperature": 0,
    "top_p": 0,
    "min_p": 0,
    "max_tokens": 1,
    "max_completion_tokens": 1,
    "min_tokens": 0,
    "frequency_penalty": -2,
    "presence_penalty": -2,
}
_MOST: Mapping[str, float] = {"top_p": 1, "min_p": 1, "frequency_penalty": 2, "presence_penalty": 2}
_WHOLE = frozenset({"max_tokens", "max_completion_tokens", "min_tokens", "seed", "top_k"})


class StreamOptions(NamedTuple):
    """Options of a stream: `stream` and `stream_options`."""

    stream: bool = False
    include_usage: bool = False
    continuous_usage: bool = False


def stream_options(body: Body) -> StreamOptions:
    """The members `stream` and `stream_options`.

    Raises:
        Refused: options without a stream, or an option of another type.
    """
    stream = body.get("stream", bool, False)
    options = body.get("stream_options", dict, {})
    if options and not stream:
        raise Refused("'stream_options' needs 'stream': true", "stream_options")
    found = Body.of(options, "stream_options")
    continuous = found.get("continuous_usage_stats", bool, False)
    return StreamOptions(stream, found.get("include_usage", bool, False), continuous)


def stops(body: Body, name: str = "stop") -> list[str]:
    """The stop texts of a request: a text or a short list of texts."""
    if isinstance(stop := body.get(name, object, []), str):
        stop = [stop]
    if not isinstance(stop, list) or not all(isinstance(one, str) for one in stop) or len(stop) > MOST_STOPS:
        raise Refused(f"'{name}' must be a string or a list of {MOST_STOPS} strings at most", name)
    return [one for one in stop if one]


def answers(body: Body) -> int:
    """The member `n`: answers to each prompt."""
    count = body.get("n", int, 1)
    if not 1 <= count <= MOST_ANSWERS:
        raise Refused(f"'n' is {count}, expected 1 to {MOST_ANSWERS}", "n")
    best = body.get("best_of", int, count)
    if best != count:
        raise Refused("'best_of' other than 'n' is not supported here", "best_of")
    return count


def members(body: Body, accepted: frozenset[str]) -> dict[str, Any]:
    """The members that a model accepts by declaration, checked.

    Args:
        body: The request.
        accepted: Names of members that the model accepts.

    Raises:
        Refused: a member that the model does not accept, or one that is malformed.
    """
    body.refuse({name: _NEUTRAL.get(name, ()) for name in DECLARED - accepted})
    tools = body.get("tools", list, [])
    found = {name: value for name in accepted if (value := body.get(name, object, None)) is not None}
    for name, check in _CHECKS.items():
        if name in found:
            check(found[name])
    if (choice := body.get("tool_choice", object, None)) is not None:
        check_choice(choice, tools)
        if choice == "none" and "tool_choice" not in accepted:
            found.pop("tools", None)
    if body.get("parallel_tool_calls", bool, True) is False and not tools:
        raise Refused("'parallel_tool_calls' needs 'tools'", "parallel_tool_calls")
    top = body.get("top_logprobs", int, 0)
    if not 0 <= top <= 20:
        raise Refused(f"'top_logprobs' is {top}, expected 0 to 20", "top_logprobs")
    if top and body.get("logprobs", object, False) is False:
        raise Refused("'top_logprobs' needs 'logprobs': true", "top_logprobs")
    return found


def parameters(body: Body, known: frozenset[str]) -> dict[str, bool | int | float | str]:
    """The other members, which become parameters of the model: numbers, strings and booleans."""
    found = body.rest(known)
    for name, value in found.items():
        _check_number(name, value)
    if "max_completion_tokens" in found:
        found.setdefault("max_tokens", found["max_completion_tokens"])
    return found


def _check_number(name: str, value: Any) -> None:
    if name not in _LEAST and name not in _WHOLE:
        return
    kinds, expected = ((int,), "an integer") if name in _WHOLE else ((int, float), "a number")
    if isinstance(value, bool) or not isinstance(value, kinds):
        raise Refused(f"'{name}' must be {expected}", name)
    least, most = _LEAST.get(name), _MOST.get(name)
    if least is not None and not value >= least:
        raise Refused(f"'{name}' is {value}, expected {least} or more", name)
    if most is not None and value > most:
        raise Refused(f"'{name}' is {value}, expected {most} or less", name)


def _check_bias(value: Any) -> None:
    if not isinstance(value, dict):
        raise Refused("'logit_bias' must be an object of numbers by token id", "logit_bias")
    for token, bias in value.items():
        if not token.isdecimal() or isinstance(bias, bool) or not isinstance(bias, int | float) or abs(bias) > 100:
            where = f"logit_bias.{token}"
            raise Refused(f"'{where}' must be a number from -100 to 100, under a token id", where)


def _check_logprobs(value: Any) -> None:
    if not isinstance(value, int) or not 0 <= value <= 20:
        raise Refused("'logprobs' must be a boolean, for completions a number from 0 to 20", "logprobs")


_CHECKS: Mapping[str, Callable[[Any], None]] = {
    "tools": check_tools,
    "response_format": check_response_format,
    "logit_bias": _check_bias,
    "logprobs": _check_logprobs,
}
