"""The page at /docs: small, without markup from text, and without requests to other servers."""

from __future__ import annotations

import base64
import hashlib
import re

import pytest

from house import ROOT, text

FOLDER = "rust/server/src/rest/handlers/docs"
MARKUP = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "DOMParser", "eval(", "new Function")


SCRIPTS = re.findall(r'include_str!\("docs/(\w+\.js)"\)', text("rust/server/src/rest/handlers/docs.rs"))
PARTS = {"STYLE": ["page.css"], "SCRIPT": SCRIPTS}


def test_every_script_is_included_in_the_page() -> None:
    files = {path.name for path in (ROOT / FOLDER).glob("*.js")}
    assert (set(SCRIPTS), len(SCRIPTS)) == (files, len(files))


@pytest.mark.parametrize("part", PARTS)
def test_policy_hashes_match_the_style_and_script(part: str) -> None:
    whole = "".join(text(f"{FOLDER}/{file}") for file in PARTS[part])
    digest = base64.b64encode(hashlib.sha256(whole.encode()).digest()).decode()
    hashes = re.findall(rf'const {part}_HASH: &str = "(.*)";', text("rust/server/src/rest/handlers/docs.rs"))
    assert hashes == [f"sha256-{digest}"], f"{', '.join(PARTS[part])}: {part}_HASH is not the SHA-256"


def test_page_is_small_and_needs_no_network() -> None:
    parts = [text(f"{FOLDER}/{name}") for name in ("page.html", "page.css", *SCRIPTS)]
    assert sum(map(len, parts)) < 80_000
    whole = "".join(parts)
    assert not re.findall(r"\b(?:https?:)?//[\w.]+\.\w", whole), "the address of another server"
    assert not re.findall(r"@import|\burl\(|<link|\bsrc=", whole)


def test_page_never_renders_model_text_as_markup() -> None:
    script = "".join(text(f"{FOLDER}/{name}") for name in SCRIPTS)
    assert not [word for word in MARKUP if word in script]
    assert "style=" not in text(f"{FOLDER}/page.html")
