"""PyTriton's interface: a script changes `pytriton` to `penstock.compat.pytriton` in its imports, and runs.

`__version__` is that of the PyTriton whose interface it is, because scripts compare it; Penstock's own is
`penstock.__version__`.
"""

from __future__ import annotations

from penstock.compat.pytriton import client, model_config, triton

__all__ = ["__version__", "client", "model_config", "triton"]

__version__ = "0.7.0"
