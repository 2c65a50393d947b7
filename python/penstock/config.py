"""Settings of the server.

Order of precedence: arguments, sockets of systemd, command line, `PENSTOCK_*` environment, `penstock.toml`, defaults.
Each field of `ServerConfig` is an argument, a flag (`--idle-timeout`), a variable (`PENSTOCK_IDLE_TIMEOUT`) and a
key of the `[server]` table. Text values may have units: sizes `64MiB`, `1GB`; durations `500ms`, `30s`, `2m`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from penstock._config import access, admin_address, otlp, rules, settings
from penstock._config.resolve import Sources, resolve
from penstock._config.server_options import ServerOptions
from penstock._config.sources import Defaults
from penstock.errors import ConfigError

__all__ = ["ServerConfig", "ServerOptions", "load_config"]


def _setting(default: Any, kind: str, text: str, *, computed: str = "", live: bool = False) -> Any:
    """A field.

    Args:
        default: Its default.
        kind: Its kind, see `_config/settings.py`.
        text: Its help.
        computed: The rule of the value that the server computes for the default; empty if it computes none.
        live: Whether a running server takes over a change of the file at a reload; others need a restart.
    """
    # Secrets are left out of the representation, which notebooks and logs show.
    shown = kind not in settings.SECRETS
    return field(default=default, repr=shown, metadata={"kind": kind, "help": text, "computed": computed, "live": live})


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerConfig:
    """Settings of the server. Durations are in seconds, sizes in bytes; texts are read as in the environment.

    Raises:
        ConfigError: an invalid value; the message names the setting.
    """

    http: str | None = _setting("127.0.0.1:8000", "address", "HTTP address: HOST:PORT, PORT, unix:/path, fd:N, or off")
    grpc: str | None = _setting(
        "127.0.0.1:8001", "address|same", "gRPC address, in the same forms, or `same` for the HTTP port"
    )
    listeners: tuple[str, ...] = _setting(
        (),
        "listeners",
        "further addresses, separated by commas: http=ADDRESS, grpc=ADDRESS, or metrics=ADDRESS for /metrics alone, "
        "without authentication",
    )
    admin: str | None = _setting(
        None, "address", "address for operators, with all routes; those of `admin_only` are served here only"
    )
    admin_only: tuple[str, ...] = _setting(
        admin_address.OF_OPERATORS, "names", "categories of routes that only `admin` serves, separated by commas"
    )
    admin_open: bool = _setting(False, "switch", "an `admin` address for other machines without a key")
    tls_certificate: tuple[str, ...] = _setting(
        (), "files", "PEM files of certificates, each with its chain; the first is for clients that name no other"
    )
    tls_key: tuple[str, ...] = _setting((), "files", "PEM file of each certificate's key")
    tls_client: Literal["off", "optional", "required"] = _setting(
        "off", "off|optional|required", "whether clients need a certificate"
    )
    tls_client_ca: str | None = _setting(None, "text|off", "PEM file of the authorities of client certificates")
    tls_client_crl: str | None = _setting(None, "text|off", "PEM file of revoked client certificates")
    tls_min_version: Literal["1.2", "1.3"] = _setting("1.2", "1.2|1.3", "oldest TLS version that clients may speak")
    tls_reload: float = _setting(5.0, "seconds", "interval of the check for changed files; 0 is only on SIGHUP")
    tls_handshake_timeout: float = _setting(10.0, "seconds", "time limit for a TLS handshake", live=True)
    allowed_hosts: tuple[str, ...] = _setting(
        (), "hosts", "host names accepted on loopback addresses, besides local ones; * for any"
    )
    cors_origins: tuple[str, ...] = _setting(
        (), "origins", "origins whose web pages may read responses, such as https://app.example; * for any"
    )
    hsts: float = _setting(
        0.0, "seconds", "time for which browsers use TLS only, sent with responses over TLS; 0 is none"
    )
    trusted_proxies: tuple[str, ...] = _setting(
        (), "networks", "networks of proxies whose X-Forwarded-For names the client; unix for those of Unix sockets"
    )
    io_threads: int = _setting(
        0, "count", "threads for network I/O; 0 chooses", computed="half of the processors, 1 to 4"
    )
    max_body_bytes: int = _setting(64 << 20, "size", "limit of a request body in bytes", live=True)
    max_header_bytes: int = _setting(64 << 10, "size", "limit of a request head in bytes")
    max_headers: int = _setting(100, "positive", "limit of headers in a request")
    header_timeout: float = _setting(10.0, "seconds", "time limit for a request head; 0 is no limit", live=True)
    idle_timeout: float = _setting(75.0, "seconds", "time until an idle connection is closed; 0 is no limit", live=True)
    body_timeout: float = _setting(30.0, "seconds", "time that a request body may stall; 0 is no limit", live=True)
    min_body_rate: int = _setting(
        240, "count", "minimum rate of a request body in bytes per second, from 5 s on; 0 is no limit", live=True
    )
    write_timeout: float = _setting(
        30.0, "seconds", "time that a client may stall a response; 0 is no limit", live=True
    )
    max_connections: int = _setting(16384, "positive", "limit of open connections", live=True)
    max_connections_per_address: int = _setting(
        0, "count", "limit of open connections of one client address, an IPv6 /64 network; 0 is no limit", live=True
    )
    max_connection_age: float = _setting(
        0.0, "seconds", "age at which a client is asked to open another connection; 0 is no limit", live=True
    )
    max_connection_age_grace: float = _setting(
        30.0, "seconds", "time that requests on such a connection have to finish; 0 is no limit", live=True
    )
    http2_keepalive: float = _setting(0.0, "seconds", "interval of pings on HTTP/2 connections; 0 is none")
    http2_keepalive_timeout: float = _setting(
        20.0, "seconds", "time that a client has to acknowledge a ping; 0 is no limit"
    )
    max_inflight_bytes: int | None = _setting(
        None,
        "size|auto",
        "limit of request bodies in memory, in bytes; auto: 1 GiB, or a quarter of the memory limit",
        computed="1GiB, or 25 % of memory.max if that is less",
        live=True,
    )
    memory_shed: float = _setting(
        0.95,
        "share",
        "share of the control group's memory limit above which requests are refused; 0 disables it",
        live=True,
    )
    max_inflate_ratio: int = _setting(
        100, "positive", "limit of the ratio by which a compressed body may grow, beyond 1 MiB", live=True
    )
    max_json_depth: int = _setting(64, "positive", "limit of nesting in a JSON body", live=True)
    request_timeout: float = _setting(
        0.0, "seconds", "time limit for a request from its arrival; 0 is no limit", live=True
    )
    flush_interval: float = _setting(
        0.0, "seconds", "time within which responses of one stream leave together", live=True
    )
    stream_keepalive: float = _setting(
        0.0, "seconds", "silence of an event stream after which a comment is sent; 0 is off", live=True
    )
    stream_resume: float = _setting(
        0.0,
        "seconds",
        "time for which a client that lost its connection can resume an event stream; 0 is off",
        live=True,
    )
    drain_delay: float = _setting(
        0.0, "seconds", "time for which a stopping server still serves, but reports that it is not ready", live=True
    )
    drain_timeout: float = _setting(
        30.0, "seconds", "time that requests have to finish when the server stops", live=True
    )
    upgrade_timeout: float = _setting(
        600.0, "seconds", "time that the new server of `penstock upgrade` has to become ready; 0 is no limit"
    )
    stall_timeout: float = _setting(
        0.0, "seconds", "time without progress of work after which the server reports that it is not live; 0 is off"
    )
    core_dumps: Literal["inherit", "off", "on"] = _setting(
        "inherit", "inherit|off|on", "core dumps of the server and its processes, which have keys and tensors in them"
    )
    dialect: Literal["penstock", "triton", "kserve"] = _setting(
        "penstock",
        "penstock|triton|kserve",
        "server whose error texts, statuses of overload and deadlines, metric names and parsing clients expect",
    )
    timing_headers: bool = _setting(False, "switch", "response headers with the times in the queue and in the handler")
    strict_json: bool = _setting(False, "switch", "null in JSON in place of NaN and infinities")
    compress_answers: bool = _setting(False, "switch", "compression of inference responses for clients that accept it")
    docs: bool = _setting(True, "switch", "OpenAPI description at /openapi.json, and documentation page at /docs")
    live: Literal["off", "local", "on"] = _setting(
        "local",
        "off|local|on",
        "page at /live of what the server does now: off, for this machine, or on for all with access to `debug`",
    )
    batching_debug: Literal["off", "read", "change"] = _setting(
        "off", "off|read|change", "/debug/batching, to read or change the batching of models"
    )
    access_log: Literal["off", "text", "json", "short"] = _setting(
        "off", "off|text|json|short", "log line for each request", live=True
    )
    access_log_fields: tuple[str, ...] = _setting(
        (), "names", "fields of the access log, separated by commas; none: all of them in json, a short line in text"
    )
    access_log_sample: float = _setting(
        1.0, "share", "share of the successful requests in the access log; failed ones are always logged"
    )
    slow_request: float = _setting(
        0.0, "seconds", "duration from which a request is logged as slow, with its parts; 0 is off"
    )
    audit_log: str | None = _setting(
        None, "text|off", "chained log of control changes and denied access: stderr, a file, or off"
    )
    log_level: Literal["off", "error", "warning", "info", "debug"] = _setting(
        "warning",
        "off|error|warning|info|debug",
        "level of messages on standard error; debug adds refused requests; penstock serve has info",
        live=True,
    )
    otlp_endpoint: str = _setting(
        "auto",
        "text",
        "OTLP collector for spans: http, https, grpc or grpcs://HOST:PORT; off; auto for OTEL_EXPORTER_OTLP_ENDPOINT",
        computed="OTEL_EXPORTER_OTLP_ENDPOINT, else off",
    )
    otlp_headers: str | None = _setting(
        None, "secret", "headers of each export, NAME=VALUE,...; env:NAME or file:/path keep them secret"
    )
    otlp_ca: str | None = _setting(None, "text|off", "PEM file of the authorities of the collector's certificate")
    otlp_certificate: str | None = _setting(None, "text|off", "PEM file of the certificate for the collector")
    otlp_key: str | None = _setting(None, "text|off", "PEM file of its key")
    otlp_gen_ai: bool = _setting(
        False,
        "switch",
        "OpenTelemetry's gen_ai attributes on spans of requests whose tokens are recorded",
    )
    trace_sampler: str = _setting(
        "auto",
        "text",
        "sampler: [parentbased_]always_on, always_off, traceidratio:SHARE, or auto for OTEL_TRACES_SAMPLER",
        computed="OTEL_TRACES_SAMPLER, else parentbased_always_on",
    )
    server_name: str | None = _setting(
        None, "text|off", "name in server metadata; default: that of the dialect", computed="name of the dialect"
    )
    server_version: str | None = _setting(
        None, "text|off", "version in server metadata; default: Penstock's version", computed="version of Penstock"
    )
    shared_memory: Literal["off", "local", "on"] = _setting(
        "off", "off|local|on", "clients that may use system shared memory"
    )
    grpc_reflection: bool = _setting(True, "switch", "gRPC reflection service")
    grpc_compression: Literal["off", "gzip", "deflate", "zstd"] = _setting(
        "off", "off|gzip|deflate|zstd", "compression of gRPC responses for clients that accept it"
    )
    http_header_forward_pattern: str | None = _setting(
        None, "pattern", "pattern of HTTP headers that become request parameters"
    )
    grpc_header_forward_pattern: str | None = _setting(
        None, "pattern", "pattern of gRPC metadata that becomes request parameters"
    )
    restricted_access: str | None = _setting(
        None, "rules", "secrets that requests must carry: CATEGORY[,CATEGORY...]:HEADER=SECRET[;...]"
    )
    keys_file: str | None = _setting(
        None, "text|off", "TOML file of the keys that requests must carry, with the scopes and models of each"
    )
    api_key: str | None = _setting(
        None, "secret", "one key for all; env:NAME or file:/path keep it out of the process list"
    )
    cache_redis: str | None = _setting(
        None,
        "secret",
        "URL of a Redis that shares cached responses of models with a revision; env:NAME keeps it secret",
    )
    cloud_events: bool = _setting(False, "switch", "CloudEvents on the inference routes, as requests and responses")
    cloud_events_merge: bool = _setting(False, "switch", "attributes of a CloudEvent request in its response")
    cloud_events_source: str | None = _setting(None, "text|off", "source of CloudEvent responses")
    cloud_events_type: str | None = _setting(None, "text|off", "type of CloudEvent responses")
    sagemaker: bool = _setting(False, "switch", "SageMaker routes /ping and /invocations")
    vertex: bool = _setting(False, "switch", "Vertex AI routes and port, from the AIP_* variables")
    vertex_health_route: str | None = _setting(None, "path|off", "Vertex AI health route; default: AIP_HEALTH_ROUTE")
    vertex_predict_route: str | None = _setting(
        None, "path|off", "Vertex AI prediction route; default: AIP_PREDICT_ROUTE"
    )
    hosted_model: str | None = _setting(
        None, "text|off", "model for SageMaker and Vertex AI; default: the only one", computed="the only model"
    )
    pid_file: str | None = _setting(
        None, "text|off", "file for the process number of `penstock serve`, for `penstock reload` and `upgrade`"
    )
    attach: str | None = _setting(
        None,
        "attach",
        "socket for attaching processes: unix:/path, auto to derive it from the port, or off",
    )
    repository: tuple[str, ...] = _setting((), "folders", "folder of models; may be given several times")
    model_control: Literal["none", "poll", "explicit"] = _setting(
        "none",
        "none|poll|explicit",
        "loading of repositories: at the start (none), on changes (poll), or on request (explicit)",
    )
    load_models: tuple[str, ...] = _setting(
        (), "names", "models of repositories to load at the start, with explicit, separated by commas; * for all"
    )
    load_files: bool = _setting(
        False, "switch", "model files in load requests, with explicit; their code runs in the server"
    )
    poll_interval: float = _setting(15.0, "seconds", "time between two checks of the repositories")
    resources: tuple[tuple[str, int], ...] = _setting(
        (), "amounts", "resources that the instances of all models share: NAME=N,NAME=N"
    )
    version_policy: str = _setting(
        "latest:1", "policy", "versions of a repository's model that serve: latest:N, all, or specific:V,V,..."
    )

    def __post_init__(self) -> None:
        for entry in fields(self):
            kind = entry.metadata["kind"]
            try:
                value = settings.normalised(kind, getattr(self, entry.name))
                settings.check(kind, value)
                object.__setattr__(self, entry.name, value)
            except ValueError as error:
                raise ConfigError(f"{entry.name}: {error}") from None
            if kind == "seconds":
                object.__setattr__(self, entry.name, float(getattr(self, entry.name)))
        # Secrets are read too, so that a missing one is reported before models are loaded.
        for broken in rules.broken({entry.name: getattr(self, entry.name) for entry in fields(self)}):
            raise ConfigError(broken.message)

    @property
    def addresses(self) -> list[str]:
        """All addresses that are on, as configured."""
        further = [entry.partition("=")[2] for entry in self.listeners]
        return [address for address in (self.http, self.grpc, *further, self.admin) if address not in (None, "same")]

    @property
    def access_rules(self) -> list[access.Rule]:
        """Categories, header and secret of each rule of `restricted_access`. Rust reads it."""
        try:
            return access.rules(self.restricted_access, os.environ)
        except ValueError as error:
            raise ConfigError(f"restricted_access: {error}") from None

    @property
    def access_key(self) -> str | None:
        """The key that `api_key` names. Rust reads it."""
        try:
            return access.key(self.api_key, os.environ)
        except ValueError as error:
            raise ConfigError(f"api_key: {error}") from None

    @property
    def cache_url(self) -> str | None:
        """The URL that `cache_redis` names. Rust reads it."""
        try:
            return access.key(self.cache_redis, os.environ)
        except ValueError as error:
            raise ConfigError(f"cache_redis: {error}") from None

    @property
    def _otlp_options(self) -> otlp.Options:
        return otlp.Options(
            endpoint=self.otlp_endpoint,
            sampler=self.trace_sampler,
            service=self.server_name or self.dialect,
            headers=self.otlp_headers,
            ca=self.otlp_ca,
            certificate=self.otlp_certificate,
            key=self.otlp_key,
            gen_ai=self.otlp_gen_ai,
        )

    @property
    def tracing(self) -> otlp.Exporter | None:
        """Exporter settings from `otlp_endpoint` and `trace_sampler`. Rust reads it."""
        try:
            return otlp.read(self._otlp_options, os.environ)
        except ValueError as error:
            raise ConfigError(str(error)) from None


def load_config(
    arguments: Mapping[str, Any] | None = None,
    *,
    base: ServerConfig | None = None,
    command_line: Mapping[str, str] | None = None,
    file: str | None = None,
    environ: Mapping[str, str] | None = None,
    defaults: Mapping[str, str] | None = None,
) -> ServerConfig:
    """Determines all settings, in the order of precedence.

    Args:
        arguments: Values given in Python, by field name.
        base: A complete configuration, instead of command line, environment and file.
        command_line: Flags as text, by field name.
        file: The configuration file; default: `PENSTOCK_CONFIG`, else `penstock.toml` if it exists.
        environ: The environment; `os.environ` by default.
        defaults: Defaults that replace those of `ServerConfig`, as text by field name.

    Raises:
        ConfigError: a setting is unknown or wrong; the message names it and its source.
    """
    given = Sources(
        arguments=arguments or {},
        base=base,
        command_line=command_line or {},
        environ=environ,
        file=file,
        defaults=[Defaults("defaults", defaults or {})],
    )
    return resolve(ServerConfig, given).config()
