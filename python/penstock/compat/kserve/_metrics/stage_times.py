"""`StageTimes`: durations of the stages of one request."""

from __future__ import annotations

__all__ = ["StageTimes"]


class StageTimes:
    """Duration of each stage in seconds; None for a stage that did not run."""

    __slots__ = ("explain", "postprocess", "predict", "preprocess")

    def __init__(self) -> None:
        self.preprocess: float | None = None
        self.explain: float | None = None
        self.predict: float | None = None
        self.postprocess: float | None = None
