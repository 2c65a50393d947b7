"""configure_logging, the loggers and their lines: row R4."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.compat.kserve import logging as kserve_logging
from penstock.compat.kserve.logging import KSERVE_LOG_CONFIG, configure_logging, logger, trace_logger

CONFIG: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"short": {"format": "own %(message)s"}},
    "handlers": {"own": {"class": "logging.StreamHandler", "formatter": "short", "stream": "ext://sys.stderr"}},
    "loggers": {"kserve": {"handlers": ["own"], "level": "WARNING", "propagate": False}},
}
INI = """
[loggers]
keys=root,kserve
[handlers]
keys=own
[formatters]
keys=short
[logger_root]
handlers=
[logger_kserve]
handlers=own
qualname=kserve
level=WARNING
propagate=0
[handler_own]
class=StreamHandler
formatter=short
args=(sys.stderr,)
[formatter_short]
format=own %(message)s
"""


@pytest.fixture(autouse=True)
def restored_logging() -> Iterator[None]:
    """Restores the logging configuration."""
    loggers = [logger, trace_logger, logging.getLogger()]
    before = [(one, one.handlers[:], one.level, one.propagate) for one in loggers]
    yield
    for one, handlers, level, propagate in before:
        one.handlers, one.propagate = handlers, propagate
        one.setLevel(level)


def remove_handlers() -> None:
    """Removes the test runner's handlers."""
    for one in (logger, trace_logger, logging.getLogger()):
        one.handlers = []


def test_r4_log_lines_have_the_kserve_format(capsys: pytest.CaptureFixture[str]) -> None:
    remove_handlers()
    configure_logging()
    logger.info("hello")
    logger.debug("unheard")
    trace_logger.info("requestId: N.A.")
    first, second = capsys.readouterr().err.splitlines()
    timestamp = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} \d+"
    location = r"\[test_kserve_logging\.py:test_r4_log_lines_have_the_kserve_format\(\):\d+\]"
    assert re.fullmatch(rf"{timestamp} kserve INFO {location} hello", first)
    assert re.fullmatch(rf"{timestamp} kserve\.trace requestId: N\.A\.", second)


def test_r4_existing_logging_configuration_is_not_replaced() -> None:
    remove_handlers()
    own = logging.NullHandler()
    logger.addHandler(own)
    configure_logging()
    assert logger.handlers == [own]
    configure_logging(KSERVE_LOG_CONFIG)
    assert logger.handlers != [own]


@pytest.mark.usefixtures("old_dialect")
def test_r4_dialect_0_13_replaces_existing_handlers() -> None:
    remove_handlers()
    own = logging.NullHandler()
    logger.addHandler(own)
    configure_logging()
    assert logger.handlers != [own]


@pytest.mark.parametrize("form", ["dict", ".json", ".yaml", ".yml", ".ini"])
def test_r4_all_configuration_formats_are_accepted(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config: Any = CONFIG
    if form != "dict":
        text = INI if form == ".ini" else json.dumps(CONFIG)
        if form in (".yaml", ".yml"):
            text = pytest.importorskip("yaml").safe_dump(CONFIG)
        path = tmp_path / f"log{form}"
        path.write_text(text)
        config = str(path)
    configure_logging(config)
    logger.info("unheard")
    logger.warning("heard")
    assert capsys.readouterr().err == "own heard\n"


def test_r4_yaml_without_pyyaml_is_an_import_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log.yaml"
    path.write_text("version: 1")
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(ImportError, match=r"is YAML, which needs the package PyYAML$"):
        configure_logging(str(path))


def test_r4_logger_names() -> None:
    assert (logger.name, trace_logger.name) == ("kserve", "kserve.trace")
    assert (kserve_logging.KSERVE_LOGGER_NAME, kserve_logging.KSERVE_TRACE_LOGGER_NAME) == ("kserve", "kserve.trace")


def test_r4_kserve_loglevel_sets_the_level() -> None:
    code = (
        "import os; os.environ['KSERVE_LOGLEVEL'] = 'debug';"
        "from penstock.compat.kserve import logging; logging.configure_logging(); logging.logger.debug('heard')"
    )
    process = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert process.stderr.endswith(" heard\n")
