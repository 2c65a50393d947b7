"""Facts for later design: DLPack, memory shared between processes, and NVML's figures."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import torch

from benches.gpu.report import Report
from benches.gpu.timing import milliseconds

_GET = "nvmlDeviceGet"
_PATTERN = bytes(range(256)) * 4096


def run(report: Report) -> None:
    """Tries each of them; an exception is a result."""
    _dlpack(report)
    if not report.cpu:
        report.attempt("CUDA IPC between two processes", lambda: _shared(report))
        _nvml(report)


def _dlpack(report: Report) -> None:
    array = np.arange(1 << 20, dtype=np.float32)
    report.attempt("DLPack, numpy to torch", lambda: _round_trip(array))
    frozen = array.copy()
    frozen.flags.writeable = False
    report.attempt("DLPack, read-only numpy to torch", lambda: _round_trip(frozen))
    half = torch.ones(4, dtype=torch.bfloat16)
    report.attempt("DLPack, bfloat16 torch to numpy", lambda: str(np.from_dlpack(half).dtype))
    if report.cpu:
        return
    on_device = torch.from_dlpack(array).cuda()
    report.attempt("DLPack, device of a CUDA tensor", lambda: str(on_device.__dlpack_device__()))
    report.attempt("DLPack, CUDA tensor to numpy", lambda: str(np.from_dlpack(on_device).dtype))
    report.attempt(
        "DLPack, CUDA tensor to numpy by .cpu()", lambda: bool((np.from_dlpack(on_device.cpu()) == array).all())
    )
    report.attempt("DLPack, CUDA tensor to cupy", lambda: _to_cupy(on_device))
    cost = (
        milliseconds(lambda: torch.from_dlpack(array), repeats=200),
        milliseconds(on_device.__dlpack__, repeats=200),
    )
    report.fact(
        "DLPack, us of numpy to torch, and of a capsule of a CUDA tensor", [round(one * 1000, 1) for one in cost]
    )


def _round_trip(array: np.ndarray[Any, Any]) -> str:
    tensor = torch.from_dlpack(array)
    back = np.from_dlpack(tensor)
    return f"shares memory: {tensor.data_ptr() == array.ctypes.data}, and back: {np.shares_memory(array, back)}"


def _to_cupy(tensor: torch.Tensor) -> str:
    import cupy

    found = cupy.from_dlpack(tensor)
    return (
        f"shares memory: {found.data.ptr == tensor.data_ptr()}, interface: {tensor.__cuda_array_interface__['version']}"
    )


def _shared(report: Report) -> str:
    """Device memory of this process, read and written by another one."""
    import ctypes

    from benches.gpu.driver import Driver, IpcHandle

    driver = Driver()
    pointer, handle = driver.allocate(len(_PATTERN)), IpcHandle()
    driver.write(pointer, _PATTERN)
    get = milliseconds(lambda: driver.call("cuIpcGetMemHandle", ctypes.byref(handle), pointer))
    line = [sys.executable, "-m", "benches.gpu.ipc_child", bytes(handle).hex(), str(len(_PATTERN))]
    done = subprocess.run(line, capture_output=True, text=True, timeout=20, check=False)
    written = driver.read(pointer, 4)
    driver.call("cuMemFree_v2", pointer)
    report.fact("CUDA IPC, the other process", (done.stdout or done.stderr[-300:]).strip())
    return f"handle in {get:.3f} ms; the other process wrote: {written == b'done'}"


def _nvml(report: Report) -> None:
    """The figures behind Triton's metrics nv_gpu_*, with the duration of a call."""
    import pynvml

    report.attempt("NVML, nvmlInit", pynvml.nvmlInit)
    device = pynvml.nvmlDeviceGetHandleByIndex(0)
    report.attempt("NVML, UUID", lambda: _short(pynvml.nvmlDeviceGetUUID(device)))
    calls = {
        "UtilizationRates": lambda value: f"gpu {value.gpu} %, memory {value.memory} %",
        "MemoryInfo": lambda value: f"used {value.used}, total {value.total}",
        "PowerUsage": lambda value: f"{value} mW",
        "EnforcedPowerLimit": lambda value: f"{value} mW",
        "PowerManagementLimit": lambda value: f"{value} mW",
        "TotalEnergyConsumption": lambda value: f"{value} mJ",
        "MigMode": str,
        "ComputeMode": str,
        "CurrPcieLinkGeneration": str,
        "CurrPcieLinkWidth": str,
        "ComputeRunningProcesses": lambda value: (
            f"{len(value)} processes, own: {os.getpid() in [one.pid for one in value]}"
        ),
        "Temperature": str,
    }
    for name, show in calls.items():
        arguments = (device, 0) if name == "Temperature" else (device,)
        report.attempt(f"NVML, {name}", lambda n=name, a=arguments, s=show: _timed(getattr(pynvml, _GET + n), a, s))


def _timed(function: Any, arguments: tuple[Any, ...], show: Any) -> str:
    text = show(function(*arguments))
    return f"{text} ({milliseconds(lambda: function(*arguments), repeats=5) * 1000:.0f} us)"


def _short(uuid: Any) -> str:
    text = uuid.decode() if isinstance(uuid, bytes) else str(uuid)
    return f"{text[:8]}..., {len(text)} characters"
