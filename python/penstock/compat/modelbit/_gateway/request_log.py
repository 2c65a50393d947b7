"""The request log: a line of JSON for each request."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

__all__ = ["Entry", "RequestLog"]


@dataclass
class Entry:
    """One request, as the log has it."""

    name: str
    version: int
    branch: str
    alias: str | None
    """What the request named instead of a version."""
    source: str
    """How it came: `rest`, or an endpoint's name."""
    began: float
    ended: float
    runtimes: list[float]
    """Seconds that each instance took for its part."""
    rows: list[bytes] = field(default_factory=list)
    """The rows of each part, as JSON."""
    error: str | None = None
    batch_id: str | None = None
    workers: int = 1

    def as_json(self) -> dict[str, Any]:
        """As it is written."""
        results = [row for part in self.rows if part for row in json.loads(part)]
        runtimes = [round(one * 1000) for one in self.runtimes]
        entry: dict[str, Any] = {
            "deploymentName": self.name,
            "deploymentVersion": self.version,
            "alias": self.alias,
            "branch": self.branch,
            "source": self.source,
            "batchStartTs": _time(self.began),
            "batchEndTs": _time(self.ended),
            "batchDurationMs": round((self.ended - self.began) * 1000),
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
    """Writes entries to a file, each as a line.

    Args:
        path: The file; it is appended to.
    """

    def __init__(self, path: str) -> None:
        self._path, self._lock = Path(path), threading.Lock()

    def write(self, entry: Entry) -> None:
        """Writes an entry."""
        line = json.dumps(entry.as_json()) + "\n"
        with self._lock, self._path.open("a", encoding="utf-8") as file:
            file.write(line)


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
