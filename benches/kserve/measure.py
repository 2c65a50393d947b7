"""Measurements of both products, and their targets."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benches.kserve.probes import p99_ms, probing
from benches.kserve.sides import Running, Side, both, serving
from benches.load.dialects import Sent, request
from benches.load.loader import Call, build, load
from benches.load.systems import GRPC_PATH

ROW = np.arange(16, dtype=np.float32).reshape(1, 16)
TIMEOUT = 60.0
BLOCKING_CLIENTS = 32
_JSON = "content-type: application/json"
_V1 = json.dumps({"instances": ROW.tolist()}).encode()


@dataclass(frozen=True)
class Wish:
    """The target of a number: a multiple of KServe's, or an upper bound."""

    times: float = 0
    below: float = 0

    def __str__(self) -> str:
        if self.below:
            return f"< {self.below:g}"
        return f">= {self.times:g}x" if self.times else ""


@dataclass(frozen=True)
class Number:
    """One measurement of one product."""

    what: str
    unit: str
    more_is_better: bool
    value: float
    wish: Wish = Wish()


@dataclass(frozen=True)
class Row:
    """One number of both products."""

    what: str
    unit: str
    more_is_better: bool
    kserve: float
    penstock: float
    wish: Wish

    def ratio(self) -> float:
        """Ratio by which Penstock is better."""
        first, second = (self.penstock, self.kserve) if self.more_is_better else (self.kserve, self.penstock)
        return first / second if second else float("inf")

    def good(self) -> bool | None:
        """True if the target is met; None without a target."""
        if self.wish.below:
            return self.penstock < self.wish.below
        return self.ratio() >= self.wish.times if self.wish.times else None


def measure(folder: Path, seconds: float, connections: int, repeats: int) -> list[Row]:
    """Measures both products in turns, so that they have the same conditions; each row has the medians."""
    build()
    sides = both()
    found: dict[str, dict[str, list[Number]]] = {}
    for _ in range(repeats):
        for side in sides:
            for number in _all(side, folder, seconds, connections):
                found.setdefault(number.what, {}).setdefault(side.name, []).append(number)
    return [_row(of["kserve"], of["penstock"]) for of in found.values()]


def _row(kserve: list[Number], penstock: list[Number]) -> Row:
    one = penstock[0]
    theirs, ours = (statistics.median(number.value for number in of) for of in (kserve, penstock))
    return Row(one.what, one.unit, one.more_is_better, theirs, ours, one.wish)


def _all(side: Side, folder: Path, seconds: float, connections: int) -> Iterator[Number]:
    with serving(side, folder / "server.log") as server:
        yield Number("start", "s", False, server.started)
        yield Number("memory, idle", "MB", False, server.processes.memory_mb())
        for name, call, wish in _calls(server, folder):
            rate = _load(call, connections, seconds)["rps"]
            yield Number(f"{name}, {connections} connections", "requests/s", True, rate, wish)
        yield from _blocking(server, folder, seconds)
        yield from _hop(side, server, folder, seconds)


def _calls(server: Running, folder: Path) -> Iterator[tuple[str, Call, Wish]]:
    for model, how in (("double", "def"), ("awaited", "async def")):
        for name, wire, times in (("V2 JSON", "json", 12), ("V2 binary", "bin", 12), ("gRPC", "grpc", 8)):
            message = request(wire, model, Sent(ROW.shape, ROW))
            body = _file(folder, f"{model}.{wire}", message.body)
            way = ("http", server.http, f"/v2/models/{model}/infer")
            if wire == "grpc":
                way = ("grpc", server.grpc, GRPC_PATH)
            yield f"{name}, `{how} predict`", Call(*way, body, message.headers, TIMEOUT), Wish(times)
        yield f"V1, `{how} predict`", _v1(server.http, model, folder), Wish(12)


def _v1(address: str, model: str, folder: Path) -> Call:
    return Call("http", address, f"/v1/models/{model}:predict", _file(folder, "v1", _V1), (_JSON,), TIMEOUT)


def _file(folder: Path, name: str, body: bytes) -> Path:
    file = folder / name
    file.write_bytes(body)
    return file


def _load(call: Call, connections: int, seconds: float) -> dict[str, float]:
    counts = load(call, connections=connections, seconds=seconds, warm_up=seconds / 5)
    if counts["first_error"]:
        raise RuntimeError(f"the loader was answered {counts['first_error']}")
    return counts


def _blocking(server: Running, folder: Path, seconds: float) -> Iterator[Number]:
    """Measures the liveness probe during predictions that block for 50 ms."""
    what = f"a predict that blocks 50 ms, {BLOCKING_CLIENTS} clients"
    with probing(server.http) as took:
        rate = _load(_v1(server.http, "blocking", folder), BLOCKING_CLIENTS, seconds)["rps"]
    yield Number(what, "requests/s", True, rate, Wish(8))
    yield Number("liveness probes meanwhile, p99", "ms", False, p99_ms(took), Wish(below=20))


def _hop(side: Side, predictor: Running, folder: Path, seconds: float) -> Iterator[Number]:
    """Measures the time that a transformer adds to its predictor, one request after the other."""
    with serving(side, folder / "transformer.log", f"--predictor_host={predictor.http}") as transformer:
        through, direct = (
            _load(_v1(address, "double", folder), 1, seconds)["p50_us"] / 1e3
            for address in (transformer.http, predictor.http)
        )
    yield Number("V1, one by one, p50", "ms", False, direct)
    yield Number("the same through a transformer, p50", "ms", False, through)
    yield Number("what the transformer adds", "ms", False, through - direct, Wish(4))
