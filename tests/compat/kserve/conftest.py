"""The dialects, for tests of both."""

from __future__ import annotations

import pytest

from penstock.compat.kserve import context, dialect


@pytest.fixture(autouse=True)
def _no_predictor() -> None:
    """Each test starts without the predictor that an earlier one has set for the process."""
    context.set_predictor_config(None)


@pytest.fixture
def old_dialect(monkeypatch: pytest.MonkeyPatch) -> None:
    """The dialect of 0.13, for one test."""
    monkeypatch.setenv(dialect.VARIABLE, "0.13")
    monkeypatch.setattr(dialect, "_chosen", "0.13")
