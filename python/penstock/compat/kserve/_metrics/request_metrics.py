"""Metrics of requests: durations of their stages, in the histograms and in the latency log."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.compat.kserve._metrics import latency_log

if TYPE_CHECKING:
    from penstock.compat.kserve._metrics.stage_times import StageTimes
    from penstock.compat.kserve._model.base import BaseKServeModel
    from penstock.compat.kserve.metrics import MetricRecorder

__all__ = ["BUCKETS", "RequestMetrics", "RequestTimes"]

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
_HISTOGRAMS = {
    "preprocess": "request_preprocess_seconds",
    "explain": "request_explain_seconds",
    "predict": "request_predict_seconds",
    "postprocess": "request_postprocess_seconds",
}
BUCKETS = dict.fromkeys(_HISTOGRAMS.values(), _SECONDS)
"""Upper bounds of a served model's histograms in seconds, by name."""


class RequestTimes:
    """Stage durations of some requests in seconds, and their lines for the latency log."""

    __slots__ = ("explain", "lines", "logs", "postprocess", "predict", "preprocess")

    def __init__(self, *, logs: bool) -> None:
        self.logs = logs
        self.preprocess: list[float] = []
        self.explain: list[float] = []
        self.predict: list[float] = []
        self.postprocess: list[float] = []
        self.lines: list[str] = []

    def add(self, times: StageTimes) -> None:
        """Adds the durations of a request."""
        self.preprocess.append(times.preprocess or 0.0)
        self.postprocess.append(times.postprocess or 0.0)
        if times.predict is not None:
            self.predict.append(times.predict)
        if times.explain is not None:
            self.explain.append(times.explain)

    def add_line(self, times: StageTimes, headers: Mapping[str, str] | None) -> None:
        """Adds the log line of a request that its model has completed."""
        if self.logs:
            self.lines.append(latency_log.format_line(times, headers))


class RequestMetrics:
    """Records the requests of one model.

    Args:
        model: The model.
        latency: Whether to write the latency log; None for the model's own setting.
    """

    def __init__(self, model: BaseKServeModel, latency: bool | None = None) -> None:
        self._name = model.name
        self._latency = getattr(model, "enable_latency_logging", False) is True if latency is None else latency
        # One per event loop, and so per thread.
        self._pending = threading.local()

    def new_times(self) -> RequestTimes:
        """Returns an empty record for requests that are recorded together."""
        return RequestTimes(logs=self._latency and latency_log.is_enabled())

    def record(self, times: RequestTimes, recorder: MetricRecorder | None = None) -> None:
        """Adds to the log and the histograms: `recorder`'s, or without a server those of this process."""
        if times.lines:
            latency_log.write(times.lines)
        if recorder is None:
            self._observe_in_process(times)
            return
        for stage, name in _HISTOGRAMS.items():
            seconds = getattr(times, stage)
            if seconds:
                recorder.observe(name, seconds, model_name=self._name)

    def pending_times(self, recorder: MetricRecorder) -> RequestTimes:
        """Returns the record of the running loop's current iteration; it is recorded in the next one."""
        pending: RequestTimes | None = getattr(self._pending, "times", None)
        if pending is None:
            pending = self._pending.times = self.new_times()
            asyncio.get_running_loop().call_soon(self._record_pending, recorder)
        return pending

    def _record_pending(self, recorder: MetricRecorder) -> None:
        times, self._pending.times = self._pending.times, None
        self.record(times, recorder)

    def _observe_in_process(self, times: RequestTimes) -> None:
        from penstock.compat.kserve import metrics

        labels = metrics.get_labels(self._name)
        for histogram, seconds in (
            (metrics.PRE_HIST_TIME, times.preprocess),
            (metrics.POST_HIST_TIME, times.postprocess),
            (metrics.PREDICT_HIST_TIME, times.predict),
            (metrics.EXPLAIN_HIST_TIME, times.explain),
        ):
            part = histogram.labels(**labels)
            for one in seconds:
                part.observe(one)
