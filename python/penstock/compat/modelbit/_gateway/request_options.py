"""Request options next to `data`: time limit, response format and webhook."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from penstock.compat.modelbit._request import format_value, parse_body
from penstock.compat.modelbit._settings import Settings
from penstock.compat.modelbit.errors import RequestError

__all__ = ["OPTION_PATTERNS", "RequestOptions", "has_no_options", "parse_options"]


@dataclass(frozen=True)
class RequestOptions:
    """Options of one request."""

    timeout: float
    """Seconds."""
    links: bool = False
    """True if the response is a URL of the result."""
    webhook: str | None = None
    ignores_timeout: bool = False
    """True if a webhook that exceeds its time limit counts as delivered."""


def parse_options(body: bytes, settings: Settings) -> RequestOptions:
    """Reads the options of a request. The body is parsed only if it may have any.

    Raises:
        RequestError: an option has an unsupported value.
    """
    if has_no_options(body):
        return RequestOptions(settings.timeout)
    return _read(parse_body(body), settings)


OPTION_PATTERNS = (b'"timeout_seconds"', b'"response_', b"\\u")
"""Bytes of a body that may have options; a `\\u` escape can spell any key."""


def has_no_options(body: bytes) -> bool:
    """Returns whether a body certainly has no options, without parsing it."""
    return not any(pattern in body for pattern in OPTION_PATTERNS)


def _read(body: Mapping[str, Any], settings: Settings) -> RequestOptions:
    format_ = body.get("response_format")
    if format_ not in (None, "links"):
        raise RequestError(f'response_format is {format_value(format_)}, expected "links", or nothing')
    webhook = body.get("response_webhook")
    if webhook is not None:
        _check_webhook(webhook, settings.webhooks)
    ignores = body.get("response_webhook_ignore_timeout", False)
    if not isinstance(ignores, bool):
        raise RequestError(f"response_webhook_ignore_timeout is {format_value(ignores)}, expected true or false")
    most = settings.timeout if webhook is None else max(settings.timeout, settings.webhook_timeout)
    seconds = body.get("timeout_seconds")
    if seconds is None:
        return RequestOptions(settings.timeout, format_ == "links", webhook, ignores)
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds <= most:
        longer = "" if webhook is not None else f", or {settings.webhook_timeout:g} with a response_webhook"
        raise RequestError(
            f"timeout_seconds is {format_value(seconds)}, expected a number above 0, up to {most:g}{longer}"
        )
    return RequestOptions(float(seconds), format_ == "links", webhook, ignores)


def _check_webhook(url: Any, hosts: tuple[str, ...]) -> None:
    if not hosts:
        raise RequestError("response_webhook: webhooks are disabled; the option webhooks lists the allowed hosts")
    if not isinstance(url, str):
        raise RequestError(f"response_webhook is {format_value(url)}, expected an https URL")
    try:
        parts = urlsplit(url)
        host, names = parts.hostname, {parts.hostname, parts.netloc}
        _ = parts.port
    except ValueError:
        host, names = None, set()
    # Plain http only to hosts that the option webhooks names.
    if not host or parts.username or parts.scheme not in (("https", "http") if names & {*hosts} else ("https",)):
        raise RequestError(f"response_webhook is {format_value(url)}, expected an https URL")
    if "*" not in hosts and not names & {*hosts}:
        raise RequestError(f"response_webhook: the host {host!r} is not among those of the option webhooks")
