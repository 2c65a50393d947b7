"""CUDA graphs of the network against eager execution."""

from __future__ import annotations

import torch

from benches.gpu.network import BATCHES, Network, images, network
from benches.gpu.report import Report
from benches.gpu.timing import milliseconds, times


def run(report: Report) -> None:
    """Captures a graph of each batch size and replays it."""
    net = network("cuda")
    report.table(
        "eager and as a CUDA graph, wall ms of a batch", "batch", "eager", "graph", "gain", "capture ms", "MB", "equal"
    )
    for rows in (1, *BATCHES):
        source = torch.from_numpy(images(rows, "UINT8")).cuda()
        eager = times(lambda source=source: net(source)).wall
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            expected = net(source)
        torch.cuda.synchronize()
        before, graph = torch.cuda.memory_reserved(), torch.cuda.CUDAGraph()
        held: list[torch.Tensor] = []
        captured = milliseconds(lambda g=graph, s=source, h=held: _capture(net, g, s, h))
        replay = times(graph.replay).wall
        is_equal = torch.allclose(expected, held[0], rtol=0.05, atol=0.05)
        report.row(
            rows, eager, replay, eager / replay, captured, (torch.cuda.memory_reserved() - before) / 1e6, is_equal
        )


def _capture(net: Network, graph: torch.cuda.CUDAGraph, source: torch.Tensor, held: list[torch.Tensor]) -> None:
    with torch.cuda.graph(graph):
        held.append(net(source))
