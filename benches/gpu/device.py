"""Images per second of the network in a loop: data on the device or copied from both kinds of memory, CUDA graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from benches.gpu.captured import Graphs
from benches.gpu.network import BATCHES, DATATYPES, MAX_ROWS, Network, images, network
from benches.gpu.report import Report
from benches.gpu.timing import per_second

TABLE = "ResNet-50 images/s of a loop"


def run(report: Report) -> None:
    """Measures each batch size and datatype."""
    net = network(report.device)
    seconds = 0.05 if report.cpu else 0.3
    report.table(
        TABLE, "batch", "input", "device", "pageable", "pinned", "ms/batch", "pageable/device", "pinned/device"
    )
    for rows in BATCHES[: 1 if report.cpu else None]:
        for datatype in DATATYPES:
            sources = _sources(report, rows, datatype)
            rates = [rows * per_second(_step(net, *one), seconds=seconds, cpu=report.cpu) for one in sources]
            report.row(rows, datatype, *rates, rows / rates[0] * 1000, rates[1] / rates[0], rates[2] / rates[0])
    if not report.cpu:
        report.attempt("graphs", lambda: _graphs(report, net))


def _graphs(report: Report, net: Network) -> None:
    """Measures graphs that copy images from pinned memory and scores back, with a synchronisation each time."""
    own = own_rate(report, "UINT8")
    graphs = Graphs(net, BATCHES)
    graphs.images[:] = images(MAX_ROWS, "UINT8")
    report.table("the same by CUDA graphs, UINT8, pinned memory", "batch", "images/s", "/device", "ms/batch", "equal")
    for rows in BATCHES:
        rate = rows * per_second(lambda rows=rows: graphs.run(rows), seconds=0.3, cpu=False)
        expected = net(torch.from_numpy(graphs.images[:rows]).cuda()).cpu()
        is_equal = torch.allclose(expected, torch.from_numpy(graphs.scores[:rows]), rtol=0.05, atol=0.05)
        report.row(rows, rate, rate / own if own else None, rows / rate * 1000, is_equal)


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
