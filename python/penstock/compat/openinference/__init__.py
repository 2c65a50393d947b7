"""Integration for DigitalHub's functions of the kind `openinference`. See docs/openinference.md.

Example:
    >>> from penstock.compat.openinference import new_function
    >>> function = new_function("double", code=CODE, handler="handler", inputs=[{"name": "x", "shape": [-1]}])
    >>> run = function.run("serve", wait=True)
    >>> run.invoke(json={"inputs": [{"name": "x", "datatype": "FP32", "shape": [2], "data": [1, 2]}]}).json()
"""

from __future__ import annotations

from penstock.compat.openinference._bind import bind, create_model
from penstock.compat.openinference._check import check
from penstock.compat.openinference._definition.files import read_function
from penstock.compat.openinference._definition.function_spec import FunctionSpec, Source, TensorSpec, parse_definition
from penstock.compat.openinference._definition.validation import DefinitionError
from penstock.compat.openinference._detect import detect
from penstock.compat.openinference._examples import scaffold
from penstock.compat.openinference._handler.handler_context import Context, Event, Project, Response, Run
from penstock.compat.openinference._image import describe
from penstock.compat.openinference._load import load
from penstock.compat.openinference._request import InferenceRequest, InputTensor, RequestedOutput
from penstock.compat.openinference._sdk.functions import Function, as_function, new_function
from penstock.compat.openinference._sdk.runs import BuildRun, RunStatus, ServeRun
from penstock.compat.openinference._settings import Options

__all__ = [
    "BuildRun",
    "Context",
    "DefinitionError",
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
    "as_function",
    "bind",
    "check",
    "create_model",
    "describe",
    "detect",
    "load",
    "new_function",
    "parse_definition",
    "read_function",
    "scaffold",
]
