"""`ServerOptions`: the fields of `ServerConfig` as keyword arguments, for type checkers.

Generated from `ServerConfig` by `make gen`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Literal, TypedDict

__all__ = ["ServerOptions"]


class ServerOptions(TypedDict, total=False):
    """The fields of `ServerConfig` as keyword arguments. Lists are accepted in several forms, units in texts."""

    http: str | int | None
    grpc: str | int | None
    listeners: str | Iterable[str]
    admin: str | int | None
    admin_only: str | Iterable[str]
    admin_open: bool
    tls_certificate: str | Iterable[str]
    tls_key: str | Iterable[str]
    tls_client: Literal["off", "optional", "required"]
    tls_client_ca: str | None
    tls_client_crl: str | None
    tls_min_version: Literal["1.2", "1.3"]
    tls_reload: float | str
    tls_handshake_timeout: float | str
    allowed_hosts: str | Iterable[str]
    cors_origins: str | Iterable[str]
    hsts: float | str
    trusted_proxies: str | Iterable[str]
    io_threads: int
    max_body_bytes: int | str
    max_header_bytes: int | str
    max_headers: int
    header_timeout: float | str
    idle_timeout: float | str
    body_timeout: float | str
    min_body_rate: int
    write_timeout: float | str
    max_connections: int
    max_connections_per_address: int
    max_connection_age: float | str
    max_connection_age_grace: float | str
    http2_keepalive: float | str
    http2_keepalive_timeout: float | str
    max_inflight_bytes: int | str | None
    memory_shed: float | str
    max_inflate_ratio: int
    max_json_depth: int
    request_timeout: float | str
    flush_interval: float | str
    stream_keepalive: float | str
    stream_resume: float | str
    drain_delay: float | str
    drain_timeout: float | str
    upgrade_timeout: float | str
    stall_timeout: float | str
    core_dumps: Literal["inherit", "off", "on"]
    dialect: Literal["penstock", "triton", "kserve"]
    timing_headers: bool
    strict_json: bool
    compress_answers: bool
    docs: bool
    live: Literal["off", "local", "on"]
    batching_debug: Literal["off", "read", "change"]
    access_log: Literal["off", "text", "json", "short"]
    access_log_fields: str | Iterable[str]
    access_log_sample: float | str
    slow_request: float | str
    audit_log: str | None
    log_level: Literal["off", "error", "warning", "info", "debug"]
    otlp_endpoint: str
    otlp_headers: str | None
    otlp_ca: str | None
    otlp_certificate: str | None
    otlp_key: str | None
    otlp_gen_ai: bool
    trace_sampler: str
    server_name: str | None
    server_version: str | None
    shared_memory: Literal["off", "local", "on"]
    grpc_reflection: bool
    grpc_compression: Literal["off", "gzip", "deflate", "zstd"]
    http_header_forward_pattern: str | None
    grpc_header_forward_pattern: str | None
    restricted_access: str | None
    keys_file: str | None
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
    poll_interval: float | str
    resources: str | Mapping[str, int]
    version_policy: str
