"""Records of a benchmark: its settings, and the plan of a step for the compiled extension."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock._bench.sweep import Step

__all__ = ["BenchSettings", "Plan"]


@dataclass(frozen=True)
class Plan:
    """One round of a step, in the form of the compiled extension. Times are in seconds."""

    concurrency: int
    """Requests in flight; without meaning with a rate."""
    rate: float | None
    """Requests per second of an open loop; None for a closed loop."""
    poisson: bool
    """True for random times of an open loop."""
    max_in_flight: int
    seed: int
    threads: int
    connections: int
    timeout: float
    validate: bool
    warmup: float
    seconds: float | None
    """Duration of the measurement; None for no such limit."""
    requests: int | None
    """Requests of the measurement; None for no such limit."""


@dataclass(frozen=True)
class BenchSettings:
    """Settings of all steps. Times are in seconds."""

    steps: tuple[Step, ...]
    """Concurrency or rate of each step."""
    is_open: bool
    """True if the steps are rates."""
    seconds: float | None = 5.0
    requests: int | None = None
    warmup: float = 1.0
    repeat: int = 1
    """Rounds of each step."""
    percentiles: tuple[float, ...] = field(default=(50.0, 90.0, 99.0))
    timeout: float = 60.0
    threads: int = 1
    connections: int = 1
    """gRPC: HTTP/2 connections of each thread."""
    poisson: bool = False
    max_in_flight: int = 256
    seed: int = 0
    validate: bool = False

    def plan(self, step: Step, round_number: int) -> Plan:
        """The plan of a round. Rounds have different seeds."""
        return Plan(
            concurrency=1 if self.is_open else int(step),
            rate=float(step) if self.is_open else None,
            poisson=self.poisson,
            max_in_flight=self.max_in_flight,
            seed=self.seed + round_number,
            threads=self.threads,
            connections=self.connections,
            timeout=self.timeout,
            validate=self.validate,
            warmup=self.warmup,
            seconds=self.seconds,
            requests=self.requests,
        )
