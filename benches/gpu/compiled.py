"""`torch.compile` of the network at a batch of 8 against eager execution: time to compile, and speed."""

from __future__ import annotations

import torch

from benches.gpu.network import images, network
from benches.gpu.report import Report
from benches.gpu.timing import milliseconds, times


def run(report: Report) -> None:
    """Compiles with CUDA graphs (`reduce-overhead`)."""
    net = network("cuda")
    source = torch.from_numpy(images(8, "UINT8")).cuda().to(torch.bfloat16, memory_format=torch.channels_last)
    report.table("batch of 8", "mode            ", "first call s", "eager ms", "compiled ms", "gain")
    with torch.inference_mode():
        eager = times(lambda: net.module(source)).wall
        compiled = torch.compile(net.module, mode="reduce-overhead")
        first = milliseconds(lambda: compiled(source))
        found = times(lambda: compiled(source)).wall
    report.row("reduce-overhead", first / 1000, eager, found, eager / found)
