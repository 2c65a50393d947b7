"""Loads the files of examples/ as modules. Within a folder, they import each other by bare names, such as app."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(scope="module")
def example(request: pytest.FixtureRequest) -> Iterator[Callable[[str], ModuleType]]:
    """In test_digits.py, `example("app")` is examples/digits/app.py; other tests do not see that `app`."""
    folder = EXAMPLES / request.module.__name__.rpartition("test_")[2]
    names = [file.stem for file in folder.glob("*.py")]
    others = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    sys.path.insert(0, str(folder))
    yield importlib.import_module
    sys.path.remove(str(folder))
    for name in names:
        sys.modules.pop(name, None)
    sys.modules.update(others)
