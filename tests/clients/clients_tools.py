"""Paths of the repository and of the tools that setup_tools.py installs."""

from __future__ import annotations

import os
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
TOOLS = Path(os.environ.get("PENSTOCK_TEST_TOOLS") or REPOSITORY / ".tools").absolute()
