"""The page at /docs is one small file that makes everything of text and asks nobody but its own server."""

from __future__ import annotations

import base64
import hashlib
import re

import pytest

from house import text

FOLDER = "rust/server/src/rest/docs"
MARKUP = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "DOMParser", "eval(", "new Function")


@pytest.mark.parametrize(("constant", "file"), [("STYLE", "page.css"), ("SCRIPT", "page.js")])
def test_the_policy_names_the_style_and_the_script_that_are_there(constant: str, file: str) -> None:
    digest = hashlib.sha256(text(f"{FOLDER}/{file}").encode()).digest()
    named = re.findall(rf'const {constant}: &str = "(.*)";', text("rust/server/src/rest/docs.rs"))
    assert named == [f"sha256-{base64.b64encode(digest).decode()}"], f"{file} was changed: {constant} is its SHA-256"


def test_it_is_small_and_needs_no_network() -> None:
    parts = {name: text(f"{FOLDER}/page.{name}") for name in ("html", "css", "js")}
    assert sum(map(len, parts.values())) < 40_000
    whole = "".join(parts.values())
    assert not re.findall(r"\b(?:https?:)?//[\w.]+\.\w", whole), "an address of somewhere else"
    assert not re.findall(r"@import|\burl\(|<link|\bsrc=", whole)


def test_what_a_model_says_is_never_markup() -> None:
    script = text(f"{FOLDER}/page.js")
    assert not [word for word in MARKUP if word in script]
    assert "style=" not in text(f"{FOLDER}/page.html")
