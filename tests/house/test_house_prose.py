"""Plain technical English: banned words, openings of doc comments, names of tests, length of sentences."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from house import ROOT, files, relative, sources, without_tests

OPENER = re.compile(r"(?:What|Whether|Where|How|Who|Which|The same|As above)\b")
WORDS = {
    "nobody, whoever, anew, heed": re.compile(r"\b(?:nobody|whoever|anew|heed(?:s|ed)?)\b", re.IGNORECASE),
    "is no, instead of: is not a": re.compile(
        r"(?<![Tt]here )\b(?:is|are) no (?!longer|more|later|earlier|less|limit)"
    ),
    "as it lies, of its own": re.compile(r"\b(?:as (?:it|they) lies?|of (?:its|their) own)\b"),
    "front door": re.compile(r"\bfront doors?\b", re.IGNORECASE),
    "told, tell": re.compile(r"\b(?:told|tells?|telling)\b"),
}
RIDDLE_NAME = re.compile(
    r"_(?:who|whoever|nobody|told|tells?|asked|anew|heeds?|heeded|beside|brought|(?:is|are)_no|of_(?:its|their)_own)(?:_|$)"
    r"|^test_(?:what|how|where|which|whether)_"
)
"""Part of a test's name that hides its subject."""
LONGEST_SENTENCE = 30
"""Words in a sentence of a document."""

Texts = list[tuple[str, str]]
"""Path and text of each."""


@cache
def documents() -> Texts:
    """Markdown without code; the changelog is history."""
    paths = [
        path for path in files() if path.suffix == ".md" and not relative(path).startswith(("tests/", "CHANGELOG"))
    ]
    return [
        (relative(path), re.sub(r"```.*?```|`[^`\n]*`", "`x`", path.read_text(), flags=re.DOTALL)) for path in paths
    ]


def python_sources() -> Iterator[Path]:
    for folder in ("python/", "tests/", "examples/", "benches/"):
        yield from sources(".py", under=folder)


def named_tests() -> Iterator[tuple[str, str]]:
    """Place and name of each test, in Python and in Rust."""
    for path in sources(".py", under="tests/"):
        for name in re.findall(r"^ *(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE):
            yield relative(path), name
    rust = re.compile(r"#\[(?:tokio::)?test\b[^\]]*\]\s*(?:#\[[^\]]*\]\s*)*(?:async )?fn (\w+)")
    for path in sources(".rs", under="rust/"):
        for name in rust.findall(path.read_text()):
            yield relative(path), f"test_{name}"


@cache
def python_docs() -> Texts:
    """Docstrings, and the strings that stand below attributes."""
    found = []
    for path in python_sources():
        for node in ast.walk(ast.parse(path.read_text())):
            body = getattr(node, "body", None)
            for one in body if isinstance(body, list) else []:
                if (
                    isinstance(one, ast.Expr)
                    and isinstance(one.value, ast.Constant)
                    and isinstance(one.value.value, str)
                ):
                    found.append((f"{relative(path)}:{one.lineno}", one.value.value.strip()))
    return found


@cache
def rust_docs() -> Texts:
    """Doc comments of items and modules, each in full."""
    found: Texts = []
    for path in sources(".rs", under="rust/"):
        before = False
        for number, line in enumerate(without_tests(path.read_text()).splitlines(), 1):
            text = line.strip()
            if is_doc := text.startswith(("///", "//!")):
                if before:
                    found[-1] = (found[-1][0], f"{found[-1][1]} {text[3:].strip()}")
                else:
                    found.append((f"{relative(path)}:{number}", text[3:].strip()))
            before = is_doc
    return found


def sentences(body: str) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n|\n(?=[-|#])", body):
        yield from re.split(r"(?<=[.:;!?])\s|\|", paragraph)


def test_prose_is_found() -> None:
    assert len(documents()) > 50
    assert len(python_docs()) > 3000
    assert len(rust_docs()) > 3000


def test_doc_comments_open_with_a_noun_or_a_verb() -> None:
    assert [(place, text[:60]) for place, text in (*python_docs(), *rust_docs()) if OPENER.match(text)] == []
    # Paragraphs, items of lists and first cells of tables.
    opening = re.compile(rf"^(?:- |\| )?{OPENER.pattern}.*", re.MULTILINE)
    assert [(place, opening.findall(body)) for place, body in documents() if opening.search(body)] == []


@pytest.mark.parametrize("name", WORDS)
def test_banned_words_are_absent(name: str) -> None:
    texts = (*documents(), *python_docs(), *rust_docs())
    assert [(place, WORDS[name].findall(text)) for place, text in texts if WORDS[name].search(text)] == []


def test_names_of_tests_name_their_subject() -> None:
    names = [*named_tests()]
    assert len(names) > 3000
    assert [(place, name) for place, name in names if RIDDLE_NAME.search(name)] == []


def test_document_sentences_are_short() -> None:
    long = [
        (place, one) for place, body in documents() for one in sentences(body) if len(one.split()) > LONGEST_SENTENCE
    ]
    assert long == []


def test_glossary_is_sorted_without_duplicates() -> None:
    terms = re.findall(r"^\| ([a-z][^|]*?) \|", (ROOT / "docs/glossary.md").read_text(), re.MULTILINE)[1:]
    assert terms == sorted(set(terms), key=str.lower)
