"""Tracing: settings of the OTLP exporter, from Penstock's settings and the OTEL_* environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, unquote, urlsplit

from penstock._config import access

__all__ = ["Exporter", "Options", "read"]

_SCHEMES = {"http": (False, False), "https": (False, True), "grpc": (True, False), "grpcs": (True, True)}
"""Pairs by scheme: gRPC or not, TLS or not."""

_PORTS = {"http": 80, "https": 443, "grpc": 4317, "grpcs": 4317}
_GRPC_PATH = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
_GEN_AI = "gen_ai_latest_experimental"
_SAMPLERS = ("always_on", "always_off", "traceidratio")
_EXPECTED = "http://HOST[:PORT][/PATH], https://, grpc://HOST[:PORT], grpcs://, auto or off"


@dataclass(frozen=True, slots=True)
class Options:
    """Settings of the exporter as they are configured.

    Attributes:
        endpoint: `otlp_endpoint`.
        sampler: `trace_sampler`.
        service: Name of the service where no variable has one.
        headers: `otlp_headers`.
        ca: `otlp_ca`.
        certificate: `otlp_certificate`.
        key: `otlp_key`.
        gen_ai: `otlp_gen_ai`.
    """

    endpoint: str
    sampler: str
    service: str
    headers: str | None = None
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    gen_ai: bool = field(default=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Exporter:
    """The exporter of one server. Rust reads it.

    Attributes:
        endpoint: The collector's address, for log messages.
        authority: `HOST:PORT`.
        host: The host's name, which its certificate has.
        path: Path and query of exports.
        grpc: Exports over gRPC.
        encrypted: Exports over TLS.
        ca: PEM file of the authorities that the collector's certificate may have; None for those of the system.
        certificate: PEM file of the exporter's certificate.
        key: PEM file of its key.
        headers: Headers of each export.
        service_name: Name of the service.
        ratio: Share of sampled requests.
        parent_based: Whether a client's decision applies first.
        gen_ai: Whether spans have the attributes of OpenTelemetry's GenAI conventions.
    """

    endpoint: str
    authority: str
    host: str
    path: str
    grpc: bool
    encrypted: bool
    ca: str | None
    certificate: str | None
    key: str | None
    headers: list[tuple[str, str]]
    service_name: str
    ratio: float
    parent_based: bool
    gen_ai: bool


def read(options: Options, environ: Mapping[str, str]) -> Exporter | None:
    """Reads the settings and variables; None if no request is traced.

    Raises:
        ValueError: a setting or variable is wrong; the message names it.
    """
    source = _endpoint(options.endpoint, environ)
    if source is None:
        return None
    name, url = source
    parts = urlsplit(url)
    try:
        port = parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError:
        port = 0
    if not parts.hostname or not port or parts.username or parts.fragment:
        raise ValueError(f"{name}: {url!r} is not an address of a collector, expected {_EXPECTED}")
    grpc, encrypted = _SCHEMES[parts.scheme]
    if name != "otlp_endpoint":
        grpc = _is_grpc(environ)
    if grpc and (parts.path.strip("/") or parts.query):
        raise ValueError(f"{name}: {url!r} has a path, which gRPC does not use")
    ca, certificate, key = _files(options, environ, encrypted=encrypted)
    ratio, parent_based = _sampler(options.sampler, environ)
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return Exporter(
        endpoint=f"{parts.scheme}://{host}:{port}",
        authority=f"{host}:{port}",
        host=parts.hostname,
        path=_GRPC_PATH if grpc else _http_path(name, parts),
        grpc=grpc,
        encrypted=encrypted,
        ca=ca,
        certificate=certificate,
        key=key,
        headers=_headers(options.headers, environ),
        service_name=environ.get("OTEL_SERVICE_NAME") or options.service,
        ratio=ratio,
        parent_based=parent_based,
        gen_ai=options.gen_ai or _GEN_AI in environ.get("OTEL_SEMCONV_STABILITY_OPT_IN", "").split(","),
    )


def _http_path(name: str, parts: SplitResult) -> str:
    path = parts.path.rstrip("/")
    if name != "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" and not path.endswith("/v1/traces"):
        path += "/v1/traces"
    return (path or "/") + (f"?{parts.query}" if parts.query else "")


def _is_grpc(environ: Mapping[str, str]) -> bool:
    for variable in ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        if protocol := environ.get(variable):
            if protocol not in ("http/protobuf", "grpc"):
                raise ValueError(f"{variable}: got {protocol!r}, expected http/protobuf or grpc; or otlp_endpoint=off")
            return protocol == "grpc"
    return False


def _files(
    options: Options, environ: Mapping[str, str], *, encrypted: bool
) -> tuple[str | None, str | None, str | None]:
    """The files of authorities, certificate and key.

    Raises:
        ValueError: a setting has no use, or a certificate lacks its key.
    """
    given = {"otlp_ca": options.ca, "otlp_certificate": options.certificate, "otlp_key": options.key}
    for name, value in given.items():
        # Variables may be for other programs too.
        if value is not None and not encrypted:
            raise ValueError(f"{name}: the connection to the collector has no TLS, expected https:// or grpcs://")
    if not encrypted:
        return None, None, None

    def of(name: str, variable: str) -> str | None:
        return given[name] or _variable(variable, environ)

    certificate, key = of("otlp_certificate", "CLIENT_CERTIFICATE"), of("otlp_key", "CLIENT_KEY")
    if (certificate is None) != (key is None):
        raise ValueError("otlp_certificate: a certificate needs its key in otlp_key, and a key its certificate")
    return of("otlp_ca", "CERTIFICATE"), certificate, key


def _variable(name: str, environ: Mapping[str, str]) -> str | None:
    return environ.get(f"OTEL_EXPORTER_OTLP_TRACES_{name}") or environ.get(f"OTEL_EXPORTER_OTLP_{name}") or None


def _endpoint(endpoint: str, environ: Mapping[str, str]) -> tuple[str, str] | None:
    """The name of the setting or variable, and the URL in it.

    Raises:
        ValueError: the URL has an unknown scheme, or gRPC's own in a variable.
    """
    name, url = "otlp_endpoint", endpoint
    if endpoint.lower() in ("off", "none"):
        return None
    if endpoint.lower() == "auto":
        if environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or environ.get("OTEL_TRACES_EXPORTER") == "none":
            return None
        for variable in ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"):
            if value := environ.get(variable):
                name, url = variable, value
                break
        else:
            return None
    scheme = url.partition("://")[0].lower()
    if "://" not in url or scheme not in _SCHEMES:
        raise ValueError(f"{name}: {url!r} is not an address of a collector, expected {_EXPECTED}")
    if name != "otlp_endpoint" and scheme.startswith("grpc"):
        raise ValueError(f"{name}: {url!r} has a scheme of otlp_endpoint, expected http:// or https:// in a variable")
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


def _headers(setting: str | None, environ: Mapping[str, str]) -> list[tuple[str, str]]:
    if setting is not None:
        try:
            return _pairs("otlp_headers", access.key(setting, environ) or "")
        except ValueError as error:
            text = str(error)
            raise ValueError(text if text.startswith("otlp_headers: ") else f"otlp_headers: {text}") from None
    for name in ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"):
        if pairs := environ.get(name):
            return _pairs(name, pairs)
    return []


def _pairs(name: str, text: str) -> list[tuple[str, str]]:
    pairs = [pair.partition("=") for pair in text.split(",") if pair.strip()]
    headers = [(key.strip().lower(), unquote(value.strip())) for key, _, value in pairs]
    if not all(key.isascii() and key and value.isascii() and value.isprintable() for key, value in headers):
        raise ValueError(f"{name}: expected NAME=VALUE, separated by commas")
    return headers
