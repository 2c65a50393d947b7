"""What `TritonConfig` means: Penstock's settings, and which of its fields have no meaning here."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from penstock import ServerConfig
from penstock.compat.pytriton._settings.cache import caching_of
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

__all__ = ["reachable", "server_config", "tell_unused"]

LOGGER = logging.getLogger("pytriton.triton")

EVERYWHERE = "0.0.0.0"  # noqa: S104 - PyTriton's default
HOSTED_PORT = 8080
"""Where SageMaker and Vertex AI call, unless told otherwise."""

WITHOUT_MEANING = {
    "model_repository": "models are bound, and lie in no folder",
    "log_file": "the log goes to standard error",
    "exit_on_error": "a server that cannot start raises",
    "strict_readiness": "a server is ready when all its models are",
    "http_thread_count": "PENSTOCK_IO_THREADS sets the threads of both protocols",
    "grpc_infer_allocation_pool_size": "there is no such pool",
    "grpc_server_cert": "there is no TLS",
    "grpc_server_key": "there is no TLS",
    "grpc_root_cert": "there is no TLS",
    "grpc_keepalive_time": "the server sends no pings",
    "grpc_keepalive_timeout": "the server sends no pings",
    "grpc_keepalive_permit_without_calls": "the server sends no pings",
    "grpc_http2_max_pings_without_data": "the server sends no pings",
    "grpc_http2_min_recv_ping_interval_without_data": "a client's pings are not counted",
    "grpc_http2_max_ping_strikes": "a client's pings are not counted",
    "allow_gpu_metrics": "there are no metrics of devices",
    "allow_cpu_metrics": "there are no metrics of devices",
    "metrics_interval_ms": "metrics are collected when they are asked for",
    "metrics_config": "all metrics are always there",
    "sagemaker_safe_port_range": "it has a port of its own",
    "sagemaker_thread_count": "PENSTOCK_IO_THREADS sets the threads of all protocols",
    "vertex_ai_thread_count": "PENSTOCK_IO_THREADS sets the threads of all protocols",
    "cache_directory": "caches are built in",
    "buffer_manager_thread_count": "there are no such threads",
}
"""Fields of `TritonConfig` that change nothing here, and why."""

LIKE_PYTRITON: dict[str, Any] = {
    "max_body_bytes": 2 << 30,
    "max_inflight_bytes": 1 << 40,
    "idle_timeout": 0.0,
    "model_control": "explicit",
    "attach": "auto",
}
"""Where Penstock's own defaults would refuse what PyTriton takes."""

_told: set[str] = set()


def tell_unused(config: TritonConfig) -> None:
    """Says in the log, once in a process, which settings were given that change nothing."""
    for name, why in WITHOUT_MEANING.items():
        if getattr(config, name) is not None and name not in _told:
            _told.add(name)
            LOGGER.warning("TritonConfig.%s changes nothing here: %s", name, why)


def server_config(config: TritonConfig, security: TritonSecurityConfig) -> ServerConfig:
    """Penstock's settings. What PyTriton has no setting for is as `PENSTOCK_*` variables say.

    Raises:
        PyTritonValidationError: a setting cannot be kept.
        ConfigError: an address, a pattern or a rule is none.
    """
    if config.grpc_use_ssl or config.grpc_use_ssl_mutual:
        raise PyTritonValidationError(
            "grpc_use_ssl: the server speaks no TLS, and nothing may be served in the clear instead: have a proxy "
            "in front of it speak TLS"
        )
    rules = access_rules(security, config.http_restricted_api, config.grpc_restricted_protocol)
    guarded = "shared-memory" in (security.restricted_endpoints or ()) and bool(security.access_token)
    settings: dict[str, Any] = {
        **_own_defaults(),
        **_addresses(config),
        **_hosting(config),
        **_tracing(config.trace_config or ()),
        "server_name": config.id or "triton",
        "server_version": "2.51.0",
        "triton_metrics": True,
        "restricted_access": rules,
        "shared_memory": "on" if guarded else "local",
        "http_header_forward_pattern": config.http_header_forward_pattern or None,
        "grpc_header_forward_pattern": config.grpc_header_forward_pattern or None,
        "grpc_compression": _compression(config.grpc_infer_response_compression_level),
        "cache_redis": caching_of(config).redis,
    }
    if config.exit_timeout_secs is not None:
        settings["drain_timeout"] = float(config.exit_timeout_secs)
    if config.log_verbose:
        settings |= {"access_log": "text", "log_level": "info"}
    return load_config(settings)


def reachable(address: str) -> str:
    """Where clients of this machine reach a server that listens there: all interfaces are none to connect to."""
    host, _, port = address.rpartition(":")
    return f"{TRITON_LOCAL_IP if host in (EVERYWHERE, '[::]') else host}:{port}"


def _own_defaults() -> dict[str, Any]:
    # What the environment or a file sets for Penstock stands above these.
    own, penstock = load_config(), ServerConfig()
    return {name: value for name, value in LIKE_PYTRITON.items() if getattr(own, name) == getattr(penstock, name)}


def _addresses(config: TritonConfig) -> dict[str, Any]:
    """Where it listens, the ports that platforms call too."""
    http = _joined(config.http_address or EVERYWHERE, _port(config.http_port, DEFAULT_HTTP_PORT))
    grpc = _joined(config.grpc_address or EVERYWHERE, _port(config.grpc_port, DEFAULT_GRPC_PORT))
    where = config.metrics_address or config.http_address or EVERYWHERE
    metrics = _joined(where, _port(config.metrics_port, DEFAULT_METRICS_PORT))
    spoken = [http] if config.allow_http in (True, None) else []
    ports = {one.rpartition(":")[2] for one in spoken}
    for allowed, port in (
        (config.allow_sagemaker, config.sagemaker_port),
        (config.allow_vertex_ai, config.vertex_ai_port),
    ):
        hosted = str(_port(port, HOSTED_PORT))
        if allowed and (hosted not in ports or hosted == "0"):
            ports.add(hosted)
            spoken.append(f"{EVERYWHERE}:{hosted}")
    return {
        "http": spoken[0] if spoken else None,
        "http_also": tuple(spoken[1:]),
        "grpc": grpc if config.allow_grpc in (True, None) else None,
        "metrics": metrics if config.allow_metrics in (True, None) else None,
    }


def _port(given: int | None, default: int) -> int:
    return default if given is None else given


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host and not host.startswith("[") else f"{host}:{port}"


def _hosting(config: TritonConfig) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if config.allow_sagemaker:
        found["sagemaker"] = True
    if config.allow_vertex_ai:
        found |= {"vertex": True, "hosted_model": config.vertex_ai_default_model}
    return found


def _tracing(said: Sequence[str]) -> dict[str, Any]:
    """Spans are sent where their mode is OpenTelemetry's, there is a collector, and a level asks for them."""
    settings = dict(one.partition("=")[::2] for one in said)
    url = settings.get("opentelemetry,url", "")
    if settings.get("mode") != "opentelemetry" or settings.get("level", "OFF").upper() == "OFF" or not url:
        return {}
    if urlsplit(url).scheme != "http":
        LOGGER.warning("trace_config: spans of the server itself are sent over http:// only, and so not to %s", url)
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
