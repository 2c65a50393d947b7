"""What a `ModelServer` tells all models of its process."""

from __future__ import annotations

from penstock.compat.kserve.predictor_config import PredictorConfig

__all__ = ["get_predictor_config", "set_predictor_config"]

_held: list[PredictorConfig | None] = [None]


def set_predictor_config(config: PredictorConfig | None) -> None:
    """Says where the predictor of this process's models is. Every thread and task sees it."""
    _held[0] = config


def get_predictor_config() -> PredictorConfig | None:
    """Where the predictor of this process's models is; None if nobody said."""
    return _held[0]
