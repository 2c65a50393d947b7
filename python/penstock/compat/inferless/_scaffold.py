"""`scaffold`: a first app, for `penstock init`."""

from __future__ import annotations

from pathlib import Path

__all__ = ["scaffold"]

_FILES = {
    "app.py": '''\
"""Tells how often a word is in a text."""


class InferlessPythonModel:
    """Loaded once; `infer` is called for each request."""

    def initialize(self):
        """Loads what `infer` needs, weights for example."""
        self.case_counts = False

    def infer(self, inputs):
        """Computes an answer: a dict of outputs by name."""
        text, word = inputs["text"], inputs.get("word", "the")
        if not self.case_counts:
            text, word = text.lower(), word.lower()
        return {"count": text.split().count(word)}

    def finalize(self):
        """Lets go of what `initialize` has loaded."""
''',
    "input_schema.py": """\
INPUT_SCHEMA = {
    "text": {"datatype": "STRING", "shape": [1], "required": True, "example": ["The cat sees the dog"]},
    "word": {"datatype": "STRING", "shape": [1], "required": False, "example": ["the"]},
}
""",
    "inferless-runtime-config.yaml": """\
build:
  system_packages: []
  python_packages: []
  run: []
""",
}


def scaffold(folder: Path) -> list[Path]:
    """Writes a first app into a folder. Files that are there already are left as they are.

    Returns:
        The files that were written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, text in _FILES.items():
        path = folder / name
        if not path.exists():
            path.write_text(text, encoding="utf-8")
            written.append(path)
    return written
