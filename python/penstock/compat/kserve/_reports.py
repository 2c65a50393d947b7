"""What is told of each request: how long its stages took, in the metrics and in the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.compat.kserve import _latency

if TYPE_CHECKING:
    from penstock.compat.kserve._stages import Times
    from penstock.compat.kserve.metrics import Keeper
    from penstock.compat.kserve.model import Model

__all__ = ["BUCKETS", "Reports"]

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
_HISTOGRAMS = {
    "preprocess": "request_preprocess_seconds",
    "explain": "request_explain_seconds",
    "predict": "request_predict_seconds",
    "postprocess": "request_postprocess_seconds",
}
BUCKETS = dict.fromkeys(_HISTOGRAMS.values(), _SECONDS)
"""The bounds of the histograms of a served model, by name."""


class Reports:
    """Tells of the requests of one model.

    Args:
        model: The model.
        latency: Whether the log is told too; as the model says where it is None.
    """

    def __init__(self, model: Model, latency: bool | None = None) -> None:
        self._name = model.name
        self._latency = getattr(model, "enable_latency_logging", False) is True if latency is None else latency

    def observe(self, times: Times, kept: Keeper | None = None) -> None:
        """Adds to the histograms: those of the server's page, or where no server runs to those of this process."""
        predicted = times.predict
        name = self._name
        if kept is None:
            from penstock.compat.kserve import metrics

            labels = metrics.get_labels(name)
            metrics.PRE_HIST_TIME.labels(**labels).observe(times.preprocess or 0.0)
            metrics.POST_HIST_TIME.labels(**labels).observe(times.postprocess or 0.0)
            if predicted is not None:
                metrics.PREDICT_HIST_TIME.labels(**labels).observe(predicted)
            if times.explain is not None:
                metrics.EXPLAIN_HIST_TIME.labels(**labels).observe(times.explain)
            return
        observe = kept.observe
        observe("request_preprocess_seconds", times.preprocess or 0.0, model_name=name)
        if predicted is not None:
            observe("request_predict_seconds", predicted, model_name=name)
        if times.explain is not None:
            observe("request_explain_seconds", times.explain, model_name=name)
        observe("request_postprocess_seconds", times.postprocess or 0.0, model_name=name)

    def lines(self) -> list[str] | None:
        """Where the lines of requests go that are answered together; None if nobody wants them."""
        return [] if self._latency and _latency.is_wanted() else None
