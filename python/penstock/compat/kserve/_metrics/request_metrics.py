"""What is told of requests: how long their stages took, in the metrics and in the log."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.compat.kserve._metrics import latency_log

if TYPE_CHECKING:
    from penstock.compat.kserve._model.stages import Times
    from penstock.compat.kserve.metrics import Keeper
    from penstock.compat.kserve.model import Model

__all__ = ["BUCKETS", "Noted", "Reports"]

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
_HISTOGRAMS = {
    "preprocess": "request_preprocess_seconds",
    "explain": "request_explain_seconds",
    "predict": "request_predict_seconds",
    "postprocess": "request_postprocess_seconds",
}
BUCKETS = dict.fromkeys(_HISTOGRAMS.values(), _SECONDS)
"""The bounds of the histograms of a served model, by name."""


class Noted:
    """The times of some requests, in seconds, and their lines in the log."""

    __slots__ = ("explain", "lines", "logs", "postprocess", "predict", "preprocess")

    def __init__(self, *, logs: bool) -> None:
        self.logs = logs
        self.preprocess: list[float] = []
        self.explain: list[float] = []
        self.predict: list[float] = []
        self.postprocess: list[float] = []
        self.lines: list[str] = []

    def add(self, times: Times) -> None:
        """Takes the times of one more request."""
        self.preprocess.append(times.preprocess or 0.0)
        self.postprocess.append(times.postprocess or 0.0)
        if times.predict is not None:
            self.predict.append(times.predict)
        if times.explain is not None:
            self.explain.append(times.explain)

    def answered(self, times: Times, headers: Mapping[str, str] | None) -> None:
        """Takes the line of a request that its model has answered."""
        if self.logs:
            self.lines.append(latency_log.line_of(times, headers))


class Reports:
    """Tells of the requests of one model.

    Args:
        model: The model.
        latency: Whether the log is told too; as the model says where it is None.
    """

    def __init__(self, model: Model, latency: bool | None = None) -> None:
        self._name = model.name
        self._latency = getattr(model, "enable_latency_logging", False) is True if latency is None else latency
        # Each event loop has its own.
        self._waiting = threading.local()

    def noted(self) -> Noted:
        """Where the times of requests go that are told of together."""
        return Noted(logs=self._latency and latency_log.is_wanted())

    def tell(self, noted: Noted, kept: Keeper | None = None) -> None:
        """Adds to the log and the histograms: the server's, or where none runs those of this process."""
        if noted.lines:
            latency_log.write(noted.lines)
        if kept is None:
            self._tell_metrics(noted)
            return
        for stage, name in _HISTOGRAMS.items():
            seconds = getattr(noted, stage)
            if seconds:
                kept.observe(name, seconds, model_name=self._name)

    def soon(self, kept: Keeper) -> Noted:
        """Where the times of a request go that is answered on the running loop; it tells of them in its next turn."""
        waiting: Noted | None = getattr(self._waiting, "noted", None)
        if waiting is None:
            waiting = self._waiting.noted = self.noted()
            asyncio.get_running_loop().call_soon(self._tell_all, kept)
        return waiting

    def _tell_all(self, kept: Keeper) -> None:
        noted, self._waiting.noted = self._waiting.noted, None
        self.tell(noted, kept)

    def _tell_metrics(self, noted: Noted) -> None:
        from penstock.compat.kserve import metrics

        labels = metrics.get_labels(self._name)
        for histogram, seconds in (
            (metrics.PRE_HIST_TIME, noted.preprocess),
            (metrics.POST_HIST_TIME, noted.postprocess),
            (metrics.PREDICT_HIST_TIME, noted.predict),
            (metrics.EXPLAIN_HIST_TIME, noted.explain),
        ):
            part = histogram.labels(**labels)
            for one in seconds:
                part.observe(one)
