"""What handlers get beside the request: context, event, project and run, where there is no platform."""

from __future__ import annotations

import datetime
import logging
import re
import types
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock import Context as NativeContext

__all__ = ["Context", "Event", "Logger", "Project", "Response", "Run", "Trigger"]


class Response:
    """An answer with a status and headers, as nuclio has it."""

    def __init__(
        self,
        headers: dict[str, Any] | None = None,
        body: Any = None,
        content_type: str | None = None,
        status_code: int = 200,
        event_id: str | None = None,
    ) -> None:
        self.headers = headers or {}
        self.body = body
        self.content_type = content_type or "text/plain"
        self.status_code = status_code
        self.event_id = event_id


class Logger:
    """A logger as nuclio has it: `info("...")`, and `info_with("...", name=value)` for structured lines."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._bound: dict[str, Any] = {}

    def bind(self, **values: Any) -> None:
        """Adds values to every line from now on."""
        self._bound.update(values)

    def debug(self, message: Any, *args: Any) -> None:
        """Logs a line."""
        self._log(logging.DEBUG, message, args, {})

    def info(self, message: Any, *args: Any) -> None:
        """Logs a line."""
        self._log(logging.INFO, message, args, {})

    def warn(self, message: Any, *args: Any) -> None:
        """Logs a line."""
        self._log(logging.WARNING, message, args, {})

    warning = warn

    def error(self, message: Any, *args: Any) -> None:
        """Logs a line."""
        self._log(logging.ERROR, message, args, {})

    def debug_with(self, message: Any, *args: Any, **values: Any) -> None:
        """Logs a line with values."""
        self._log(logging.DEBUG, message, args, values)

    def info_with(self, message: Any, *args: Any, **values: Any) -> None:
        """Logs a line with values."""
        self._log(logging.INFO, message, args, values)

    def warn_with(self, message: Any, *args: Any, **values: Any) -> None:
        """Logs a line with values."""
        self._log(logging.WARNING, message, args, values)

    warning_with = warn_with

    def error_with(self, message: Any, *args: Any, **values: Any) -> None:
        """Logs a line with values."""
        self._log(logging.ERROR, message, args, values)

    def _log(self, level: int, message: Any, args: tuple[Any, ...], values: dict[str, Any]) -> None:
        told = {**values, **self._bound}
        text = str(message)
        if told and self._logger.isEnabledFor(level):
            # A percent sign in a value is none of the format's.
            shown = " ".join(f"{name}={value!r}" for name, value in told.items()).replace("%", "%%" if args else "%")
            text = f"{text} {shown}"
        self._logger.log(level, text, *args, extra={"with": told}, stacklevel=3)


@dataclass
class Trigger:
    """What a request came by."""

    kind: str = "openinference"
    name: str = "openinference"


class Context:
    """What lasts as long as the function: handlers and its init function keep their state on it."""

    Response = Response

    def __init__(self, model: str, worker_id: int, project: Project, run: Run, root: Path) -> None:
        self.logger = Logger(logging.getLogger(f"penstock.{model}"))
        self.worker_id = worker_id
        self.user_data = types.SimpleNamespace()
        self.trigger = Trigger()
        self.trigger_name = self.trigger.name
        self.project, self.run, self.root = project, run, root
        self.user_function: Any = None


@dataclass
class Event:
    """A request as nuclio has it."""

    body: dict[str, Any]
    headers: dict[str, str]
    path: str
    id: str
    method: str = "POST"
    content_type: str = "application/json"
    fields: dict[str, Any] = field(default_factory=dict)
    trigger: Trigger = field(default_factory=Trigger)
    timestamp: datetime.datetime = field(default_factory=lambda: datetime.datetime.now(datetime.timezone.utc))

    @property
    def url(self) -> str:
        """The path."""
        return self.path

    @property
    def size(self) -> int:
        """The bytes of the body, where the caller said them; else 0."""
        said = self.get_header("Content-Length", "0")
        return int(said) if said and str(said).isdecimal() else 0

    def get_header(self, name: str, default: Any = None) -> Any:
        """A header's value, whatever the case of its name."""
        wanted = name.lower()
        return next((value for known, value in self.headers.items() if known.lower() == wanted), default)


@dataclass
class Project:
    """A project, where there is no platform that has one."""

    name: str
    kind: str = "project"

    @property
    def id(self) -> str:
        """Its name."""
        return self.name

    @property
    def key(self) -> str:
        """Its key, as DigitalHub writes it."""
        return f"store://{self.name}"

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"project.{name} needs the platform of DigitalHub, which is not here")


class Run:
    """A run, where there is no platform that has one. What it logs as metrics is shown at `/metrics`."""

    kind = "openinference+serve:run"

    def __init__(self, project: str, name: str, id: str) -> None:  # noqa: A002 - as there
        self.project, self.name, self.id = project, name, id
        self.metrics: dict[str, Any] = {}
        self._native: NativeContext | None = None
        self._untold: dict[str, float] = {}

    @property
    def key(self) -> str:
        """Its key, as DigitalHub writes it."""
        return f"store://{self.project}/run/{self.kind}/{self.name}:{self.id}"

    def log_metric(self, key: str, value: Any, overwrite: bool = False, single_value: bool = False) -> None:
        """Sets a gauge of the model's metrics; of a list, its last value counts."""
        values = list(value) if isinstance(value, (list, tuple)) else [value]
        if single_value:
            self.metrics[key] = values[-1]
        else:
            known = [] if overwrite else self.metrics.get(key, [])
            self.metrics[key] = [*(known if isinstance(known, list) else [known]), *values][-1000:]
        self._untold[re.sub(r"[^a-zA-Z0-9_]", "_", key)] = float(values[-1])
        self.tell(self._native)

    def log_metrics(self, metrics: dict[str, Any], overwrite: bool = False, single_value: bool = False) -> None:
        """Sets several."""
        for key, value in metrics.items():
            self.log_metric(key, value, overwrite, single_value)

    def tell(self, native: NativeContext | None) -> None:
        """Hands on what has not been told, now that there is somebody to tell."""
        self._native = native
        if native is not None and self._untold:
            for key, value in self._untold.items():
                native.metrics.gauge(key, value)
            self._untold.clear()

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"run.{name} needs the platform of DigitalHub, which is not here")
