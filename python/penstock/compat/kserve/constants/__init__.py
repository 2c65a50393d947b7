"""KServe's constants. `from penstock.compat.kserve import constants` is this package; it has what its module has."""

from __future__ import annotations

from penstock.compat.kserve.constants.constants import *  # noqa: F403 - one list, in the module
