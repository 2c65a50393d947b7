"""Models that hold their inputs until a file exists, to measure the memory of a request."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from penstock import Request, Tensor, model, openai

GATE = Path(os.environ["GATE"])


def wait() -> None:
    """Marks a call as entered, and waits for the gate."""
    GATE.with_suffix(".entered").touch()
    while not GATE.exists():
        time.sleep(0.01)


def holding(name: str, datatype: Any) -> Any:
    """A model of one tensor of any length."""

    @model(name=name, inputs=[Tensor("x", datatype, [-1])], outputs=[Tensor("y", np.int64, [1])])
    def handler(x: Any) -> Any:
        wait()
        return np.array([x.size])

    return handler


i64, f32, f64, u8, flag, text = (
    holding(name, datatype)
    for name, datatype in (
        ("i64", np.int64),
        ("f32", np.float32),
        ("f64", np.float64),
        ("u8", np.uint8),
        ("flag", np.bool_),
        ("text", bytes),
    )
)


@dataclass
class Document:
    """A JSON document of any size."""

    values: list[Any] = field(default_factory=list)


@model
def documents(document: Document) -> int:
    """Documents of V1 and generate."""
    wait()
    return len(document.values)


@model(name="open", routes=["POST /open"])
def raw(request: Request) -> str:
    """Whole requests."""
    wait()
    return str(len(request.body))


@model(name="json", routes=["POST /json"])
def parsed(request: Request) -> str:
    """Whole requests that are JSON."""
    value = json.loads(request.body)
    wait()
    return str(len(value))


@model(inputs=[Tensor("prompt", str, [1])], outputs=[Tensor("text", str, [1])])
def writer(prompt: Any) -> Any:
    """Completions."""
    wait()
    return prompt


served = openai.routes(openai.Completions(writer))
