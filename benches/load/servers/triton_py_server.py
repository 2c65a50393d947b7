"""Triton's own Python backend: the server binary inside the nvidia-pytriton wheel, run directly."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
import tempfile
from pathlib import Path

import models

SITE_PACKAGES = Path(sysconfig.get_path("purelib"))
TRITON = SITE_PACKAGES / "pytriton" / "tritonserver"

# Runs inside Triton's own interpreter.
MODEL = f"""
import sys

sys.path[:0] = [{str(Path(__file__).parent)!r}, {str(SITE_PACKAGES)!r}]
import models
import numpy as np
import triton_python_backend_utils as backend


class TritonPythonModel:
    def initialize(self, arguments):
        self.call = models.lookup(arguments["model_name"]).call

    def execute(self, requests):
        inputs = [backend.get_input_tensor_by_name(request, "x").as_numpy() for request in requests]
        joined = inputs[0] if len(inputs) == 1 else np.concatenate(inputs)
        ends = np.cumsum([len(one) for one in inputs])[:-1]
        parts = np.split(self.call(joined), ends)
        return [backend.InferenceResponse([backend.Tensor("y", np.ascontiguousarray(part))]) for part in parts]
"""


def configuration(name: str) -> str:
    """A model's config.pbtxt."""
    served, batched = models.lookup(name), models.batched(name)
    # With batching Triton adds the batch axis itself.
    lead = () if batched else (-1,)

    def tensor(role: str, tensor_name: str, datatype: str, shape: tuple[int, ...]) -> str:
        return f'{role} [{{ name: "{tensor_name}" data_type: {datatype} dims: {[*lead, *shape]} }}]'

    lines = [
        f'name: "{name}"',
        'backend: "python"',
        f"max_batch_size: {models.MAX_BATCH if batched else 0}",
        tensor("input", "x", "TYPE_STRING" if served.text else "TYPE_FP32", served.input_shape),
        tensor("output", "y", "TYPE_FP32", served.output_shape),
        "instance_group [{ count: 1 kind: KIND_CPU }]",
    ]
    if batched:
        delay_us = int(models.DELAY_SECONDS * 1e6)
        lines.append(f"dynamic_batching {{ max_queue_delay_microseconds: {delay_us} }}")
    return "\n".join(lines) + "\n"


def backend(folder: Path) -> None:
    """Links the backend and copies its stub for this Python into one folder; the wheel has them in separate folders."""
    folder.mkdir(parents=True)
    for file in (TRITON / "backends" / "python").iterdir():
        (folder / file.name).symlink_to(file)
    stub = "triton_python_backend_stub"
    shutil.copy(TRITON / "python_backend_stubs" / f"3.{sys.version_info[1]}" / stub, folder / stub)


def main() -> None:
    """Writes a model repository and becomes the server."""
    root = Path(tempfile.mkdtemp(prefix="bench-triton-"))
    for name in models.NAMES:
        folder = root / "models" / name
        (folder / "1").mkdir(parents=True)
        (folder / "1" / "model.py").write_text(MODEL)
        (folder / "config.pbtxt").write_text(configuration(name))
    backend(root / "backends" / "python")
    libraries = [str(SITE_PACKAGES / "nvidia_pytriton.libs"), os.environ.get("LD_LIBRARY_PATH", "")]
    os.environ["LD_LIBRARY_PATH"] = ":".join(libraries)
    os.environ["PYTHONPATH"] = str(SITE_PACKAGES)
    executable = TRITON / "bin" / "tritonserver"
    options = {
        "model-repository": root / "models",
        "backend-directory": root / "backends",
        "http-address": "127.0.0.1",
        "http-port": models.PORT,
        "grpc-address": "127.0.0.1",
        "grpc-port": models.GRPC_PORT,
        "metrics-port": models.METRICS_PORT,
    }
    line = [f"--{name}={value}" for name, value in options.items()]
    os.execv(executable, [str(executable), *line, "--disable-auto-complete-config"])


if __name__ == "__main__":
    main()
