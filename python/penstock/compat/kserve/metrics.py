"""KServe's histograms, recorded by the server with its own metrics.

Values observed during a request appear at `/metrics` under the histogram's name, with the additional labels `model`
and `version`. Values observed elsewhere are dropped.
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
    """Records observed values: `Context.metrics` of a handler."""

    def observe(self, name: str, /, value: float | Sequence[float], **labels: str | float) -> None:
        """Adds one or several values to a histogram."""


_RECORDER: ContextVar[MetricRecorder | None] = ContextVar("penstock_kserve_metrics", default=None)


@contextmanager
def recording(recorder: MetricRecorder | None) -> Iterator[None]:
    """Records values that are observed in the block in a handler's metrics."""
    before = _RECORDER.set(recorder)
    try:
        yield
    finally:
        _RECORDER.reset(before)


class Histogram:
    """A histogram with labels, with the interface of prometheus_client's.

    Args:
        name: The name at `/metrics`.
        documentation: The description.
        labelnames: The names of the labels.
    """

    def __init__(self, name: str, documentation: str, labelnames: Sequence[str] = ()) -> None:
        self.name = name
        self.documentation = documentation
        self._labels = tuple(labelnames)

    def labels(self, *values: Any, **named: Any) -> Labelled:
        """Returns the child with these labels, given in order or by name.

        Raises:
            ValueError: the labels differ from the histogram's.
        """
        if values and not named and len(values) == len(self._labels):
            named = dict(zip(self._labels, values, strict=True))
        elif values or set(named) != set(self._labels):
            raise ValueError(f"the labels of {self.name} are {', '.join(self._labels) or 'none'}")
        return Labelled(self.name, {label: str(value) for label, value in named.items()})


class Labelled:
    """A child of a histogram, with certain labels."""

    __slots__ = ("_labels", "_name")

    def __init__(self, name: str, labels: dict[str, str]) -> None:
        self._name, self._labels = name, labels

    def observe(self, amount: float) -> None:
        """Observes a value in seconds."""
        recorder = _RECORDER.get()
        if recorder is not None:
            recorder.observe(self._name, amount, **self._labels)

    def time(self) -> Timer:
        """Observes the duration of a `with` block, or of each call of a decorated function."""
        return Timer(self)


class Timer:
    """Observes a duration at the end of a block, also on an exception."""

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
        """Returns a function whose calls are timed."""

        @functools.wraps(function)
        def timed(*arguments: Any, **named: Any) -> Any:
            with Timer(self._part):
                return function(*arguments, **named)

        return timed  # type: ignore[return-value] # it takes and gives the same


@dataclass
class LLMStats:
    """Token counts of one call."""

    num_prompt_tokens: int = 0
    num_generation_tokens: int = 0


PROM_LABELS = ["model_name"]
PRE_HIST_TIME = Histogram("request_preprocess_seconds", "pre-process request latency", PROM_LABELS)
POST_HIST_TIME = Histogram("request_postprocess_seconds", "post-process request latency", PROM_LABELS)
PREDICT_HIST_TIME = Histogram("request_predict_seconds", "predict request latency", PROM_LABELS)
EXPLAIN_HIST_TIME = Histogram("request_explain_seconds", "explain request latency", PROM_LABELS)


def get_labels(model_name: str) -> dict[str, str]:
    """Returns the labels of a model's histograms."""
    return {PROM_LABELS[0]: model_name}
