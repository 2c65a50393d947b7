"""The dialects, for tests of both."""

from __future__ import annotations

import pytest

from penstock.compat.kserve import dialect


@pytest.fixture
def old_dialect(monkeypatch: pytest.MonkeyPatch) -> None:
    """The dialect of 0.13, for one test."""
    monkeypatch.setenv(dialect.VARIABLE, "0.13")
    monkeypatch.setattr(dialect, "_chosen", "0.13")
