"""A viewer of a server: reads `/live/events` and merges them, as the page at /live does."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from typing_extensions import Self

from http_by_hand import Connection, HttpResponse, to_response

MOST_EVENTS = 60
"""Events to wait for a state, one a second."""


def merge(into: dict[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Merges a change: null removes a member, objects are merged, other values replaced."""
    for name, value in change.items():
        if value is None:
            into.pop(name, None)
        elif isinstance(value, dict) and isinstance(into.get(name), dict):
            merge(into[name], value)
        else:
            into[name] = value
    return into


class Viewer:
    """One viewer. `refusal` is the response of a server that refuses it; `state` the state of the last event."""

    def __init__(self, url: str, headers: Mapping[str, str] | None = None) -> None:
        self.connection = Connection(url)
        self.connection.request("GET", "/live/events", headers=dict(headers or {}))
        self.response = self.connection.getresponse()
        self.refusal: HttpResponse | None = None
        if self.response.status != 200:
            self.refusal = to_response(self.response)
        self.state: dict[str, Any] = {}
        self.kinds: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.response.close()
        self.connection.close()

    def next(self) -> dict[str, str] | None:
        """Reads the next event and merges it; None at the end of the events."""
        fields: dict[str, str] = {}
        while (line := self.response.readline()) not in (b"", b"\n"):
            name, _, value = line.decode().rstrip("\n").partition(": ")
            fields[name] = value
        if not fields:
            return None
        self.kinds.append(fields["event"])
        data = json.loads(fields["data"])
        self.state = merge({}, data) if fields["event"] == "state" else merge(self.state, data)
        return fields

    def until(self, holds: Callable[[dict[str, Any]], Any]) -> Any:
        """Reads events until `holds(state)` is true, and returns its result."""
        for _ in range(MOST_EVENTS):
            assert self.next(), "the server ended the events"
            if result := holds(self.state):
                return result
        raise AssertionError(f"not within {MOST_EVENTS} events: {json.dumps(self.state)}")

    def model(self, name: str) -> dict[str, Any]:
        """The figures of a model's version 1."""
        return dict(self.state["models"][f"{name}/1"])

    def errors(self) -> list[dict[str, Any]]:
        """The errors, in their order."""
        return [error for _, error in sorted(self.state["errors"].items(), key=lambda item: int(item[0]))]
