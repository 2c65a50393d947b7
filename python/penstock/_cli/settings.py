"""Flags of `penstock serve` for the settings of the server, in groups."""

from __future__ import annotations

import argparse
from dataclasses import fields
from typing import Any

from penstock._config import settings
from penstock._config.value_text import shown
from penstock.config import ServerConfig

__all__ = ["GROUPS", "add_settings"]

GROUPS = {
    "addresses": (
        "http",
        "grpc",
        "listeners",
        "admin",
        "admin_only",
        "admin_open",
        "allowed_hosts",
        "cors_origins",
        "hsts",
        "trusted_proxies",
        "attach",
        "pid_file",
    ),
    "TLS": (
        "tls_certificate",
        "tls_key",
        "tls_client",
        "tls_client_ca",
        "tls_client_crl",
        "tls_min_version",
        "tls_reload",
        "tls_handshake_timeout",
    ),
    "model repositories": (
        "repository",
        "model_control",
        "load_models",
        "load_files",
        "poll_interval",
        "version_policy",
    ),
    "access": ("keys_file", "api_key", "restricted_access", "shared_memory", "cache_redis", "core_dumps"),
    "logs, traces and documentation": (
        "log_level",
        "access_log",
        "access_log_fields",
        "access_log_sample",
        "slow_request",
        "audit_log",
        "timing_headers",
        "otlp_endpoint",
        "otlp_headers",
        "otlp_ca",
        "otlp_certificate",
        "otlp_key",
        "otlp_gen_ai",
        "trace_sampler",
        "docs",
        "live",
        "grpc_reflection",
        "batching_debug",
    ),
    "times": (
        "request_timeout",
        "drain_delay",
        "drain_timeout",
        "upgrade_timeout",
        "stall_timeout",
        "idle_timeout",
        "header_timeout",
        "body_timeout",
        "write_timeout",
        "max_connection_age",
        "max_connection_age_grace",
        "http2_keepalive",
        "http2_keepalive_timeout",
        "flush_interval",
        "stream_keepalive",
        "stream_resume",
    ),
    "limits and threads": (
        "io_threads",
        "resources",
        "max_body_bytes",
        "max_inflight_bytes",
        "memory_shed",
        "max_connections",
        "max_connections_per_address",
        "max_header_bytes",
        "max_headers",
        "max_json_depth",
        "max_inflate_ratio",
        "min_body_rate",
    ),
    "protocol": (
        "dialect",
        "strict_json",
        "compress_answers",
        "grpc_compression",
        "server_name",
        "server_version",
        "http_header_forward_pattern",
        "grpc_header_forward_pattern",
    ),
    "platforms": (
        "sagemaker",
        "vertex",
        "vertex_health_route",
        "vertex_predict_route",
        "hosted_model",
        "cloud_events",
        "cloud_events_merge",
        "cloud_events_source",
        "cloud_events_type",
    ),
}
"""Settings by the title of their group in the help, the most used ones first."""


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Adds a flag for each setting."""
    known = {setting.name: setting for setting in fields(ServerConfig)}
    for title, names in GROUPS.items():
        group = parser.add_argument_group(title)
        for name in names:
            setting = known[name]
            _add_setting(group, name, setting.metadata["kind"], setting.metadata["help"], setting.default)


def _add_setting(parser: Any, name: str, kind: str, text: str, default: Any) -> None:
    flag = "--" + name.replace("_", "-")
    description = f"{text} (default: {shown(kind, default)})".replace("%", "%%")
    # The text is only checked here; config.py converts it.
    reader = _checked(kind)
    if kind == "switch":
        group = parser.add_mutually_exclusive_group()
        group.add_argument(flag, dest=name, action="store_const", const="true", help=description)
        group.add_argument(f"--no-{flag[2:]}", dest=name, action="store_const", const="false", help=argparse.SUPPRESS)
    else:
        # Folders are given one by one, since their names may contain commas and colons.
        action = "append" if kind == "folders" else "store"
        parser.add_argument(
            flag, dest=name, action=action, metavar=_METAVARS.get(kind, kind), type=reader, help=description
        )


def _checked(kind: str) -> Any:
    def read(text: str) -> str:
        try:
            settings.parse(kind, text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
        return text

    return read


_METAVARS = {
    "address": "ADDRESS",
    "seconds": "TIME",
    "size": "SIZE",
    "size|auto": "SIZE",
    "share": "SHARE",
    "count": "N",
    "positive": "N",
    "text": "TEXT",
    "attach": "ADDRESS",
    "pattern": "PATTERN",
    "rules": "RULES",
    "secret": "SECRET",
    "folders": "DIR",
    "names": "NAMES",
    "files": "FILES",
    "listeners": "LISTENERS",
    "hosts": "NAMES",
    "origins": "ORIGINS",
    "networks": "NETWORKS",
    "policy": "POLICY",
}
