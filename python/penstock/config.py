"""The server's settings. The only module that reads the environment and `penstock.toml`.

One order decides: arguments, command line, `PENSTOCK_*` environment, `penstock.toml`, defaults.
Each field of `ServerConfig` is at once an argument, a flag (`--idle-timeout`), a variable
(`PENSTOCK_IDLE_TIMEOUT`) and a key of the `[server]` table. Text, as flags and variables have it, may
carry units: sizes `64MiB`, `1GB`; durations `500ms`, `30s`, `2m`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any, Literal, TypedDict

from penstock._config import access, otlp, settings
from penstock.errors import ConfigError

__all__ = ["ServerConfig", "ServerOptions", "load_config"]


def _setting(default: Any, kind: str, text: str) -> Any:
    # A configuration is printed, in a notebook say; its secrets are not.
    return field(default=default, repr=kind not in settings.SECRETS, metadata={"kind": kind, "help": text})


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerConfig:
    """The server's settings. Durations are in seconds, sizes in bytes.

    Raises:
        ConfigError: a value is not one that the setting can have; the message names the setting.
    """

    http: str | None = _setting("127.0.0.1:8000", "address", "where HTTP listens: HOST:PORT, unix:/path, or off")
    grpc: str | None = _setting(
        "127.0.0.1:8001", "address|same", "where gRPC listens, in the same forms; `same` puts it on the HTTP port"
    )
    http_also: tuple[str, ...] = _setting(
        (), "addresses", "where HTTP listens beside `http`, in the same forms, separated by commas"
    )
    metrics: str | None = _setting(
        None, "address", "where /metrics, and nothing else, is served to everybody: HOST:PORT, unix:/path, or off"
    )
    allowed_hosts: tuple[str, ...] = _setting(
        (), "hosts", "names that requests may call a loopback address by, beside local ones; * for any"
    )
    io_threads: int = _setting(0, "count", "threads that do network I/O; 0 chooses")
    max_body_bytes: int = _setting(64 << 20, "size", "the largest request body")
    max_header_bytes: int = _setting(64 << 10, "size", "the largest request head")
    max_headers: int = _setting(100, "positive", "the most headers in a request")
    header_timeout: float = _setting(10.0, "seconds", "how long a request head may take to arrive; 0 is no limit")
    idle_timeout: float = _setting(75.0, "seconds", "how long an idle connection is kept; 0 is no limit")
    body_timeout: float = _setting(30.0, "seconds", "how long a body may stall while it arrives; 0 is no limit")
    min_body_rate: int = _setting(240, "count", "bytes per second that a body must come at, from 5 s on; 0 is no limit")
    write_timeout: float = _setting(
        30.0, "seconds", "how long a client may leave an answer without taking a byte; 0 is no limit"
    )
    max_connections: int = _setting(16384, "positive", "the most open connections")
    max_inflight_bytes: int = _setting(1 << 30, "size", "the most bytes of request bodies held at once")
    max_inflate_ratio: int = _setting(
        100, "positive", "how many times its size a compressed body may inflate to, beyond 1 MiB"
    )
    max_json_depth: int = _setting(64, "positive", "the deepest nesting in a JSON body")
    request_timeout: float = _setting(0.0, "seconds", "the longest a request may take from arrival; 0 is no limit")
    drain_timeout: float = _setting(30.0, "seconds", "how long a stopping server waits for requests to finish")
    overload_status: Literal[429, 503] = _setting(429, "429|503", "the HTTP status of a refusal for overload")
    timeout_status: Literal[504, 503] = _setting(504, "504|503", "the HTTP status when a deadline has passed")
    timing_headers: bool = _setting(False, "switch", "answer with the time spent in the queue and in the handler")
    triton_metrics: bool = _setting(False, "switch", "show models' numbers under Triton's metric names too")
    strict_json: bool = _setting(False, "switch", "write NaN and infinities as null, as strict JSON has neither")
    compress_answers: bool = _setting(False, "switch", "compress inference answers for clients that ask for it")
    docs: bool = _setting(True, "switch", "serve a description of the API at /openapi.json, and a page of it at /docs")
    batching_debug: Literal["off", "read", "change"] = _setting(
        "off", "off|read|change", "serve /debug/batching, and let clients change how models batch"
    )
    access_log: Literal["off", "text", "json"] = _setting("off", "off|text|json", "one log line per request")
    log_level: Literal["off", "error", "warning", "info"] = _setting(
        "warning", "off|error|warning|info", "what the server says of itself on standard error"
    )
    otlp_endpoint: str = _setting(
        "auto", "text", "where spans go: http://HOST:PORT, off, or auto for what OTEL_EXPORTER_OTLP_ENDPOINT says"
    )
    trace_sampler: str = _setting(
        "auto",
        "text",
        "which requests are traced: [parentbased_]always_on, always_off or traceidratio:SHARE, or auto for what "
        "OTEL_TRACES_SAMPLER says",
    )
    server_name: str = _setting("penstock", "text", "the name in server metadata")
    server_version: str | None = _setting(None, "text|off", "the version in server metadata; else Penstock's own")
    unknown_model_text: str = _setting(
        "unknown model '{name}'", "text", "what is answered of a model that is not there, with {name} for its name"
    )
    unready_model_text: str = _setting(
        "model '{name}' is not ready", "text", "what is answered of a model that takes no requests now, likewise"
    )
    shared_memory: Literal["off", "local", "on"] = _setting("off", "off|local|on", "who may use system shared memory")
    grpc_reflection: bool = _setting(True, "switch", "tell gRPC tools of the services and their messages")
    grpc_compression: Literal["off", "gzip", "deflate", "zstd"] = _setting(
        "off", "off|gzip|deflate|zstd", "compress gRPC answers for clients that accept it"
    )
    http_header_forward_pattern: str | None = _setting(
        None, "pattern", "HTTP headers whose names match become parameters of the request"
    )
    grpc_header_forward_pattern: str | None = _setting(
        None, "pattern", "gRPC metadata whose keys match becomes parameters of the request"
    )
    restricted_access: str | None = _setting(
        None, "rules", "secrets that requests must carry: CATEGORY[,CATEGORY...]:HEADER=SECRET[;...]"
    )
    api_key: str | None = _setting(
        None, "secret", "the key that every request must carry; better env:NAME or file:/path than the key itself"
    )
    cache_redis: str | None = _setting(
        None, "secret", "the URL of a Redis where servers share what models with a revision keep; better env:NAME"
    )
    cloud_events: bool = _setting(False, "switch", "take CloudEvents on the inference routes, and answer with events")
    cloud_events_merge: bool = _setting(False, "switch", "keep the attributes of a CloudEvent in its answer")
    cloud_events_source: str | None = _setting(None, "text|off", "the source of answering CloudEvents")
    cloud_events_type: str | None = _setting(None, "text|off", "the type of answering CloudEvents")
    sagemaker: bool = _setting(False, "switch", "serve /ping and /invocations, as SageMaker calls them")
    vertex: bool = _setting(False, "switch", "serve the routes, and on the port, that Vertex AI's AIP_* variables name")
    vertex_health_route: str | None = _setting(None, "path|off", "Vertex AI's health route; else AIP_HEALTH_ROUTE")
    vertex_predict_route: str | None = _setting(
        None, "path|off", "Vertex AI's prediction route; else AIP_PREDICT_ROUTE"
    )
    hosted_model: str | None = _setting(None, "text|off", "the model of these platforms; else the only one")
    pid_file: str | None = _setting(
        None, "text|off", "a file that holds the process number while `penstock serve` runs, for `penstock reload`"
    )
    attach: str | None = _setting(
        None,
        "attach",
        "where processes of this machine and user attach models: unix:/path, auto for a place that they find by the "
        "port, or off",
    )
    repository: tuple[str, ...] = _setting((), "folders", "a folder of models; may be given several times")
    model_control: Literal["none", "poll", "explicit"] = _setting(
        "none",
        "none|poll|explicit",
        "models of the repositories serve as they are at the start (none), as they are now (poll), or when a client "
        "loads them (explicit)",
    )
    load_models: tuple[str, ...] = _setting(
        (), "names", "with explicit: models of the repositories to load at the start, separated by commas; * for all"
    )
    load_files: bool = _setting(
        False, "switch", "with explicit: take a model's files from a request to load it, whose code then runs here"
    )
    poll_interval: float = _setting(15.0, "seconds", "how often the repositories are looked at")
    resources: tuple[tuple[str, int], ...] = _setting(
        (), "amounts", "what the instances of all models share, and how much of it: NAME=N,NAME=N"
    )
    version_policy: str = _setting(
        "latest:1", "policy", "which versions of a repository's model serve: latest:N, all, or specific:V,V,..."
    )

    def __post_init__(self) -> None:
        for entry in fields(self):
            kind = entry.metadata["kind"]
            try:
                if kind in settings.LISTS:
                    object.__setattr__(self, entry.name, settings.listed(kind, getattr(self, entry.name)))
                settings.check(kind, getattr(self, entry.name))
            except ValueError as error:
                raise ConfigError(f"{entry.name}: {error}") from None
            if kind == "seconds":
                object.__setattr__(self, entry.name, float(getattr(self, entry.name)))
        # Read now, so that a secret that is not there is known before a model is loaded.
        _ = self.access_rules, self.access_key, self.cache_url, self.tracing
        if self.grpc == "same" and self.http is None:
            raise ConfigError("grpc: 'same' is the HTTP port, but http is off")
        if self.http_also and self.http is None:
            raise ConfigError("http_also: has no meaning where http is off")
        for name, (_, variable) in _VERTEX_ROUTES.items():
            if self.vertex and getattr(self, name) is None:
                raise ConfigError(f"vertex: there is no {name}, and {variable} is not in the environment")
        if self.load_models and self.model_control != "explicit":
            raise ConfigError("load_models: has no meaning unless model_control is explicit")
        if self.load_files and self.model_control != "explicit":
            raise ConfigError("load_files: has no meaning unless model_control is explicit")
        if self.poll_interval == 0:
            raise ConfigError("poll_interval: 0.0 is not a duration above 0 seconds")

    @property
    def access_rules(self) -> list[access.Rule]:
        """What `restricted_access` asks for: categories, header and secret of each rule. Rust reads it."""
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
    def tracing(self) -> otlp.Settings | None:
        """Where spans go and of which requests, as `otlp_endpoint` and `trace_sampler` say. Rust reads it."""
        try:
            return otlp.read(self.otlp_endpoint, self.trace_sampler, self.server_name, os.environ)
        except ValueError as error:
            raise ConfigError(str(error)) from None


class ServerOptions(TypedDict, total=False):
    """The fields of `ServerConfig` as keyword arguments; the same names and types."""

    http: str | None
    grpc: str | None
    http_also: str | Iterable[str]
    metrics: str | None
    allowed_hosts: str | Iterable[str]
    io_threads: int
    max_body_bytes: int
    max_header_bytes: int
    max_headers: int
    header_timeout: float
    idle_timeout: float
    body_timeout: float
    min_body_rate: int
    write_timeout: float
    max_connections: int
    max_inflight_bytes: int
    max_inflate_ratio: int
    max_json_depth: int
    request_timeout: float
    drain_timeout: float
    overload_status: Literal[429, 503]
    timeout_status: Literal[504, 503]
    timing_headers: bool
    triton_metrics: bool
    strict_json: bool
    compress_answers: bool
    docs: bool
    batching_debug: Literal["off", "read", "change"]
    access_log: Literal["off", "text", "json"]
    log_level: Literal["off", "error", "warning", "info"]
    otlp_endpoint: str
    trace_sampler: str
    server_name: str
    server_version: str | None
    unknown_model_text: str
    unready_model_text: str
    shared_memory: Literal["off", "local", "on"]
    grpc_reflection: bool
    grpc_compression: Literal["off", "gzip", "deflate", "zstd"]
    http_header_forward_pattern: str | None
    grpc_header_forward_pattern: str | None
    restricted_access: str | None
    api_key: str | None
    cache_redis: str | None
    cloud_events: bool
    cloud_events_merge: bool
    cloud_events_source: str | None
    cloud_events_type: str | None
    sagemaker: bool
    vertex: bool
    vertex_health_route: str | None
    vertex_predict_route: str | None
    hosted_model: str | None
    pid_file: str | None
    attach: str | None
    repository: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
    model_control: Literal["none", "poll", "explicit"]
    load_models: str | Iterable[str]
    load_files: bool
    poll_interval: float
    resources: str | Mapping[str, int]
    version_policy: str


def load_config(
    arguments: Mapping[str, Any] | None = None,
    *,
    base: ServerConfig | None = None,
    command_line: Mapping[str, str] | None = None,
    file: str | None = None,
    environ: Mapping[str, str] | None = None,
    defaults: Mapping[str, str] | None = None,
) -> ServerConfig:
    """Settles every setting in the documented order.

    Args:
        arguments: Values given in Python, by field name.
        base: A complete configuration, instead of command line, environment and file.
        command_line: The flags that were given, as text by field name.
        file: The configuration file; else `PENSTOCK_CONFIG`, else `penstock.toml` if it is there.
        environ: The environment; `os.environ` by default.
        defaults: What holds where none of these says otherwise, as text by field name.

    Raises:
        ConfigError: a setting is unknown or wrong; the message names it and where it came from.
    """
    values: dict[str, Any] = {}
    if base is None:
        environ = os.environ if environ is None else environ
        values.update(settings.read_file(file, environ, _FIELDS))
        values.update(_from_text(environ, lambda name: f"PENSTOCK_{name.upper()}"))
        values.update(_from_text(command_line or {}, lambda name: name, shown=_flag))
    given = dict(arguments or {})
    for name in given:
        if name not in _FIELDS:
            raise ConfigError(f"unknown setting {name!r}{settings.suggestion(name, _FIELDS)}")
    values.update(given)
    if base is None and values.get("vertex"):
        values = {**_from_vertex(environ or {}), **values}
    if base is not None:
        return replace(base, **values)
    return ServerConfig(**{**settings.read_texts(defaults or {}, "defaults", _FIELDS), **values})


_VERTEX_ROUTES = {
    "vertex_health_route": ("path|off", "AIP_HEALTH_ROUTE"),
    "vertex_predict_route": ("path|off", "AIP_PREDICT_ROUTE"),
}


def _from_vertex(environ: Mapping[str, str]) -> dict[str, Any]:
    """What Vertex AI tells a container. It is read only when `vertex` is on, and stands behind every other source."""
    found: dict[str, Any] = {}
    for name, (kind, variable) in _VERTEX_ROUTES.items():
        if variable in environ:
            found[name] = _parsed(variable, kind, environ[variable])
    if "AIP_HTTP_PORT" in environ:
        port = _parsed("AIP_HTTP_PORT", "positive", environ["AIP_HTTP_PORT"])
        found["http"] = f"0.0.0.0:{port}"
    return found


def _parsed(shown: str, kind: str, text: str) -> Any:
    try:
        return settings.parse(kind, text)
    except ValueError as error:
        raise ConfigError(f"{shown}: {error}") from None


def _from_text(source: Mapping[str, str], key: Any, shown: Any = None) -> dict[str, Any]:
    # Other PENSTOCK_* variables are left alone: Kubernetes sets PENSTOCK_PORT and the like for a
    # service of that name, and none of them is the name of a field.
    found = {}
    for name, entry in _FIELDS.items():
        text = source.get(key(name))
        if text is None:
            continue
        found[name] = _parsed((shown or key)(name), entry.metadata["kind"], text)
    return found


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


_FIELDS: dict[str, Field[Any]] = {entry.name: entry for entry in fields(ServerConfig)}
