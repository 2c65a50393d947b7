"""Images per second of the network in a loop: data on the device, copied from pageable memory, from pinned memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from benches.gpu.network import BATCHES, DATATYPES, images, network
from benches.gpu.report import Report
from benches.gpu.timing import per_second

TABLE = "ResNet-50 images/s of a loop"


def run(report: Report) -> None:
    """Measures each batch size and datatype."""
    net = network(report.device)
    seconds = 0.05 if report.cpu else 0.5
    report.table(
        TABLE, "batch", "input", "device", "pageable", "pinned", "ms/batch", "pageable/device", "pinned/device"
    )
    for rows in BATCHES[: 1 if report.cpu else None]:
        for datatype in DATATYPES:
            sources = _sources(report, rows, datatype)
            rates = [rows * per_second(_step(net, *one), seconds=seconds, cpu=report.cpu) for one in sources]
            report.row(rows, datatype, *rates, rows / rates[0] * 1000, rates[1] / rates[0], rates[2] / rates[0])


def own_rate(report: Report, datatype: str) -> float | None:
    """Images per second at the largest batch with the data on the device, of this run's section `device`."""
    rates = [row["device"] for row in report.earlier("device") if row.get("input") == datatype]
    return max(rates) if rates else None


def _sources(report: Report, rows: int, datatype: str) -> list[tuple[torch.Tensor, str | None]]:
    """The images in each kind of memory, with the device to copy them to in each turn."""
    host = torch.from_numpy(images(rows, datatype))
    if report.cpu:
        return [(host, None)] * 3
    return [(host.cuda(), None), (host, "cuda"), (host.pin_memory(), "cuda")]


def _step(net: Any, source: torch.Tensor, device: str | None) -> Callable[[], Any]:
    """One turn: the scores of copied images return to the host, as in a handler."""
    if device is None:
        return lambda: net(source)
    return lambda: net(source.to(device, non_blocking=True)).cpu()
