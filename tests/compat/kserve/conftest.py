"""Fixtures: dialects and predictor configuration."""

from __future__ import annotations

import pytest

from penstock.compat.kserve import context, dialect


@pytest.fixture(autouse=True)
def _no_predictor() -> None:
    """Clears the process's predictor configuration before each test."""
    context.set_predictor_config(None)


@pytest.fixture
def old_dialect(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets the dialect 0.13 for one test."""
    monkeypatch.setenv(dialect.VARIABLE, "0.13")
    monkeypatch.setattr(dialect, "_chosen", "0.13")
