"""KServe's histograms, kept by the server beside its own metrics.

What is observed while a model answers is shown at `/metrics` under the histogram's name, with the labels `model` and
`version` beside its own. Elsewhere there is nobody to keep it.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, TypeVar

__all__ = [
    "EXPLAIN_HIST_TIME",
    "POST_HIST_TIME",
    "PREDICT_HIST_TIME",
    "PRE_HIST_TIME",
    "PROM_LABELS",
    "Histogram",
    "LLMStats",
    "Labelled",
    "Timer",
    "get_labels",
    "recording",
]

AnyFunction = TypeVar("AnyFunction", bound=Callable[..., Any])


class MetricRecorder(Protocol):
    """Whoever keeps what is observed: `Context.metrics` of a handler."""

    def observe(self, name: str, /, value: float | Sequence[float], **labels: str | float) -> None:
        """Adds to a histogram a number, or several."""


_RECORDER: ContextVar[MetricRecorder | None] = ContextVar("penstock_kserve_metrics", default=None)


@contextmanager
def recording(keeper: MetricRecorder | None) -> Iterator[None]:
    """Has a handler's metrics keep what is observed inside."""
    before = _RECORDER.set(keeper)
    try:
        yield
    finally:
        _RECORDER.reset(before)


class Histogram:
    """A histogram with labels, of the same use as prometheus_client's.

    Args:
        name: Its name at `/metrics`.
        documentation: What it counts.
        labelnames: The names of its labels.
    """

    def __init__(self, name: str, documentation: str, labelnames: Sequence[str] = ()) -> None:
        self.name = name
        self.documentation = documentation
        self._labels = tuple(labelnames)

    def labels(self, *values: Any, **named: Any) -> Labelled:
        """The histogram's part with these labels, given in their order or by their names.

        Raises:
            ValueError: they are not the histogram's labels.
        """
        if values and not named and len(values) == len(self._labels):
            named = dict(zip(self._labels, values, strict=True))
        elif values or set(named) != set(self._labels):
            raise ValueError(f"the labels of {self.name} are {', '.join(self._labels) or 'none'}")
        return Labelled(self.name, {label: str(value) for label, value in named.items()})


class Labelled:
    """One of a histogram's parts: that of certain labels."""

    __slots__ = ("_labels", "_name")

    def __init__(self, name: str, labels: dict[str, str]) -> None:
        self._name, self._labels = name, labels

    def observe(self, amount: float) -> None:
        """Counts one value, in seconds."""
        keeper = _RECORDER.get()
        if keeper is not None:
            keeper.observe(self._name, amount, **self._labels)

    def time(self) -> Timer:
        """Counts how long a `with` block takes, or each call of a function that it decorates."""
        return Timer(self)


class Timer:
    """Counts a duration when its block is left, by an exception too."""

    __slots__ = ("_part", "_since")

    def __init__(self, part: Labelled) -> None:
        self._part = part
        self._since = 0.0

    def __enter__(self) -> Timer:
        self._since = time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._part.observe(max(0.0, time.perf_counter() - self._since))

    def __call__(self, function: AnyFunction) -> AnyFunction:
        """A function that counts how long each call takes."""

        @functools.wraps(function)
        def timed(*arguments: Any, **named: Any) -> Any:
            with Timer(self._part):
                return function(*arguments, **named)

        return timed  # type: ignore[return-value] # it takes and gives the same


@dataclass
class LLMStats:
    """The tokens of one call."""

    num_prompt_tokens: int = 0
    num_generation_tokens: int = 0


PROM_LABELS = ["model_name"]
PRE_HIST_TIME = Histogram("request_preprocess_seconds", "pre-process request latency", PROM_LABELS)
POST_HIST_TIME = Histogram("request_postprocess_seconds", "post-process request latency", PROM_LABELS)
PREDICT_HIST_TIME = Histogram("request_predict_seconds", "predict request latency", PROM_LABELS)
EXPLAIN_HIST_TIME = Histogram("request_explain_seconds", "explain request latency", PROM_LABELS)


def get_labels(model_name: str) -> dict[str, str]:
    """The labels of a model's parts of the histograms."""
    return {PROM_LABELS[0]: model_name}
