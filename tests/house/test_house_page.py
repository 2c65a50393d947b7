"""The pages at /docs and /live: small, without markup from text, and without requests to other servers."""

from __future__ import annotations

import base64
import hashlib
import re

import pytest

from house import ROOT, text

HANDLERS = "rust/server/src/rest/handlers"
PAGES = {"docs": 80_000, "live": 60_000}
"""Limit of each page, in characters."""
MARKUP = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "DOMParser", "eval(", "new Function")


def scripts(page: str) -> list[str]:
    """The scripts of a page, in the order in which they are joined."""
    return re.findall(rf'include_str!\("{page}/(\w+\.js)"\)', text(f"{HANDLERS}/{page}.rs"))


def whole(page: str, names: list[str]) -> str:
    return "".join(text(f"{HANDLERS}/{page}/{name}") for name in names)


@pytest.mark.parametrize("page", PAGES)
def test_every_script_is_included_in_the_page(page: str) -> None:
    files = {path.name for path in (ROOT / HANDLERS / page).glob("*.js")}
    assert (set(scripts(page)), len(scripts(page))) == (files, len(files))


@pytest.mark.parametrize("part", ["STYLE", "SCRIPT"])
@pytest.mark.parametrize("page", PAGES)
def test_policy_hashes_match_the_style_and_script(page: str, part: str) -> None:
    names = ["page.css"] if part == "STYLE" else scripts(page)
    digest = base64.b64encode(hashlib.sha256(whole(page, names).encode()).digest()).decode()
    hashes = re.findall(rf'const {part}_HASH: &str = "(.*)";', text(f"{HANDLERS}/{page}.rs"))
    assert hashes == [f"sha256-{digest}"], f"{', '.join(names)}: {part}_HASH is not the SHA-256"


@pytest.mark.parametrize("page", PAGES)
def test_page_is_small_and_needs_no_network(page: str) -> None:
    parts = whole(page, ["page.html", "page.css", *scripts(page)])
    assert len(parts) < PAGES[page]
    # The name of SVG's elements is not fetched.
    addresses = re.findall(r"\b(?:https?:)?//[\w.]+\.\w", parts.replace("http://www.w3.org/2000/svg", ""))
    assert not addresses, "the address of another server"
    assert not re.findall(r"@import|\burl\(|<link|\bsrc=", parts)


@pytest.mark.parametrize("page", PAGES)
def test_page_never_renders_model_text_as_markup(page: str) -> None:
    script = whole(page, scripts(page))
    assert not [word for word in MARKUP if word in script]
    assert "style=" not in text(f"{HANDLERS}/{page}/page.html")
