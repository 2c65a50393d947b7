"""Workloads of all servers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benches.load.servers.models import CALL_SECONDS, MAX_BATCH, ROW_SECONDS


@dataclass(frozen=True)
class Workload:
    """One model under one kind of request."""

    name: str
    about: str
    model: str
    """The model's name at the server; the models are `servers/models.py`."""
    wires: tuple[str, ...]
    """The wire formats: "json", "bin" (JSON and raw tensors), "grpc", and "records" (typed JSON objects)."""
    connections: tuple[int, ...]
    """Requests in flight."""
    input: str = "row"
    """Key of the input in `payloads.INPUTS`."""
    batching: bool = False
    """True if the model batches. Only servers with a batcher take part, unless `unbatched_too`."""
    unbatched_too: bool = False
    """True if servers without a batcher take part as well, with a call for each request."""
    accelerator: bool = False
    """True if the simulated accelerator is the limit, not the server."""
    rate: float = 0
    """Requests a second of an open loop; 0 for a closed loop."""
    arrivals: str = "even"
    """Distribution of an open loop's requests: "even", "poisson" or "bursts"."""
    leave: float = 0
    """The share of clients that close their connection after `LEAVE_SECONDS`."""
    timeout: float = 60
    """Seconds after which the client gives up."""

    def ceiling(self, connections: int) -> float | None:
        """The most requests a second that the model allows, if known."""
        if not self.accelerator:
            return None
        rows = min(connections, MAX_BATCH) if self.batching else 1
        return rows / (CALL_SECONDS + ROW_SECONDS * rows)


LEAVE_SECONDS = 0.02
"""About four calls of the simulated accelerator."""

_FULL_RATE = MAX_BATCH / (CALL_SECONDS + ROW_SECONDS * MAX_BATCH)
"""Capacity of the simulated accelerator in full batches."""


def _at_load(share: float, arrivals: str = "poisson") -> Workload:
    name = f"load-{'bursts-' * (arrivals == 'bursts')}{share * 100:02.0f}"
    about = f"a simulated accelerator with dynamic batching at {share:.0%} of what it can do, {arrivals} arrivals"
    return Workload(
        name,
        about,
        "m4b",
        ("json",),
        (1000,),
        batching=True,
        accelerator=True,
        rate=share * _FULL_RATE,
        arrivals=arrivals,
        timeout=5,
    )


_ALL_WIRES = ("json", "bin", "grpc")

_LIST = [
    Workload("m1", "16 floats doubled, one call a request", "m1", _ALL_WIRES, (1, 8, 64)),
    Workload(
        "m1b",
        "16 floats doubled, dynamic batching; without a batcher, one call a request",
        "m1b",
        _ALL_WIRES,
        (1, 8, 64),
        batching=True,
        unbatched_too=True,
    ),
    Workload(
        "records",
        "8 records of 4 numbers, checked by their class",
        "records",
        ("records",),
        (1, 8, 64),
        input="records",
    ),
    Workload("python", "some milliseconds of plain Python a request", "python", ("json",), (4,)),
    Workload("m2mean", "4.9 MB in, 3 floats out", "m2mean", ("bin", "grpc"), (1, 8), input="picture"),
    Workload("m2json", "150,528 floats as JSON in, 3 floats out", "m2mean", ("json",), (1, 8), input="thumbnail"),
    Workload("m2out", "16 floats in, 4.9 MB out, from an array that the model keeps", "m2out", ("bin", "grpc"), (1, 8)),
    Workload("m2new", "16 floats in, 4.9 MB out, from a new array", "m2new", ("bin", "grpc"), (1, 8)),
    Workload("m2fixed", "16 floats in, 4.9 MB out, from a frozen array", "m2fixed", ("bin", "grpc"), (1, 8)),
    Workload("m4", "a simulated accelerator, one call a request", "m4", ("json",), (8, 64), accelerator=True),
    Workload(
        "m4b",
        "a simulated accelerator, dynamic batching",
        "m4b",
        ("json",),
        (1, 8, 64, 256),
        batching=True,
        accelerator=True,
    ),
    Workload(
        "over",
        "600 requests a second to a model that can do about 195",
        "m4",
        ("json",),
        (2000,),
        rate=600,
        timeout=5,
        accelerator=True,
    ),
    Workload(
        "leavers",
        "a simulated accelerator at twice what it can do, where three of ten callers leave after 20 ms",
        "m4",
        ("json",),
        (200,),
        rate=400,
        arrivals="poisson",
        leave=0.3,
        timeout=5,
        accelerator=True,
    ),
    *(_at_load(share) for share in (0.02, 0.1, 0.3, 0.6, 0.95, 2.0)),
    *(_at_load(share, "bursts") for share in (0.1, 0.3)),
    Workload("m3", "sentence embeddings, one call a request", "m3", ("json",), (1, 8, 64), input="text"),
    Workload("m3b", "sentence embeddings, dynamic batching", "m3b", ("json",), (1, 8, 64), input="text", batching=True),
]

WORKLOADS: Mapping[str, Workload] = {workload.name: workload for workload in _LIST}
"""The workloads by name, in the order in which a report lists them."""
