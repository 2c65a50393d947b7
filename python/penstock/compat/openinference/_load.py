"""Load of a function from a file or folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock import Model
from penstock.compat.openinference._bind import bind
from penstock.compat.openinference._definition.files import read_function
from penstock.compat.openinference._image import ENVIRONMENT
from penstock.compat.openinference._settings import Options

__all__ = ["load"]


def load(path: Path, options: Mapping[str, Any]) -> list[Model[..., Any]]:
    """Returns the model of a function, whose code runs in separate processes by default.

    Raises:
        StartupError: the definition is invalid, or its code or packages cannot be fetched.
    """
    function = read_function(path)
    from_environment = {"environment": os.environ.get(ENVIRONMENT) or None}
    return [bind(function, Options.of(function.settings, from_environment, options))]
