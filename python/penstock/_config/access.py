"""Who may call what: the settings `restricted_access` and `api_key`, and where their secrets lie.

No message here shows a secret, nor what was given in the place of one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

CATEGORIES = (
    "health",
    "metadata",
    "inference",
    "shared-memory",
    "model-config",
    "model-repository",
    "statistics",
    "trace",
    "logging",
)
"""What routes are for, in Triton's division."""

FORM = "rules of the form CATEGORY[,CATEGORY...]:HEADER=SECRET, separated by ';'"

Rule = tuple[list[str], str, str]
"""Categories, the header's name, and the secret that it must hold."""


def rules(text: str | None, environ: Mapping[str, str]) -> list[Rule]:
    """The rules of `restricted_access`, with their secrets read.

    Raises:
        ValueError: the text is no list of rules, or a secret cannot be read.
    """
    return [_rule(number, one, environ) for number, one in enumerate((text or "").split(";"), 1) if one.strip()]


def key(text: str | None, environ: Mapping[str, str]) -> str | None:
    """The key that `api_key` names.

    Raises:
        ValueError: it cannot be read.
    """
    return None if text is None else _secret(text, environ)


def _rule(number: int, text: str, environ: Mapping[str, str]) -> Rule:
    scope, colon, rest = text.partition(":")
    header, equals, secret = rest.partition("=")
    if not colon or not equals:
        raise ValueError(f"rule {number} is not as expected: {FORM}")
    categories = [name.strip() for name in scope.split(",")]
    for name in categories:
        if name not in CATEGORIES:
            raise ValueError(f"rule {number}: unknown category {name!r}, expected one of {', '.join(CATEGORIES)}")
    if re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", header.strip()) is None:
        raise ValueError(f"rule {number}: {header.strip()!r} is not a header's name")
    try:
        return categories, header.strip().lower(), _secret(secret, environ)
    except ValueError as error:
        raise ValueError(f"rule {number}: {error}") from None


def _secret(text: str, environ: Mapping[str, str]) -> str:
    """The secret itself: as given, or from where `env:NAME` or `file:/path` say."""
    place, _, name = text.strip().partition(":")
    if place == "env":
        found = environ.get(name)
        if found is None:
            raise ValueError(f"the variable {name!r} is not set")
    elif place == "file":
        try:
            with open(name, encoding="utf-8") as file:
                found = file.read()
        except (OSError, ValueError):
            raise ValueError(f"the file {name!r} cannot be read as text") from None
    else:
        found = text
    # Editors end files with a newline, and a header holds none.
    found = found.strip()
    if not found or not found.isascii() or not found.isprintable():
        raise ValueError("the secret is not printable ASCII text")
    return found
