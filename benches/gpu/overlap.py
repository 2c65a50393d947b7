"""Copies and computation of batches of 64: one after the other, and on two streams."""

from __future__ import annotations

import torch

from benches.gpu.network import DATATYPES, Network, images, network
from benches.gpu.report import Report
from benches.gpu.timing import milliseconds, times

_BATCHES = 20


def run(report: Report) -> None:
    """Measures both datatypes."""
    net = network("cuda")
    columns = ("copy ms", "compute ms", "serial ms", "pageable serial", "two streams", "gain")
    report.table("a batch of 64", "input", *columns)
    for datatype in DATATYPES:
        report.row(datatype, *_measured(net, torch.from_numpy(images(64, datatype))))


def _measured(net: Network, pageable: torch.Tensor) -> tuple[float, ...]:
    host, on_device = pageable.pin_memory(), pageable.cuda()
    copy = times(lambda: on_device.copy_(host, non_blocking=True)).wall
    compute = times(lambda: net(on_device)).wall
    serial = milliseconds(lambda: _serial(net, host), repeats=3) / _BATCHES
    slow = milliseconds(lambda: _serial(net, pageable), repeats=3) / _BATCHES
    both = milliseconds(lambda: _two_streams(net, host), repeats=3) / _BATCHES
    return copy, compute, serial, slow, both, serial / both


def _serial(net: Network, host: torch.Tensor) -> None:
    for _ in range(_BATCHES):
        net(host.to("cuda", non_blocking=True)).cpu()


def _two_streams(net: Network, host: torch.Tensor) -> None:
    """The next batch is copied on one stream while the last one is computed on another."""
    copies, computes = torch.cuda.Stream(), torch.cuda.Stream()
    waiting = None
    for _ in range(_BATCHES + 1):
        with torch.cuda.stream(copies):
            batch = host.to("cuda", non_blocking=True)
        copied = copies.record_event()
        if waiting is not None:
            with torch.cuda.stream(computes):
                scores = net(waiting)
                scores.cpu()
        computes.wait_event(copied)
        batch.record_stream(computes)
        waiting = batch
    torch.cuda.synchronize()
