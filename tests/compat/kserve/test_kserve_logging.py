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
def as_before() -> Iterator[None]:
    """Restores the logging configuration."""
    loggers = [logger, trace_logger, logging.getLogger()]
    before = [(one, one.handlers[:], one.level, one.propagate) for one in loggers]
    yield
    for one, handlers, level, propagate in before:
        one.handlers, one.propagate = handlers, propagate
        one.setLevel(level)


def start() -> None:
    """Removes the test runner's handlers."""
    for one in (logger, trace_logger, logging.getLogger()):
        one.handlers = []


def test_r4_lines_have_kserves_shape(capsys: pytest.CaptureFixture[str]) -> None:
    start()
    configure_logging()
    logger.info("hello")
    logger.debug("unheard")
    trace_logger.info("requestId: N.A.")
    first, second = capsys.readouterr().err.splitlines()
    when = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} \d+"
    where = r"\[test_kserve_logging\.py:test_r4_lines_have_kserves_shape\(\):\d+\]"
    assert re.fullmatch(rf"{when} kserve INFO {where} hello", first)
    assert re.fullmatch(rf"{when} kserve\.trace requestId: N\.A\.", second)


def test_r4_the_programs_logging_is_not_changed() -> None:
    start()
    own = logging.NullHandler()
    logger.addHandler(own)
    configure_logging()
    assert logger.handlers == [own]
    configure_logging(KSERVE_LOG_CONFIG)
    assert logger.handlers != [own]


@pytest.mark.usefixtures("old_dialect")
def test_r4_in_the_old_dialect_it_does_not() -> None:
    start()
    own = logging.NullHandler()
    logger.addHandler(own)
    configure_logging()
    assert logger.handlers != [own]


@pytest.mark.parametrize("form", ["dict", ".json", ".yaml", ".yml", ".ini"])
def test_r4_every_form_of_configuration(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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


def test_r4_yaml_needs_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log.yaml"
    path.write_text("version: 1")
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(ImportError, match=r"is YAML, which needs the package PyYAML$"):
        configure_logging(str(path))


def test_r4_names() -> None:
    assert (logger.name, trace_logger.name) == ("kserve", "kserve.trace")
    assert (kserve_logging.KSERVE_LOGGER_NAME, kserve_logging.KSERVE_TRACE_LOGGER_NAME) == ("kserve", "kserve.trace")


def test_r4_the_environment_sets_the_level() -> None:
    code = (
        "import os; os.environ['KSERVE_LOGLEVEL'] = 'debug';"
        "from penstock.compat.kserve import logging; logging.configure_logging(); logging.logger.debug('heard')"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stderr.endswith(" heard\n")
