"""Arguments of handlers apart from the request: context, event, project and run, for use without a platform."""

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
    """nuclio's response, with status and headers."""

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
    """nuclio's logger: `info("...")`, and `info_with("...", name=value)` for structured lines."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._bound: dict[str, Any] = {}

    def bind(self, **values: Any) -> None:
        """Adds values to all later lines."""
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
        values_shown = {**values, **self._bound}
        text = str(message)
        if values_shown and self._logger.isEnabledFor(level):
            # Percent signs in values must not be read as format characters.
            shown = " ".join(f"{name}={value!r}" for name, value in values_shown.items()).replace(
                "%", "%%" if args else "%"
            )
            text = f"{text} {shown}"
        self._logger.log(level, text, *args, extra={"with": values_shown}, stacklevel=3)


@dataclass
class Trigger:
    """Trigger of an event."""

    kind: str = "openinference"
    name: str = "openinference"


class Context:
    """State of a function for its whole lifetime. Handlers and the init function may add attributes."""

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
    """nuclio's event of a request."""

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
        """Path of the request."""
        return self.path

    @property
    def size(self) -> int:
        """Size of the body from the Content-Length header; 0 without it."""
        length = self.get_header("Content-Length", "0")
        return int(length) if length and str(length).isdecimal() else 0

    def get_header(self, name: str, default: Any = None) -> Any:
        """Returns a header's value, without regard to case."""
        wanted = name.lower()
        return next((value for existing, value in self.headers.items() if existing.lower() == wanted), default)


@dataclass
class Project:
    """Stand-in for a DigitalHub project."""

    name: str
    kind: str = "project"

    @property
    def id(self) -> str:
        """Same as the name."""
        return self.name

    @property
    def key(self) -> str:
        """Key in DigitalHub's format."""
        return f"store://{self.name}"

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"project.{name} needs the DigitalHub platform, which is not available")


class Run:
    """Stand-in for a DigitalHub run. Its metrics are published at `/metrics`."""

    kind = "openinference+serve:run"

    def __init__(self, project: str, name: str, id: str) -> None:  # noqa: A002 - as there
        self.project, self.name, self.id = project, name, id
        self.metrics: dict[str, Any] = {}
        self._native: NativeContext | None = None
        self._unpublished: dict[str, float] = {}

    @property
    def key(self) -> str:
        """Key in DigitalHub's format."""
        return f"store://{self.project}/run/{self.kind}/{self.name}:{self.id}"

    def log_metric(self, key: str, value: Any, overwrite: bool = False, single_value: bool = False) -> None:
        """Sets a gauge of the model. The last value of a list counts."""
        values = list(value) if isinstance(value, (list, tuple)) else [value]
        if single_value:
            self.metrics[key] = values[-1]
        else:
            existing = [] if overwrite else self.metrics.get(key, [])
            self.metrics[key] = [*(existing if isinstance(existing, list) else [existing]), *values][-1000:]
        self._unpublished[re.sub(r"[^a-zA-Z0-9_]", "_", key)] = float(values[-1])
        self.publish_metrics(self._native)

    def log_metrics(self, metrics: dict[str, Any], overwrite: bool = False, single_value: bool = False) -> None:
        """Sets several gauges."""
        for key, value in metrics.items():
            self.log_metric(key, value, overwrite, single_value)

    def publish_metrics(self, native: NativeContext | None) -> None:
        """Publishes pending metrics, which init may have logged before the first request."""
        self._native = native
        if native is not None and self._unpublished:
            for key, value in self._unpublished.items():
                native.metrics.gauge(key, value)
            self._unpublished.clear()

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"run.{name} needs the DigitalHub platform, which is not available")
