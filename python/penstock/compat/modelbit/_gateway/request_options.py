"""What a request says beside its data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from penstock.compat.modelbit._request import body_of, shown
from penstock.compat.modelbit._settings import Settings
from penstock.compat.modelbit.errors import BadCall

__all__ = ["MARKS", "Wishes", "wishes_nothing", "wishes_of"]


@dataclass(frozen=True)
class Wishes:
    """How a request wants to be answered."""

    seconds: float
    """When it is given up."""
    links: bool = False
    webhook: str | None = None
    ignores_timeout: bool = False
    """Whether a webhook that is slow is not asked again."""


def wishes_of(body: bytes, settings: Settings) -> Wishes:
    """What a request says beside its data. It is parsed only if it says something.

    Raises:
        BadCall: it wishes what there is not.
    """
    if wishes_nothing(body):
        return Wishes(settings.timeout)
    return _read(body_of(body), settings)


MARKS = (b'"timeout_seconds"', b'"response_', b"\\u")
"""What a body has that says something beside its data, or may: an escape stands for any letter."""


def wishes_nothing(body: bytes) -> bool:
    """Whether a request can be seen to say nothing beside its data."""
    return not any(mark in body for mark in MARKS)


def _read(body: Mapping[str, Any], settings: Settings) -> Wishes:
    format_ = body.get("response_format")
    if format_ not in (None, "links"):
        raise BadCall(f'response_format is {shown(format_)}, expected "links", or nothing')
    webhook = body.get("response_webhook")
    if webhook is not None:
        _check_webhook(webhook, settings.webhooks)
    ignores = body.get("response_webhook_ignore_timeout", False)
    if not isinstance(ignores, bool):
        raise BadCall(f"response_webhook_ignore_timeout is {shown(ignores)}, expected true or false")
    most = settings.timeout if webhook is None else max(settings.timeout, settings.webhook_timeout)
    seconds = body.get("timeout_seconds")
    if seconds is None:
        return Wishes(settings.timeout, format_ == "links", webhook, ignores)
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds <= most:
        longer = "" if webhook is not None else f", or {settings.webhook_timeout:g} with a response_webhook"
        raise BadCall(f"timeout_seconds is {shown(seconds)}, expected a number above 0, up to {most:g}{longer}")
    return Wishes(float(seconds), format_ == "links", webhook, ignores)


def _check_webhook(url: Any, hosts: tuple[str, ...]) -> None:
    if not hosts:
        raise BadCall("response_webhook: this server posts answers to nobody; its option webhooks says to whom it may")
    if not isinstance(url, str):
        raise BadCall(f"response_webhook is {shown(url)}, expected an https URL")
    try:
        parts = urlsplit(url)
        host, named = parts.hostname, {parts.hostname, parts.netloc}
        _ = parts.port
    except ValueError:
        host, named = None, set()
    # Without encryption only to hosts that whoever serves has named.
    if not host or parts.username or parts.scheme not in (("https", "http") if named & {*hosts} else ("https",)):
        raise BadCall(f"response_webhook is {shown(url)}, expected an https URL")
    if "*" not in hosts and not named & {*hosts}:
        raise BadCall(f"response_webhook: this server posts no answers to {host!r}")
