"""Versions, the GPU and its driver."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import time

from benches.gpu.report import Report
from benches.load.machine import machine


def run(report: Report) -> None:
    """Reports them."""
    report.fact("machine", machine())
    for package in ("penstock", "torch", "torchvision", "numpy", "cupy-cuda13x", "litserve", "onnxruntime"):
        report.attempt(package, lambda package=package: importlib.metadata.version(package))
    start = time.perf_counter()
    import torch

    report.fact("import torch, s", round(time.perf_counter() - start, 2))
    if not report.cpu:
        properties = torch.cuda.get_device_properties(0)
        report.fact("GPU", f"{properties.name}, {properties.total_memory / 2**30:.1f} GiB, CUDA {torch.version.cuda}")
        report.attempt("driver", _driver)
    report.fact("cores", len(os.sched_getaffinity(0)))
    has_triton = importlib.util.find_spec("pytriton") is not None
    report.fact("Triton's server", "PyTriton is installed" if has_triton else "not installed, so not compared")


def _driver() -> str:
    import pynvml

    pynvml.nvmlInit()
    return str(pynvml.nvmlSystemGetDriverVersion())
