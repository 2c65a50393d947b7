"""Outcomes of handlers that take and return torch tensors, on the CPU and on the GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import torch

from benches.gpu.report import Report
from penstock import Batching, Model, Tensor, _core, model
from penstock.testing import Client

_COUNT = 1 << 18
Rows = Annotated[torch.Tensor, Tensor(datatype=np.float32, shape=[-1])]
Wide = Annotated[torch.Tensor, Tensor(datatype="BF16", shape=[-1])]

RETURNS: dict[str, Callable[[torch.Tensor], Any]] = {
    "CPU tensor": lambda x: x * 2,
    "CPU, the input itself": lambda x: x,
    "CPU, not contiguous": lambda x: (x[:, None] * torch.ones(2))[:, 0],
    "CPU, requires grad": lambda x: x * torch.ones(1, requires_grad=True),
    "CPU, pinned": lambda x: x.pin_memory(),
    "CPU, bfloat16": lambda x: x.to(torch.bfloat16),
    "CPU, float16": lambda x: x.to(torch.float16),
    "CUDA": lambda x: x.cuda() * 2,
    "CUDA, bfloat16": lambda x: x.cuda().to(torch.bfloat16),
}
"""Results of handlers whose output is declared as FP32."""
_NEEDS_GPU = ("CPU, pinned", "CUDA", "CUDA, bfloat16")


def run(report: Report) -> None:
    """Calls each handler once, with 1 MB."""
    columns = ("annotated: outcome", "hand-in", "hand-out", "by inputs=, outputs=: outcome")
    report.table("copied bytes of 1 MiB, and outcomes", "result                ", *columns)
    for name, make in RETURNS.items():
        if report.cpu and name in _NEEDS_GPU:
            continue
        outcome, copied = _called(_annotated(make))
        plain, _ = _called(_declared(make))
        report.row(name, outcome, copied["hand-in"], copied["hand-out"], plain)
    report.attempt("BF16 output, annotated, of a bfloat16 tensor", lambda: _called(_wide())[0])
    report.attempt("batched, annotated: type and device of the input", lambda: _seen(report))


def _annotated(make: Callable[[torch.Tensor], Any]) -> Model[..., Any]:
    def handler(x: Rows) -> Rows:
        return make(x)

    return model(name="m")(handler)


def _declared(make: Callable[[torch.Tensor], Any]) -> Model[..., Any]:
    inputs, outputs = [Tensor("x", np.float32, [-1])], [Tensor("output", np.float32, [-1])]
    return model(name="m", inputs=inputs, outputs=outputs)(lambda x: make(torch.from_numpy(x)))


def _wide() -> Model[..., Any]:
    def handler(x: Rows) -> Wide:
        return x.to(torch.bfloat16)

    return model(name="m")(handler)


def _called(served: Model[..., Any]) -> tuple[str, dict[str, int]]:
    """The outcome, and the bytes copied at each step."""
    x = np.arange(_COUNT, dtype=np.float32)
    before = _core.copied_bytes()
    with Client(served) as client:
        try:
            outcome = f"ok, {client.infer('m', x=x).value.dtype}"
        except Exception as error:
            outcome = f"{type(error).__name__}: {' '.join(str(error).split())[:150]}"
    after = _core.copied_bytes()
    return outcome, {step: after[step] - before[step] for step in after}


def _seen(report: Report) -> str:
    seen: list[str] = []

    def handler(x: Rows) -> Rows:
        seen.append(f"{type(x).__name__} on {x.device}, pinned: {not report.cpu and x.is_pinned()}")
        return x

    with Client(model(name="m", batching=Batching(max_size=8))(handler)) as client:
        client.infer("m", x=np.ones((2, 16), np.float32))
    return seen[-1]
