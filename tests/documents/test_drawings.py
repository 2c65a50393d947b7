"""Drawings of the documentation: well-formed, described, and in the colours of the page."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
DRAWINGS = sorted(DOCS.glob("*.svg"))
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("path", DRAWINGS, ids=lambda path: path.stem)
def test_drawing_has_a_title_and_a_description(path: Path) -> None:
    root = ElementTree.parse(path).getroot()
    texts = {child.get("id"): child.text for child in root}
    named = (root.get("aria-labelledby") or "").split()
    assert [bool(texts.get(name)) for name in named] == [True, True]
    assert f"]({path.name})" in path.with_suffix(".md").read_text()


@pytest.mark.parametrize("path", DRAWINGS, ids=lambda path: path.stem)
def test_colours_of_a_drawing_follow_the_theme(path: Path) -> None:
    root = ElementTree.parse(path).getroot()
    style = root.findtext(f"{SVG}style") or ""
    used = re.findall(r"(?:fill|stroke): ([^;}]+)", style)
    assert used
    assert {
        value for value in used if not re.fullmatch(r"none|var\(--color-[\w-]+, var\(--way-\w+\)\)", value.strip())
    } == set()
    # Colours stand in the style alone, with one for dark pages.
    assert "prefers-color-scheme: dark" in style
    assert not [node for node in root.iter() if {"fill", "stroke", "style"} & set(node.keys())]


def test_site_has_the_drawing_in_its_page() -> None:
    conf = runpy.run_path(str(DOCS / "conf.py"))
    context: dict[str, Any] = {"body": '<p>a<img alt="b" src="../_images/request.svg" />c</p>'}
    conf["drawings"](SimpleNamespace(srcdir=DOCS.parent), "docs/request", "page.html", context, None)
    body = context["body"]
    assert body.startswith('<p>a<svg class="request-way"')
    assert body.endswith("</svg>\nc</p>")
