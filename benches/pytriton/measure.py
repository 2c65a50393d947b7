"""Measurements of both products."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benches.load.loader import Call, build, load
from benches.pytriton.sides import Running, Side, both, serving

ROW = np.arange(16, dtype=np.float32).reshape(1, 16)
TIMEOUT = 30.0


@dataclass(frozen=True)
class Row:
    """One number of both products."""

    what: str
    unit: str
    more_is_better: bool
    pytriton: float
    penstock: float

    def ratio(self) -> float:
        """Ratio by which Penstock is better."""
        first, second = (self.penstock, self.pytriton) if self.more_is_better else (self.pytriton, self.penstock)
        return first / second if second else float("inf")


Number = tuple[str, str, bool, float]
"""Name, unit, True if more is better, and value."""


def measure(folder: Path, seconds: float, connections: int, models: int, repeats: int) -> list[Row]:
    """Measures both products in turns, so that they have the same conditions; each row has the medians."""
    build()
    sides = both()
    found: dict[tuple[str, str, bool], dict[str, list[float]]] = {}
    for _ in range(repeats):
        for side in sides:
            for what, unit, more, value in _all(side, folder, seconds, connections, models):
                found.setdefault((what, unit, more), {}).setdefault(side.name, []).append(value)
    return [
        Row(*what, statistics.median(values["pytriton"]), statistics.median(values["penstock"]))
        for what, values in found.items()
    ]


def _all(side: Side, folder: Path, seconds: float, connections: int, models: int) -> Iterator[Number]:
    with serving(side, folder / "server.log") as server:
        yield "processes of a server", "", False, server.processes.count()
        yield "its memory, idle", "MB", False, server.processes.memory_mb()
        for model, batching in (("dynamic", "dynamic batching"), ("plain", "no dynamic batching")):
            yield from _wire(server, folder, (model, batching), seconds, connections)
        for protocol in ("http", "grpc"):
            yield from _clients(side, server, protocol, seconds)
    yield "start with 1 model", "s", False, _started(side, folder, 1)
    yield f"start with {models} models", "s", False, _started(side, folder, models)
    yield "size of the installed package", "MB", False, side.installed_mb()


def _wire(server: Running, folder: Path, model: tuple[str, str], seconds: float, connections: int) -> Iterator[Number]:
    body = folder / "body"
    tensor = {"name": "x", "datatype": "FP32", "shape": list(ROW.shape), "data": ROW.ravel().tolist()}
    body.write_text(json.dumps({"inputs": [tensor]}))
    call = Call("http", server.http, f"/v2/models/{model[0]}/infer", body, ("content-type: application/json",), TIMEOUT)
    counts = load(call, connections=connections, seconds=seconds, warm_up=seconds / 5)
    if counts["first_error"]:
        raise RuntimeError(f"the loader was answered {counts['first_error']}")
    of = f"JSON, {connections} connections, {model[1]}"
    yield of, "requests/s", True, counts["rps"]
    yield f"{of}: p50", "ms", False, counts["p50_us"] / 1e3


def _clients(side: Side, server: Running, protocol: str, seconds: float) -> Iterator[Number]:
    url = f"{protocol}://{server.http if protocol == 'http' else server.grpc}"
    serial = side.client("serial", url, seconds)
    yield f"ModelClient, {protocol}, one by one: p50", "ms", False, serial["p50_ms"]
    yield f"ModelClient, {protocol}, one by one: p99", "ms", False, serial["p99_ms"]
    yield (
        f"ModelClient, {protocol}, 16 MiB there and back: p50",
        "ms",
        False,
        side.client("large", url, seconds)["p50_ms"],
    )
    if protocol == "http":
        # Over gRPC, workers of PyTriton's futures use a port other than the configured one.
        yield "FuturesModelClient, http, 64 futures", "requests/s", True, side.client("futures", url, seconds)["rate"]


def _started(side: Side, folder: Path, models: int) -> float:
    with serving(side, folder / "start.log", more=models) as server:
        return server.started
