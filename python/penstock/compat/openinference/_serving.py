"""A function in the process that computes it."""

from __future__ import annotations

import logging
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock import HandlerError, PenstockError
from penstock.compat.openinference import _code
from penstock.compat.openinference._answers import answer_of
from penstock.compat.openinference._calling import Waiting, call_init, wanted
from penstock.compat.openinference._function import FunctionSpec
from penstock.compat.openinference._injected import Context, Event, Project, Run
from penstock.compat.openinference._options import Options
from penstock.compat.openinference._request import InferenceRequest
from penstock.compat.openinference._sources import fetched, located
from penstock.compat.openinference._tensors import checked_inputs

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
        self._function, self._options = function, options
        self._own = tempfile.TemporaryDirectory(prefix="penstock-function-")
        code = fetched(function, Path(self._own.name)) if root is None else located(function, root)
        # As upstream: files beside the code are opened by their names.
        os.chdir(code.root)
        project = options.project or function.project
        self._project = Project(project)
        self._run = Run(project, function.name, options.run or "local")
        self._context = Context(function.model_name, os.getpid(), self._project, self._run, code.root)
        self._call = Waiting()
        self._handler, init = _code.functions_of(code, function.source.init_function)
        self._context.user_function = self._handler
        self._wanted = wanted(self._handler)
        self._logger = logging.getLogger(f"penstock.{function.model_name}")
        if init is not None:
            call_init(init, self._context, options.init_parameters, self._call)

    def __call__(self, request: Request, native: NativeContext) -> Response:
        """Answers a request."""
        function, options = self._function, self._options
        tensors, datatypes = request.tensors, request.datatypes
        if options.validate == "on":
            tensors, datatypes = checked_inputs(tensors, datatypes, function.inputs, function.model_name)
        self._run.tell(native)
        asked = InferenceRequest.of(request, tensors, datatypes, options)
        try:
            returned = self._call(self._handler, **self._arguments(request, asked, native))
        except PenstockError:
            raise
        except Exception as error:
            self._logger.exception("the handler failed")
            status = getattr(error, "status_code", None)
            if isinstance(status, int) and 400 <= status <= 599:
                return answer_of((status, str(error)), (), options, request.protocol)
            raise HandlerError(str(error) or type(error).__name__) from None
        return answer_of(returned, function.outputs, options, request.protocol)

    def close(self) -> None:
        """Lets go of what it has."""
        self._call.close()
        self._own.cleanup()

    def _arguments(self, request: Request, asked: InferenceRequest, native: NativeContext) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name in self._wanted:
            if name == "request":
                found[name] = asked
            elif name == "context":
                found[name] = self._context
            elif name == "event":
                found[name] = self._event(request, asked, native)
            else:
                found[name] = self._project if name == "project" else self._run
        return found

    def _event(self, request: Request, asked: InferenceRequest, native: NativeContext) -> Event:
        headers = {
            **request.headers,
            "X-Model-Name": native.model_name,
            "X-Model-Version": native.model_version,
            "X-Request-ID": request.id,
        }
        if request.protocol == "grpc":
            headers["X-Protocol"] = "grpc"
        return Event(asked.dict(), headers, f"/v2/models/{native.model_name}/infer", request.id)
