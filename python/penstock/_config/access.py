"""Access control: the settings `restricted_access` and `api_key`, and the sources of their secrets.

Messages never contain a secret, nor a value given in place of one.
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
    "metrics",
    "debug",
)
"""Categories of routes: those of Triton, and `metrics` and `debug`, to which rules of `statistics` apply too."""

FORM = "rules of the form CATEGORY[,CATEGORY...]:HEADER=SECRET, separated by ';'"

OFF = ("off", "none")
"""Texts that turn an optional setting off, in any case."""

_NO_SECRETS = (*OFF, "false", "no", "0", "true", "yes", "on", "1")
"""Texts that are a switch by mistake: as a secret, anyone would guess them."""

Rule = tuple[list[str], str, str]
"""Categories, name of the header, and the secret that it must contain."""


def rules(text: str | None, environ: Mapping[str, str]) -> list[Rule]:
    """The rules of `restricted_access`, with their secrets read.

    Raises:
        ValueError: not a list of rules, or a secret that cannot be read.
    """
    return [_rule(number, rule, environ) for number, rule in enumerate((text or "").split(";"), 1) if rule.strip()]


def key(text: str | None, environ: Mapping[str, str]) -> str | None:
    """The key of the setting `api_key`.

    Raises:
        ValueError: the key cannot be read.
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
    """A secret: the text itself, or the content of the variable or file that `env:NAME` or `file:/path` names."""
    source, _, name = text.strip().partition(":")
    if source == "env":
        value = environ.get(name)
        if value is None:
            raise ValueError(f"the variable {name!r} is not set")
    elif source == "file":
        try:
            with open(name, encoding="utf-8") as file:
                value = file.read()
        except (OSError, ValueError):
            raise ValueError(f"the file {name!r} cannot be read as text") from None
    else:
        value = text
    # Editors end files with a newline, which a header cannot contain.
    value = value.strip()
    if not value or not value.isascii() or not value.isprintable():
        raise ValueError("the secret is not printable ASCII text")
    if value.lower() in _NO_SECRETS:
        raise ValueError(f"the secret is one of {', '.join(_NO_SECRETS)}, which a switch takes; to have none, set off")
    return value
