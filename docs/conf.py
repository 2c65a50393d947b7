"""Configuration of Sphinx, which `make docs` runs: the documentation as a static site, with the API reference."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import penstock

project = "Penstock"
author = "The Penstock authors"
version = release = penstock.__version__

# The source is the repository, so that links between documents are the same here and in its files.
root_doc = "docs/index"
include_patterns = ["docs/**", "examples/*/README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"]
html_extra_path = ["site"]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
# Links to headings, `page.md#heading`, as GitHub makes them.
myst_heading_anchors = 4
myst_links_external_new_tab = False

html_theme = "furo"
html_title = "Penstock"
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}

autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_class_signature = "mixed"
napoleon_use_rtype = False
pygments_style = "friendly"
pygments_dark_style = "monokai"
# Public names are importable from the package and from their own page's module.
suppress_warnings = ["ref.python"]


def literals(*event: Any) -> None:
    """Turns Markdown's `code` in docstrings into reStructuredText's ``code``."""
    lines = event[-1]
    lines[:] = [re.sub(r"(?<!`)`([^`]+)`(?!`)", r"``\1``", line) for line in lines]


def drawings(app: Any, page: str, template: str, context: dict[str, Any], *rest: Any) -> None:
    """Puts drawings into their page: as images they would not follow the colours that a reader selects."""
    if "body" in context:

        def drawing(image: re.Match[str]) -> str:
            return (Path(app.srcdir, "docs") / f"{image[1]}.svg").read_text(encoding="utf-8")

        context["body"] = re.sub(r'<img [^>]*src="[^"]*/(\w+)\.svg"[^>]*>', drawing, context["body"])


def setup(app: Any) -> None:
    """Connects `literals` in front of napoleon, which would take a colon in such code for the end of a type."""
    app.connect("autodoc-process-docstring", literals, priority=100)
    app.connect("html-page-context", drawings)
