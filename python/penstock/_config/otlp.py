"""Tracing: settings of the OTLP exporter, from Penstock's settings and the OTEL_* environment."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

__all__ = ["Settings", "read"]

Settings = tuple[str, str, str, list[tuple[str, str]], str, float, bool]
"""URL, `HOST:PORT`, path, headers, service, sampled share, and whether the caller decides. Rust reads it."""

_SAMPLERS = ("always_on", "always_off", "traceidratio")
_EXPECTED = "http://HOST[:PORT][/PATH], auto or off"


def read(endpoint: str, sampler: str, server_name: str, environ: Mapping[str, str]) -> Settings | None:
    """Settings of the exporter; None if no request is traced.

    Raises:
        ValueError: a setting or variable is wrong; the message names it.
    """
    source = _endpoint(endpoint, environ)
    if source is None:
        return None
    name, url = source
    parts = urlsplit(url)
    try:
        port = parts.port or 80
    except ValueError:
        port = 0
    if parts.scheme != "http" or not parts.hostname or not port or parts.username or parts.fragment:
        raise ValueError(f"{name}: {url!r} is not an address of a collector, expected {_EXPECTED}")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    path = parts.path.rstrip("/")
    if name != "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" and not path.endswith("/v1/traces"):
        path += "/v1/traces"
    path = (path or "/") + (f"?{parts.query}" if parts.query else "")
    ratio, parent_based = _sampler(sampler, environ)
    service = environ.get("OTEL_SERVICE_NAME") or server_name
    return f"http://{host}:{port}", f"{host}:{port}", path, _headers(environ), service, ratio, parent_based


def _endpoint(endpoint: str, environ: Mapping[str, str]) -> tuple[str, str] | None:
    """The name of the setting or variable, and the URL in it."""
    if endpoint.lower() != "auto":
        return None if endpoint.lower() in ("off", "none") else ("otlp_endpoint", endpoint)
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or environ.get("OTEL_TRACES_EXPORTER") == "none":
        return None
    for name in ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"):
        if url := environ.get(name):
            break
    else:
        return None
    for variable in ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        if protocol := environ.get(variable):
            if protocol != "http/protobuf":
                raise ValueError(f"{variable}: got {protocol!r}, expected http/protobuf; or otlp_endpoint=off")
            break
    return name, url


def _sampler(sampler: str, environ: Mapping[str, str]) -> tuple[float, bool]:
    name, text = "trace_sampler", sampler
    if sampler == "auto":
        name, text = "OTEL_TRACES_SAMPLER", environ.get("OTEL_TRACES_SAMPLER") or "parentbased_always_on"
        if text.endswith("traceidratio"):
            text = f"{text}:{environ.get('OTEL_TRACES_SAMPLER_ARG') or 1}"
    kind, _, share = text.partition(":")
    base = kind.removeprefix("parentbased_")
    try:
        ratio = {"always_on": 1.0, "always_off": 0.0}.get(base, float(share) if share else 1.0)
    except ValueError:
        ratio = -1.0
    if base not in _SAMPLERS or not 0 <= ratio <= 1 or (share and base != "traceidratio"):
        raise ValueError(
            f"{name}: {text!r} is not a sampler, expected always_on, always_off or traceidratio:SHARE with a share "
            "from 0 to 1, or one of these after parentbased_"
        )
    return ratio, kind != base


def _headers(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    for name in ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"):
        if text := environ.get(name):
            pairs = [pair.partition("=") for pair in text.split(",") if pair.strip()]
            headers = [(key.strip().lower(), unquote(value.strip())) for key, _, value in pairs]
            if not all(key.isascii() and key and value.isascii() and value.isprintable() for key, value in headers):
                raise ValueError(f"{name}: expected NAME=VALUE, separated by commas")
            return headers
    return []
