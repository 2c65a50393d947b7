"""A server of models/stuck.py in a separate process, and its stuck calls."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from http_by_hand import HttpResponse, get, infer
from serving_process import MODELS, Serving

LONG = 1000.0
"""Seconds, far more than the timeout of a test."""
GUARD = 40.0
"""Hang guard in seconds, far more than a stall timeout."""


def serve(model: str, *arguments: str, grpc: str = "off") -> Serving:
    return Serving(f"stuck.py:{model}" if model else "stuck.py", "--http", "127.0.0.1:0", "--grpc", grpc, *arguments)


def call(server: Serving, model: str, seconds: float) -> Callable[[], HttpResponse]:
    return lambda: infer(server.http, model, {"x": np.array([seconds], np.float32)})


def live(server: Serving) -> bool:
    return get(server.http, "/v2/health/live").status == 200


def ready(server: Serving) -> bool:
    return get(server.http, "/v2/health/ready").status == 200


def line_of(text: str) -> int:
    lines = (MODELS / "stuck.py").read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)
