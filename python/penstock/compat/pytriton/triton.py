"""Servers of Python callables, and their settings: `Triton` in this process, `RemoteTriton` in another one.

Example:
    >>> with Triton() as triton:
    ...     triton.bind("double", double, inputs=[Tensor(name="x", dtype=np.float32, shape=(-1,))],
    ...                 outputs=[Tensor(name="y", dtype=np.float32, shape=(-1,))])
    ...     triton.serve()
"""

from __future__ import annotations

from pathlib import Path

from penstock.compat.pytriton._server.base import MONITORING_PERIOD_S, WAIT_FORM_MODEL_TIMEOUT_S, TritonBase
from penstock.compat.pytriton._server.in_process import Triton
from penstock.compat.pytriton._server.lifecycle import (
    DefaultTritonLifecyclePolicy,
    TritonLifecyclePolicy,
    VertextAILifecyclePolicy,
)
from penstock.compat.pytriton._server.remote import RemoteTriton
from penstock.compat.pytriton._settings.security import (
    DEFAULT_PROTECTED_ENDPOINTS,
    TRITON_ACCESS_HEADER,
    VALID_TRITON_ENDPOINTS,
    TritonSecurityConfig,
)
from penstock.compat.pytriton._settings.triton_config import TritonConfig

__all__ = [
    "DEFAULT_PROTECTED_ENDPOINTS",
    "MONITORING_PERIOD_S",
    "TRITONSERVER_DIST_DIR",
    "TRITON_ACCESS_HEADER",
    "VALID_TRITON_ENDPOINTS",
    "WAIT_FORM_MODEL_TIMEOUT_S",
    "DefaultTritonLifecyclePolicy",
    "RemoteTriton",
    "Triton",
    "TritonBase",
    "TritonConfig",
    "TritonLifecyclePolicy",
    "TritonSecurityConfig",
    "VertextAILifecyclePolicy",
]

TRITONSERVER_DIST_DIR = Path(__file__).parent / "tritonserver"
"""PyTriton's folder of Triton binaries. Penstock has no binaries, and this folder does not exist."""
