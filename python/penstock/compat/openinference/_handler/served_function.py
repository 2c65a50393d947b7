"""`ServedFunction`: an imported function that handles requests, in a worker process or in the server's."""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock import HandlerError, PenstockError
from penstock.compat.openinference._definition.function_spec import FunctionSpec
from penstock.compat.openinference._handler import imports
from penstock.compat.openinference._handler.call import Caller, call_init, reserved_arguments
from penstock.compat.openinference._handler.handler_context import Context, Event, Project, Run
from penstock.compat.openinference._request import InferenceRequest
from penstock.compat.openinference._request_json import parse_request
from penstock.compat.openinference._response import to_response
from penstock.compat.openinference._settings import Options
from penstock.compat.openinference._sources.fetch import fetch_code, locate_code
from penstock.compat.openinference._tensors import DeclaredTensors
from penstock.integrations.modules import IsolatedModules

if TYPE_CHECKING:
    from penstock import Context as NativeContext
    from penstock import Request, Response

__all__ = ["ServedFunction"]


class ServedFunction:
    """A loaded function: its code is imported, and its init function has run.

    Args:
        function: Function to load.
        options: Options of the function.
        root: Folder of remote code that is fetched already.
    """

    def __init__(self, function: FunctionSpec, options: Options, root: Path | None = None) -> None:
        self._options = options
        self._call = Caller()
        with contextlib.ExitStack() as closing:
            closing.callback(self._call.close)
            self._load(function, root, closing)
            self._closing = closing.pop_all()

    def _load(self, function: FunctionSpec, root: Path | None, closing: contextlib.ExitStack) -> None:
        options, modules = self._options, None
        folder = Path(closing.enter_context(tempfile.TemporaryDirectory(prefix="penstock-function-")))
        source = fetch_code(function, folder) if root is None else locate_code(function, root)
        if options.isolation == "server":
            modules = IsolatedModules(function.model_name, imports.import_folders(source))
            closing.callback(modules.forget)
        else:
            # Same as upstream: relative paths of files start at the code's folder.
            os.chdir(source.root)
        project = options.project or function.project
        self._project = Project(project)
        self._run = Run(project, function.name, options.run or "local")
        self._context = Context(function.model_name, os.getpid(), self._project, self._run, source.root)
        self._handler, init = imports.load_functions(source, function.source.init_function, modules)
        self._context.user_function = self._handler
        self._arguments, self._takes_request, self._takes_event = self._fixed_arguments()
        # Metrics can only be logged through the run, or through the context that holds it.
        self._may_log_metrics = init is not None or not self._arguments.keys().isdisjoint(("context", "run"))
        self._inputs = DeclaredTensors(function.inputs, function.model_name)
        self._outputs = DeclaredTensors(function.outputs)
        self._validates = options.validate == "on"
        self._logger = logging.getLogger(f"penstock.{function.model_name}")
        if init is not None:
            call_init(init, self._context, options.init_parameters, self._call)

    def __call__(self, request: Request, native: NativeContext) -> Response:
        """Handles a request."""
        protocol, parsed, raw_request = request.protocol, None, None
        if request.route is not None:
            # The function receives the raw body, so parsing and output selection happen here instead of in the server.
            parsed = raw_request = parse_request(request.body, self._inputs if self._validates else None)
        if self._may_log_metrics:
            self._run.publish_metrics(native)
        arguments = dict(self._arguments)
        parsed = parsed or self._parse(request)
        if self._takes_request:
            arguments["request"] = parsed
        if self._takes_event:
            arguments["event"] = _event(request, parsed, native)
        try:
            returned = self._call(self._handler, arguments)
        except PenstockError:
            raise
        except Exception as error:
            self._logger.exception("the handler failed")
            status = getattr(error, "status_code", None)
            if isinstance(status, int) and 400 <= status <= 599:
                return to_response((status, str(error)), self._outputs, self._options, protocol, raw_request)
            raise HandlerError(str(error) or type(error).__name__) from None
        return to_response(returned, self._outputs, self._options, protocol, raw_request)

    def _parse(self, request: Request) -> InferenceRequest:
        tensors, datatypes = request.tensors, request.datatypes
        if self._validates:
            tensors, datatypes = self._inputs.check_request(tensors, datatypes)
        return InferenceRequest.of(request, tensors, datatypes, self._options)

    def close(self) -> None:
        """Releases the modules, the event loop and the temporary folder."""
        self._closing.close()

    def _fixed_arguments(self) -> tuple[dict[str, Any], bool, bool]:
        """Returns the constant arguments of the handler, and whether it takes the request and the event."""
        names = reserved_arguments(self._handler)
        available = {"context": self._context, "project": self._project, "run": self._run}
        arguments = {name: available[name] for name in names if name in available}
        return arguments, "request" in names, "event" in names


def _event(request: Request, parsed: InferenceRequest, native: NativeContext) -> Event:
    headers = {
        **request.headers,
        "X-Model-Name": native.model_name,
        "X-Model-Version": native.model_version,
        "X-Request-ID": parsed.id or request.id,
    }
    if request.protocol == "grpc":
        headers["X-Protocol"] = "grpc"
    return Event(parsed.dict(), headers, f"/v2/models/{native.model_name}/infer", parsed.id or "")
