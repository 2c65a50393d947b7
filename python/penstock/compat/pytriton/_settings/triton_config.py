"""`TritonConfig`: the settings of PyTriton's server, from arguments, a dictionary or the environment."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from penstock.compat.pytriton.exceptions import PyTritonValidationError

__all__ = ["TritonConfig", "merged"]

LOGGER = logging.getLogger("pytriton.triton")

_PREFIX = "PYTRITON_TRITON_CONFIG_"
_NUMBERED = re.compile(r"(.+?)_(\d+)")
_BOOLEANS = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}


@dataclass(kw_only=True)
class TritonConfig:
    """Settings of the server; None means the default.

    Settings without an effect are accepted, and logged once. docs/pytriton.md lists them.

    Raises:
        PyTritonValidationError: both HTTP and gRPC are disabled.
    """

    model_repository: Path | None = None
    id: str | None = None
    log_verbose: int | None = None
    log_file: Path | None = None
    exit_timeout_secs: int | None = None
    exit_on_error: bool | None = None
    strict_readiness: bool | None = None
    allow_http: bool | None = None
    http_address: str | None = None
    http_port: int | None = None
    http_header_forward_pattern: str | None = None
    http_thread_count: int | None = None
    http_restricted_api: str | None = None
    allow_grpc: bool | None = None
    grpc_address: str | None = None
    grpc_port: int | None = None
    grpc_header_forward_pattern: str | None = None
    grpc_infer_allocation_pool_size: int | None = None
    grpc_use_ssl: bool | None = None
    grpc_use_ssl_mutual: bool | None = None
    grpc_server_cert: Path | None = None
    grpc_server_key: Path | None = None
    grpc_root_cert: Path | None = None
    grpc_infer_response_compression_level: str | None = None
    grpc_keepalive_time: int | None = None
    grpc_keepalive_timeout: int | None = None
    grpc_keepalive_permit_without_calls: bool | None = None
    grpc_http2_max_pings_without_data: int | None = None
    grpc_http2_min_recv_ping_interval_without_data: int | None = None
    grpc_http2_max_ping_strikes: int | None = None
    grpc_restricted_protocol: str | None = None
    allow_metrics: bool | None = None
    allow_gpu_metrics: bool | None = None
    allow_cpu_metrics: bool | None = None
    metrics_interval_ms: int | None = None
    metrics_port: int | None = None
    metrics_address: str | None = None
    allow_sagemaker: bool | None = None
    sagemaker_port: int | None = None
    sagemaker_safe_port_range: str | None = None
    sagemaker_thread_count: int | None = None
    allow_vertex_ai: bool | None = None
    vertex_ai_port: int | None = None
    vertex_ai_thread_count: int | None = None
    vertex_ai_default_model: str | None = None
    metrics_config: list[str] | None = None
    trace_config: list[str] | None = None
    cache_config: list[str] | None = None
    cache_directory: str | None = None
    buffer_manager_thread_count: int | None = None

    def __post_init__(self) -> None:
        if self.allow_http not in (True, None) and self.allow_grpc not in (True, None):
            raise PyTritonValidationError("The `http` or `grpc` endpoint has to be allowed.")

    def to_dict(self) -> dict[str, Any]:
        """Returns all settings by name."""
        return asdict(self)

    @classmethod
    def from_dict(cls, config: Mapping[str, Any]) -> TritonConfig:
        """Returns the settings of a dictionary, converted to the types of the fields. Unknown names are logged.

        Raises:
            ValueError: a value does not fit the type of its field; the message names the field.
        """
        types = {each.name: str(each.type).removesuffix(" | None") for each in fields(cls)}
        for name, value in config.items():
            if name not in types:
                LOGGER.warning(
                    "Ignoring %s=%s as could not find matching config field. Available fields: %s",
                    name,
                    value,
                    ", ".join(types),
                )
        return cls(**{name: _convert(name, types[name], value) for name, value in config.items() if name in types})

    @classmethod
    def from_env(cls) -> TritonConfig:
        """Returns the settings of the variables `PYTRITON_TRITON_CONFIG_<FIELD>`, for list items `..._<FIELD>_<INDEX>`.

        Raises:
            ValueError: a value does not fit the type of its field; the message names the field.
        """
        found: dict[str, Any] = {}
        numbered: dict[str, dict[int, str]] = {}
        for variable, value in os.environ.items():
            if variable.startswith(_PREFIX):
                name = variable.removeprefix(_PREFIX).lower()
                if match := _NUMBERED.fullmatch(name):
                    numbered.setdefault(match[1], {})[int(match[2])] = value
                else:
                    found[name] = value
        return cls.from_dict(
            found | {name: [items[index] for index in sorted(items)] for name, items in numbered.items()}
        )


def merged(first: TritonConfig, second: TritonConfig) -> TritonConfig:
    """Returns the settings of the first, and for unset ones those of the second."""
    set_values = {name: value for name, value in first.to_dict().items() if value is not None}
    return TritonConfig(**(second.to_dict() | set_values))


def _convert(name: str, type_name: str, value: Any) -> Any:
    if value is None:
        return None
    try:
        if type_name == "list[str]":
            return [value] if isinstance(value, str) else [str(each) for each in value]
        if type_name == "bool" and isinstance(value, str):
            return _BOOLEANS[value.strip().lower()]
        return {"bool": bool, "int": int, "str": str, "Path": Path}[type_name](value)
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"{name}: {value!r} is not a value of type {type_name}") from None
