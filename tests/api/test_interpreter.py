"""Warning at start about the interpreter's global lock."""

from __future__ import annotations

import logging
import subprocess
import sys
import sysconfig
from typing import Any

import pytest

from penstock import Server, model


@model
def same(x: int) -> int:
    return x


@pytest.mark.parametrize(
    ("free_threaded", "enabled", "warned"), [(1, True, True), (1, False, False), (0, True, False), (None, True, False)]
)
def test_gil_enabled_by_an_extension_is_reported(
    free_threaded: int | None,
    enabled: bool,
    warned: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    real = sysconfig.get_config_var

    def get(name: str) -> Any:
        return free_threaded if name == "Py_GIL_DISABLED" else real(name)

    monkeypatch.setattr(sysconfig, "get_config_var", get)
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: enabled, raising=False)
    with caplog.at_level(logging.WARNING, "penstock"), Server(same, http="127.0.0.1:0", grpc=None):
        pass
    assert ("has its global lock (GIL) on" in caplog.text) is warned


@pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this interpreter always has its lock")
def test_importing_penstock_does_not_enable_the_gil() -> None:
    script = "import sys, penstock._core; sys.exit(sys._is_gil_enabled())"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
