"""A function where it is computed: in a process of its own, or in the server's."""

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
from penstock.compat.openinference._handler.call import Waiting, call_init, wanted
from penstock.compat.openinference._handler.handler_context import Context, Event, Project, Run
from penstock.compat.openinference._request import InferenceRequest
from penstock.compat.openinference._request_json import read
from penstock.compat.openinference._response import answer_of
from penstock.compat.openinference._settings import Options
from penstock.compat.openinference._sources.fetch import fetched, located
from penstock.compat.openinference._tensors import Declared
from penstock.integrations.modules import OwnModules

if TYPE_CHECKING:
    from penstock import Context as NativeContext
    from penstock import Request, Response

__all__ = ["Served"]


class Served:
    """A function that is ready: its code is imported, and its init function has run.

    Args:
        function: Which.
        options: How it is served.
        root: Where its code lies, if it has been got from elsewhere already.
    """

    def __init__(self, function: FunctionSpec, options: Options, root: Path | None = None) -> None:
        self._options = options
        self._call = Waiting()
        with contextlib.ExitStack() as closing:
            closing.callback(self._call.close)
            self._build(function, root, closing)
            self._closing = closing.pop_all()

    def _build(self, function: FunctionSpec, root: Path | None, closing: contextlib.ExitStack) -> None:
        options, modules = self._options, None
        own = Path(closing.enter_context(tempfile.TemporaryDirectory(prefix="penstock-function-")))
        code = fetched(function, own) if root is None else located(function, root)
        if options.isolation == "server":
            modules = OwnModules(function.model_name, imports.folders_of(code))
            closing.callback(modules.forget)
        else:
            # As upstream: files beside the code are opened by their names.
            os.chdir(code.root)
        project = options.project or function.project
        self._project = Project(project)
        self._run = Run(project, function.name, options.run or "local")
        self._context = Context(function.model_name, os.getpid(), self._project, self._run, code.root)
        self._handler, init = imports.functions_of(code, function.source.init_function, modules)
        self._context.user_function = self._handler
        self._fixed, self._takes_request, self._takes_event = self._arguments()
        # Only who has the run, or the context that has it, can log metrics.
        self._tells = init is not None or not self._fixed.keys().isdisjoint(("context", "run"))
        self._inputs = Declared(function.inputs, function.model_name)
        self._outputs = Declared(function.outputs)
        self._checks = options.validate == "on"
        self._logger = logging.getLogger(f"penstock.{function.model_name}")
        if init is not None:
            call_init(init, self._context, options.init_parameters, self._call)

    def __call__(self, request: Request, native: NativeContext) -> Response:
        """Answers a request."""
        protocol, asked, own = request.protocol, None, None
        if request.route is not None:
            # The function reads the body itself, and so does what the server does for others.
            asked = own = read(request.body, self._inputs if self._checks else None)
        if self._tells:
            self._run.tell(native)
        arguments = dict(self._fixed)
        asked = asked or self._asked(request)
        if self._takes_request:
            arguments["request"] = asked
        if self._takes_event:
            arguments["event"] = _event(request, asked, native)
        try:
            returned = self._call(self._handler, arguments)
        except PenstockError:
            raise
        except Exception as error:
            self._logger.exception("the handler failed")
            status = getattr(error, "status_code", None)
            if isinstance(status, int) and 400 <= status <= 599:
                return answer_of((status, str(error)), self._outputs, self._options, protocol, own)
            raise HandlerError(str(error) or type(error).__name__) from None
        return answer_of(returned, self._outputs, self._options, protocol, own)

    def _asked(self, request: Request) -> InferenceRequest:
        tensors, datatypes = request.tensors, request.datatypes
        if self._checks:
            tensors, datatypes = self._inputs.of_request(tensors, datatypes)
        return InferenceRequest.of(request, tensors, datatypes, self._options)

    def close(self) -> None:
        """Lets go of what it has."""
        self._closing.close()

    def _arguments(self) -> tuple[dict[str, Any], bool, bool]:
        """What the handler gets each time, and whether it takes the request and the event."""
        names = wanted(self._handler)
        lasting = {"context": self._context, "project": self._project, "run": self._run}
        fixed = {name: lasting[name] for name in names if name in lasting}
        return fixed, "request" in names, "event" in names


def _event(request: Request, asked: InferenceRequest, native: NativeContext) -> Event:
    headers = {
        **request.headers,
        "X-Model-Name": native.model_name,
        "X-Model-Version": native.model_version,
        "X-Request-ID": asked.id or request.id,
    }
    if request.protocol == "grpc":
        headers["X-Protocol"] = "grpc"
    return Event(asked.dict(), headers, f"/v2/models/{native.model_name}/infer", asked.id or "")
