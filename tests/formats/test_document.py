"""Examples of docs/formats.md run as documented."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock import Server

DOCUMENT = Path(__file__).parents[2] / "docs" / "formats.md"
MODEL, PREAMBLE, *EXAMPLES = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES, ids=["numpy", "msgpack", "arrow", "safetensors"])
def test_documented_example_runs(example: str) -> None:
    served: dict[str, Any] = {"__name__": "app"}
    exec(compile(MODEL, str(DOCUMENT), "exec"), served)
    with Server(served["double"], http="127.0.0.1:0", grpc=None) as server:
        names: dict[str, Any] = {}
        code = PREAMBLE.replace("http://127.0.0.1:8000", server.http_url) + example
        exec(compile(code, str(DOCUMENT), "exec"), names)
    assert np.array_equal(names["y"], np.full((2, 3), 2, np.float32))
