"""PyTriton's interface: scripts import `penstock.compat.pytriton` in place of `pytriton`.

`__version__` is the version of the emulated PyTriton release, because scripts compare it. Penstock's own version is
`penstock.__version__`.
"""

from __future__ import annotations

from penstock.compat.pytriton import client, model_config, triton

__all__ = ["__version__", "client", "model_config", "triton"]

__version__ = "0.7.0"
