"""Example function that `penstock init` writes."""

from __future__ import annotations

from pathlib import Path

__all__ = ["scaffold"]

_HANDLER = '''"""An Open Inference function that returns the lengths of texts."""

from __future__ import annotations


def init(context, unit="characters"):
    """Runs once, before the first request."""
    context.unit = unit


def handler(context, request):
    """Runs for each request."""
    texts = request.inputs[0].data
    lengths = [len(text.split()) if context.unit == "words" else len(text) for text in texts]
    return {"outputs": [{"name": "length", "datatype": "INT32", "shape": [len(lengths)], "data": lengths}]}
'''

_DEFINITION = """{
  "kind": "openinference",
  "project": "example",
  "name": "text-length",
  "spec": {
    "source": {"source": "main.py", "handler": "handler", "init_function": "init"},
    "python_version": "PYTHON3_%d",
    "model_name": "text-length",
    "requirements": [],
    "inputs": [{"name": "text", "datatype": "BYTES", "shape": [-1]}],
    "outputs": [{"name": "length", "datatype": "INT32", "shape": [-1]}]
  },
  "penstock": {"init_parameters": {"unit": "words"}}
}
"""


def scaffold(folder: Path) -> list[Path]:
    """Writes an example function: its definition and its code."""
    import sys

    # 3.13 is the newest version that DigitalHub supports.
    minor = min(max(sys.version_info.minor, 10), 13)
    files = {"function.json": _DEFINITION % minor, "main.py": _HANDLER}
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in files]
