"""The two sides that run the same scripts: KServe of a dialect's version, and Penstock in that dialect."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from differential import TOOLS, Side

SCRIPTS = Path(__file__).parent / "scripts"
HOMES = {"0.13": "kserve13", "0.21": "kserve"}
"""The folder that setup_tools.py creates for the KServe of each dialect."""
DIALECT = "PENSTOCK_KSERVE_DIALECT"


def _environment(dialect: str) -> dict[str, str]:
    hidden = ("PENSTOCK_", "KSERVE_", "CE_", "PYTHON", "http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
    return {name: value for name, value in os.environ.items() if not name.startswith(hidden)} | {DIALECT: dialect}


def penstock(dialect: str) -> Side:
    """Returns Penstock's side, under the shim."""
    known = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
    command = [sys.executable, "-m", "penstock", "shim", "kserve", "--", sys.executable]
    return Side(command, {**known, **_environment(dialect)})


def real(dialect: str) -> Side:
    """Returns KServe's side."""
    return Side([str(_python(dialect))], _environment(dialect))


def why_not_real(dialect: str) -> str | None:
    """Returns the reason why KServe cannot run; None if it can."""
    if _python(dialect).exists():
        return None
    return f"KServe {dialect} is not installed; python tests/clients/setup_tools.py {HOMES[dialect]} fetches it"


def _python(dialect: str) -> Path:
    return TOOLS / HOMES[dialect] / "bin" / "python"
