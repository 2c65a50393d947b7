"""The predictor configuration of this process's models."""

from __future__ import annotations

from penstock.compat.kserve.predictor_config import PredictorConfig

__all__ = ["get_predictor_config", "set_predictor_config"]

_config: list[PredictorConfig | None] = [None]


def set_predictor_config(config: PredictorConfig | None) -> None:
    """Sets the predictor of this process's models, for all threads and tasks."""
    _config[0] = config


def get_predictor_config() -> PredictorConfig | None:
    """Returns the predictor of this process's models; None if it was not set."""
    return _config[0]
