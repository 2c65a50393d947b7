"""Copies between host and device: pageable, pinned and registered memory; and the cost of pinning."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import torch

from benches.gpu.driver import Driver
from benches.gpu.report import Report
from benches.gpu.timing import milliseconds, times

_MEGABYTES = (0.6, 2.4, 4.9, 19.0, 77.0)


def run(report: Report) -> None:
    """Measures each size."""
    torch.zeros(1, device="cuda")
    columns = ("H2D GB/s", "H2D wall", "D2H GB/s", "D2H wall", "H2D us", "D2H us")
    report.table("copies with non_blocking=True, by CUDA events and by wall time", "MB", "memory", *columns)
    for size in _MEGABYTES:
        count = int(size * 1e6)
        on_device = torch.zeros(count, dtype=torch.uint8, device="cuda")
        for kind in ("page", "pinned", "regist"):
            array = np.ones(count, np.uint8)
            host = (
                torch.ones(count, dtype=torch.uint8, pin_memory=True) if kind == "pinned" else torch.from_numpy(array)
            )
            if kind == "regist":
                _register(array)
                if not host.is_pinned():
                    report.fact("is_pinned() of registered memory", False)
            to_device = times(lambda host=host, device=on_device: device.copy_(host, non_blocking=True))
            to_host = times(lambda host=host, device=on_device: host.copy_(device, non_blocking=True))
            if kind == "regist":
                _unregister(array)
            rates = (_rate(count, ms) for ms in (to_device.events, to_device.wall, to_host.events, to_host.wall))
            report.row(size, kind, *rates, to_device.events * 1000, to_host.events * 1000)
    report.attempt("pinning", lambda: _pinning(report))


def _pinning(report: Report) -> None:
    driver = Driver()
    columns = ("hostalloc", "free", "register", "unregister", "reg again", "memcpy pinned GB/s", "memcpy new page GB/s")
    report.table("cost of pinned memory in ms, and of filling it from other memory", "MB", *columns)
    for size in _MEGABYTES:
        count = int(size * 1e6)
        pointer = ctypes.c_void_p()
        allocate = milliseconds(
            lambda p=pointer, n=count: driver.call("cuMemHostAlloc", ctypes.byref(p), ctypes.c_size_t(n), 0)
        )
        free = milliseconds(lambda p=pointer: driver.call("cuMemFreeHost", p))
        array = np.ones(count, np.uint8)
        register, unregister = milliseconds(lambda a=array: _register(a)), milliseconds(lambda a=array: _unregister(a))
        again = milliseconds(lambda a=array: _register(a))
        _unregister(array)
        pinned = torch.ones(count, dtype=torch.uint8, pin_memory=True).numpy()
        source = np.ones(count, np.uint8)
        filled = milliseconds(lambda p=pinned, s=source: np.copyto(p, s), repeats=10)
        copied = milliseconds(lambda s=source: s.copy(), repeats=10)
        rates = _rate(count, filled), _rate(count, copied)
        report.row(size, allocate, free, register, unregister, again, *rates)
    taken = [milliseconds(lambda: torch.empty(9_600_000, dtype=torch.uint8, pin_memory=True)) for _ in range(3)]
    report.fact("torch.empty(9.6 MB, pin_memory=True), first to third call, ms", [round(one, 3) for one in taken])


def _rate(count: int, ms: float) -> float:
    """Gigabytes per second."""
    return count / ms / 1e6


def _register(array: np.ndarray[Any, Any]) -> None:
    _check(torch.cuda.cudart().cudaHostRegister(array.ctypes.data, array.nbytes, 0))


def _unregister(array: np.ndarray[Any, Any]) -> None:
    _check(torch.cuda.cudart().cudaHostUnregister(array.ctypes.data))


def _check(error: Any) -> None:
    if int(error):
        raise RuntimeError(f"the CUDA runtime returned {error}")
