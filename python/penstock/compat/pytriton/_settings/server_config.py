"""Translation of `TritonConfig` to Penstock's `ServerConfig`, and the fields of it that have no effect."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from penstock import ServerConfig
from penstock.compat.pytriton._settings.cache import cache_settings
from penstock.compat.pytriton._settings.security import TritonSecurityConfig, access_rules
from penstock.compat.pytriton._settings.triton_config import TritonConfig
from penstock.compat.pytriton.constants import (
    DEFAULT_GRPC_PORT,
    DEFAULT_HTTP_PORT,
    DEFAULT_METRICS_PORT,
    TRITON_LOCAL_IP,
)
from penstock.compat.pytriton.exceptions import PyTritonValidationError
from penstock.config import load_config

__all__ = ["client_address", "server_config", "warn_unused"]

LOGGER = logging.getLogger("pytriton.triton")

ALL_INTERFACES = "0.0.0.0"  # noqa: S104 - PyTriton's default
HOSTING_PORT = 8080
"""Default port of SageMaker and Vertex AI."""

WITHOUT_MEANING = {
    "model_repository": "models are bound, not loaded from a folder",
    "log_file": "the log goes to standard error",
    "exit_on_error": "a failed start raises an exception",
    "strict_readiness": "a server is ready when all its models are",
    "http_thread_count": "PENSTOCK_IO_THREADS sets the threads of both protocols",
    "grpc_infer_allocation_pool_size": "Penstock has no such pool",
    "grpc_server_cert": "TLS is not supported",
    "grpc_server_key": "TLS is not supported",
    "grpc_root_cert": "TLS is not supported",
    "grpc_keepalive_time": "the server sends no pings",
    "grpc_keepalive_timeout": "the server sends no pings",
    "grpc_keepalive_permit_without_calls": "the server sends no pings",
    "grpc_http2_max_pings_without_data": "the server sends no pings",
    "grpc_http2_min_recv_ping_interval_without_data": "a client's pings are not counted",
    "grpc_http2_max_ping_strikes": "a client's pings are not counted",
    "allow_gpu_metrics": "Penstock has no device metrics",
    "allow_cpu_metrics": "Penstock has no device metrics",
    "metrics_interval_ms": "metrics are collected on request",
    "metrics_config": "all metrics are always exported",
    "sagemaker_safe_port_range": "SageMaker has its own port",
    "sagemaker_thread_count": "PENSTOCK_IO_THREADS sets the threads of all protocols",
    "vertex_ai_thread_count": "PENSTOCK_IO_THREADS sets the threads of all protocols",
    "cache_directory": "caches are built in",
    "buffer_manager_thread_count": "Penstock has no such threads",
}
"""Fields of `TritonConfig` without an effect, and the reason for each."""

PYTRITON_DEFAULTS: dict[str, Any] = {
    "max_body_bytes": 2 << 30,
    "max_inflight_bytes": 1 << 40,
    "idle_timeout": 0.0,
    "model_control": "explicit",
    "attach": "auto",
}
"""Defaults in place of Penstock's, which would reject requests that PyTriton accepts."""

_warned: set[str] = set()


def warn_unused(config: TritonConfig) -> None:
    """Logs settings without an effect, once per process."""
    for name, why in WITHOUT_MEANING.items():
        if getattr(config, name) is not None and name not in _warned:
            _warned.add(name)
            LOGGER.warning("TritonConfig.%s has no effect: %s", name, why)


def server_config(config: TritonConfig, security: TritonSecurityConfig) -> ServerConfig:
    """Returns Penstock's settings. `PENSTOCK_*` variables set what PyTriton has no setting for.

    Raises:
        PyTritonValidationError: a setting is not supported.
        ConfigError: an address, a pattern or a rule is invalid.
    """
    if config.grpc_use_ssl or config.grpc_use_ssl_mutual:
        raise PyTritonValidationError(
            "grpc_use_ssl: TLS is not supported, and plain text is no replacement: terminate TLS in a proxy"
        )
    rules = access_rules(security, config.http_restricted_api, config.grpc_restricted_protocol)
    is_protected = "shared-memory" in (security.restricted_endpoints or ()) and bool(security.access_token)
    settings: dict[str, Any] = {
        **_pytriton_defaults(),
        **_addresses(config),
        **_hosting(config),
        **_tracing(config.trace_config or ()),
        "dialect": "triton",
        "server_name": config.id or None,
        "server_version": "2.51.0",
        "restricted_access": rules,
        "shared_memory": "on" if is_protected else "local",
        "http_header_forward_pattern": config.http_header_forward_pattern or None,
        "grpc_header_forward_pattern": config.grpc_header_forward_pattern or None,
        "grpc_compression": _compression(config.grpc_infer_response_compression_level),
        "cache_redis": cache_settings(config).redis,
    }
    if config.exit_timeout_secs is not None:
        settings["drain_timeout"] = float(config.exit_timeout_secs)
    if config.log_verbose:
        settings |= {"access_log": "text", "log_level": "info"}
    return load_config(settings)


