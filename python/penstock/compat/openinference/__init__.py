"""DigitalHub's functions of the kind `openinference`, served by Penstock. See docs/openinference.md.

Example:
    >>> from penstock.compat.openinference import new_function
    >>> function = new_function("double", code=CODE, handler="handler", inputs=[{"name": "x", "shape": [-1]}])
    >>> run = function.run("serve", wait=True)
    >>> run.invoke(json={"inputs": [{"name": "x", "datatype": "FP32", "shape": [2], "data": [1, 2]}]}).json()
"""

from __future__ import annotations

from penstock.compat.openinference._binding import bind, made
from penstock.compat.openinference._door import check, describe, detect, load, scaffold
from penstock.compat.openinference._files import function_at
from penstock.compat.openinference._function import FunctionSpec, Source, TensorSpec, read
from penstock.compat.openinference._injected import Context, Event, Project, Response, Run
from penstock.compat.openinference._options import Options
from penstock.compat.openinference._problems import Wrong
from penstock.compat.openinference._request import InferenceRequest, InputTensor, RequestedOutput
from penstock.compat.openinference._runs import BuildRun, RunStatus, ServeRun
from penstock.compat.openinference._sdk import Function, function_of, new_function

__all__ = [
    "BuildRun",
    "Context",
    "Event",
    "Function",
    "FunctionSpec",
    "InferenceRequest",
    "InputTensor",
    "Options",
    "Project",
    "RequestedOutput",
    "Response",
    "Run",
    "RunStatus",
    "ServeRun",
    "Source",
    "TensorSpec",
    "Wrong",
    "bind",
    "check",
    "describe",
    "detect",
    "function_at",
    "function_of",
    "load",
    "made",
    "new_function",
    "read",
    "scaffold",
]
