"""KServe's loggers, formats and logging configuration."""

from __future__ import annotations

import json
import logging
from typing import Any

from penstock.compat.kserve import dialect
from penstock.compat.kserve.constants.constants import KSERVE_LOGLEVEL

__all__ = [
    "KSERVE_LOGGER_DATE_FORMAT",
    "KSERVE_LOGGER_FORMAT",
    "KSERVE_LOGGER_NAME",
    "KSERVE_LOG_CONFIG",
    "KSERVE_TRACE_LOGGER_FORMAT",
    "KSERVE_TRACE_LOGGER_NAME",
    "configure_logging",
    "logger",
    "trace_logger",
]

KSERVE_LOGGER_NAME = "kserve"
KSERVE_TRACE_LOGGER_NAME = "kserve.trace"
KSERVE_LOGGER_FORMAT = (
    "%(asctime)s.%(msecs)03d %(process)s %(name)s %(levelname)s [%(filename)s:%(funcName)s():%(lineno)s] %(message)s"
)
KSERVE_TRACE_LOGGER_FORMAT = "%(asctime)s.%(msecs)03d %(process)s %(name)s %(message)s"
KSERVE_LOGGER_DATE_FORMAT = "%Y-%m-%d %H:%M:%S"


def _formatter(form: str) -> dict[str, str]:
    return {"()": "logging.Formatter", "fmt": form, "datefmt": KSERVE_LOGGER_DATE_FORMAT}


def _handler(formatter: str) -> dict[str, str]:
    return {"formatter": formatter, "class": "logging.StreamHandler", "stream": "ext://sys.stderr"}


def _logger(handler: str) -> dict[str, Any]:
    return {"handlers": [handler], "level": KSERVE_LOGLEVEL, "propagate": False}


KSERVE_LOG_CONFIG: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "kserve": _formatter(KSERVE_LOGGER_FORMAT),
        "kserve_trace": _formatter(KSERVE_TRACE_LOGGER_FORMAT),
    },
    "handlers": {"kserve": _handler("kserve"), "kserve_trace": _handler("kserve_trace")},
    "loggers": {"kserve": _logger("kserve"), "kserve.trace": _logger("kserve_trace")},
}
"""For `logging.config.dictConfig`. Scripts copy and change it; it has no entries for uvicorn, which is not used."""

logger = logging.getLogger(KSERVE_LOGGER_NAME)
trace_logger = logging.getLogger(KSERVE_TRACE_LOGGER_NAME)


def configure_logging(log_config: dict[str, Any] | str | None = None) -> None:
    """Sets up logging.

    Args:
        log_config: A dict for `logging.config.dictConfig`; the path of one in JSON (`.json`) or YAML (`.yaml`, `.yml`,
            which needs the package PyYAML); or the path of a file for `logging.config.fileConfig`. None for KServe's
            formats, unless the program has set up logging already (in the dialect of 0.13 even then).

    Raises:
        ImportError: the file is YAML, and PyYAML is not installed.
    """
    # Imported late: `logging.config` loads a socket server, which takes time.
    from logging.config import dictConfig, fileConfig

    if log_config is None:
        if dialect.is_old() or not logger.hasHandlers():
            dictConfig(KSERVE_LOG_CONFIG)
    elif isinstance(log_config, dict):
        dictConfig(log_config)
    elif log_config.endswith((".json", ".yaml", ".yml")):
        dictConfig(_read(log_config))
    else:
        fileConfig(log_config, disable_existing_loggers=False)


def _read(path: str) -> Any:
    with open(path, encoding="utf-8") as file:
        if path.endswith(".json"):
            return json.load(file)
        try:
            import yaml
        except ImportError:
            raise ImportError(f"the log configuration {path!r} is YAML, which needs the package PyYAML") from None
        return yaml.safe_load(file)
