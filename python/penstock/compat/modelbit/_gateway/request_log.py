"""Request log: one line of JSON per request."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

__all__ = ["LogEntry", "RequestLog"]


@dataclass
class LogEntry:
    """One request of the log."""

    name: str
    version: int
    branch: str
    alias: str | None
    """The version's alias in the path, or the label of the endpoint's backend."""
    source: str
    """`rest`, or the endpoint's name."""
    started: float
    ended: float
    runtimes: list[float]
    """Seconds of each part."""
    rows: list[bytes] = field(default_factory=list)
    """The rows of each part, as JSON."""
    error: str | None = None
    batch_id: str | None = None
    workers: int = 1

    def as_json(self) -> dict[str, Any]:
        """Returns the entry with Modelbit's field names."""
        results = [row for part in self.rows if part for row in json.loads(part)]
        runtimes = [round(one * 1000) for one in self.runtimes]
        entry: dict[str, Any] = {
            "deploymentName": self.name,
            "deploymentVersion": self.version,
            "alias": self.alias,
            "branch": self.branch,
            "source": self.source,
            "batchStartTs": _format_time(self.started),
            "batchEndTs": _format_time(self.ended),
            "batchDurationMs": round((self.ended - self.started) * 1000),
            "deploymentRuntimesMs": runtimes,
            "totalDeploymentRuntimeMs": sum(runtimes),
            "keepWarm": self.workers > 0,
            "resultCount": len(results),
            "results": results,
        }
        if self.error is not None:
            entry["error"] = self.error
        if self.batch_id is not None:
            entry["batchId"] = self.batch_id
        return entry


class RequestLog:
    """Appends entries to a file, one per line.

    Args:
        path: The file.
    """

    def __init__(self, path: str) -> None:
        self._path, self._lock = Path(path), threading.Lock()

    def write(self, entry: LogEntry) -> None:
        """Writes an entry."""
        line = json.dumps(entry.as_json()) + "\n"
        with self._lock, self._path.open("a", encoding="utf-8") as file:
            file.write(line)


def _format_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