def client_address(address: str) -> str:
    """Returns the address for clients on this machine: a wildcard host becomes the loopback address."""
    host, _, port = address.rpartition(":")
    return f"{TRITON_LOCAL_IP if host in (ALL_INTERFACES, '[::]') else host}:{port}"


def _pytriton_defaults() -> dict[str, Any]:
    # Values that the environment or a file sets for Penstock take precedence over these.
    configured, defaults = load_config(), ServerConfig()
    return {
        name: value for name, value in PYTRITON_DEFAULTS.items() if getattr(configured, name) == getattr(defaults, name)
    }


def _addresses(config: TritonConfig) -> dict[str, Any]:
    """Returns the listeners, including the ports of hosting platforms."""
    http = _host_port(config.http_address or ALL_INTERFACES, _port(config.http_port, DEFAULT_HTTP_PORT))
    grpc = _host_port(config.grpc_address or ALL_INTERFACES, _port(config.grpc_port, DEFAULT_GRPC_PORT))
    metrics_host = config.metrics_address or config.http_address or ALL_INTERFACES
    metrics = _host_port(metrics_host, _port(config.metrics_port, DEFAULT_METRICS_PORT))
    http_addresses = [http] if config.allow_http in (True, None) else []
    ports = {one.rpartition(":")[2] for one in http_addresses}
    for allowed, port in (
        (config.allow_sagemaker, config.sagemaker_port),
        (config.allow_vertex_ai, config.vertex_ai_port),
    ):
        hosting_port = str(_port(port, HOSTING_PORT))
        if allowed and (hosting_port not in ports or hosting_port == "0"):
            ports.add(hosting_port)
            http_addresses.append(f"{ALL_INTERFACES}:{hosting_port}")
    listeners = [f"http={address}" for address in http_addresses[1:]]
    if config.allow_metrics in (True, None):
        listeners.append(f"metrics={metrics}")
    return {
        "http": http_addresses[0] if http_addresses else None,
        "grpc": grpc if config.allow_grpc in (True, None) else None,
        "listeners": tuple(listeners),
    }


def _port(given: int | None, default: int) -> int:
    return default if given is None else given


def _host_port(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host and not host.startswith("[") else f"{host}:{port}"


def _hosting(config: TritonConfig) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    if config.allow_sagemaker:
        settings["sagemaker"] = True
    if config.allow_vertex_ai:
        settings |= {"vertex": True, "hosted_model": config.vertex_ai_default_model}
    return settings


def _tracing(trace_config: Sequence[str]) -> dict[str, Any]:
    """Returns the settings of the span exporter. Spans need the mode `opentelemetry`, a collector URL and a level."""
    settings = dict(one.partition("=")[::2] for one in trace_config)
    url = settings.get("opentelemetry,url", "")
    if settings.get("mode") != "opentelemetry" or settings.get("level", "OFF").upper() == "OFF" or not url:
        return {}
    if urlsplit(url).scheme != "http":
        LOGGER.warning("trace_config: spans of the server itself are sent over http:// only, not to %s", url)
        return {}
    rate = settings.get("rate", "1000")
    if not rate.isdecimal():
        raise PyTritonValidationError(f"trace_config: the rate {rate!r} is not a number")
    sampler = f"parentbased_traceidratio:{1 / int(rate):.9f}" if int(rate) else "always_off"
    return {"otlp_endpoint": url, "trace_sampler": sampler}


def _compression(level: str | None) -> str:
    if level not in (None, "none", "low", "medium", "high"):
        raise PyTritonValidationError(
            f"grpc_infer_response_compression_level: {level!r} is not one of none, low, medium, high"
        )
    return "off" if level in (None, "none") else "gzip"
