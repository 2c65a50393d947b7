"""The address for operators: the settings `admin`, `admin_only` and `admin_open`."""

from __future__ import annotations

from collections.abc import Iterable

from penstock._config import listeners
from penstock._config.access import CATEGORIES

__all__ = ["OF_OPERATORS", "check_address", "check_categories", "check_guard", "check_open"]

OF_OPERATORS = ("model-repository", "logging", "trace", "statistics", "metrics", "debug")
"""Categories that only the admin address serves, by default."""

_NEEDED_BY_CLIENTS = ("health", "metadata", "inference")
"""Categories without which other addresses would serve nothing."""


def check_categories(only: Iterable[str]) -> None:
    """Checks `admin_only`.

    Raises:
        ValueError: an unknown category, or one that other addresses need.
    """
    for name in only:
        if name not in CATEGORIES:
            raise ValueError(f"unknown category {name!r}, expected {', '.join(CATEGORIES)}")
        if name in _NEEDED_BY_CLIENTS:
            raise ValueError(f"{name!r} is what other addresses are for")


def check_open(is_open: bool, address: str | None) -> None:
    """Checks `admin_open`.

    Raises:
        ValueError: there is no address.
    """
    if is_open and address is None:
        raise ValueError("has no meaning unless admin is an address")


def check_address(address: str | None, http: str | None, grpc: str | None, entries: Iterable[str]) -> None:
    """Checks `admin` against the other addresses.

    Raises:
        ValueError: another listener has the address.
    """
    others = [http, grpc, *(entry.partition("=")[2] for entry in entries)]
    if address is not None and not address.endswith(":0") and address in others:
        raise ValueError(f"{address} is the address of another listener")


def check_guard(address: str | None, is_open: bool, keys: str | None, key: str | None, client: str) -> None:
    """Checks that other machines cannot reach the address without a key or a certificate.

    Raises:
        ValueError: they can.
    """
    is_guarded = keys is not None or key is not None or client == "required"
    if address is not None and not (is_guarded or is_open or listeners.is_local(address)):
        raise ValueError(
            f"{listeners.bare(address)} can be reached from other machines, and nothing asks for a key: "
            "set keys_file, tls_client=required, or admin_open=true"
        )
