"""Runs the self-check command: `python -m penstock.compat.pytriton`."""

from __future__ import annotations

import sys

from penstock.compat.pytriton.check._command import main

sys.exit(main())
