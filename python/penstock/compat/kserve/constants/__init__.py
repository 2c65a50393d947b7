"""KServe's constants; `from penstock.compat.kserve import constants` has the names of `constants.constants`."""

from __future__ import annotations

from penstock.compat.kserve.constants.constants import *  # noqa: F403 - one list, in the module
