"""`App`: an imported app, its declarations, and calls of its methods."""

from __future__ import annotations

import ast
import asyncio
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from penstock.compat.inferless._app.modules import AppModules
from penstock.compat.inferless._spec.app_files import CLASS, Layout
from penstock.compat.inferless._spec.pydantic_schema import tensors_of
from penstock.compat.inferless._spec.samples import read_samples
from penstock.compat.inferless._spec.schema import Schema, SchemaError, Tensor, read_inputs

__all__ = ["App"]


class App:
    """An imported app. `start` creates the object.

    Args:
        folder: The app's folder.
        modules: Imports the app's modules.

    Raises:
        SchemaError: the declaration of its inputs is missing or invalid.
        Exception: importing the app raised it.
    """

    def __init__(self, folder: Path, modules: AppModules) -> None:
        self._modules = modules
        self.layout = Layout.of(folder)
        app = self.layout.required_app()
        self.module = modules.find("app")
        self.request, self.response = (_decorated_class(app, self.module, one) for one in ("request", "response"))
        self.cls = _find_class(self.module)
        self._names = _method_names(self.cls)
        self.schema = self._read_schema()
        self.parameters = _positional_parameters(getattr(self.cls, self._names["infer"]))
        self.instance: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def infer_function(self) -> Any:
        """The class's method that computes, unbound."""
        return getattr(self.cls, self._names["infer"])

    @property
    def is_async(self) -> bool:
        """True if `infer` is a coroutine function."""
        return inspect.iscoroutinefunction(self.infer_function)

    def start(self) -> None:
        """Creates the object and initializes it."""
        self.instance = self.cls()
        initialize = getattr(self.instance, self._names["initialize"], None)
        if initialize is not None:
            self.resolve(initialize(*_none_arguments(initialize)))

    def stop(self) -> None:
        """Finalizes the object. Raises the exceptions of `finalize`."""
        instance, self.instance = self.instance, None
        finalize = getattr(instance, "finalize", None)
        if finalize is not None:
            self.resolve(finalize(*_none_arguments(finalize)))
        if self._loop is not None:
            self._loop.close()
            self._loop = None

    def infer(self, inputs: Any, handler: Any = None) -> Any:
        """Calls `infer`. Returns its result, which may be a coroutine or a generator."""
        method = getattr(self.instance, self._names["infer"])
        if not self.parameters:
            return method()
        if len(self.parameters) > 1 and handler is not None:
            return method(inputs, handler)
        return method(inputs)

    def loop(self) -> asyncio.AbstractEventLoop:
        """Returns the event loop of the app's coroutines."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        return self._loop

    def resolve(self, value: Any) -> Any:
        """Returns a value; runs an awaitable to its end and returns its result."""
        if not inspect.isawaitable(value):
            return value

        async def awaited() -> Any:
            return await value

        try:
            return self.loop().run_until_complete(awaited())
        except BaseException:
            self._cancel_tasks()
            raise

    def _cancel_tasks(self) -> None:
        """Cancels the tasks of a call that failed or was interrupted."""
        loop = self.loop()
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        if tasks:
            loop.run_until_complete(asyncio.wait(tasks, timeout=1.0))

    def _read_schema(self) -> Schema:
        layout, warnings = self.layout, []
        declared = self._modules.find("input_schema") if layout.schema is not None else None
        outputs: tuple[Tensor, ...] = ()
        if self.request is not None:
            inputs, source = tensors_of(self.request), f"the class {self.request.__name__}"
            try:
                outputs = () if self.response is None else tensors_of(self.response)
            except SchemaError as error:
                # Output tensors follow the values; the declaration is metadata only.
                warnings.append(str(error))
        elif declared is not None and hasattr(declared, "INPUT_SCHEMA"):
            inputs, source = read_inputs(declared.INPUT_SCHEMA), "input_schema.py"
        elif layout.inputs is not None:
            inputs, source = read_samples(layout.inputs, "inputs"), "input.json"
            outputs = read_samples(layout.outputs, "outputs") if layout.outputs is not None else ()
        else:
            raise SchemaError(
                "the app declares no inputs: it has neither input_schema.py with INPUT_SCHEMA, nor a class with "
                "@inferless.request, nor input.json"
            )
        constants = _constants(declared, self._modules.config_variables() if self.request is not None else {})
        return Schema(
            inputs=inputs,
            outputs=outputs,
            source=source,
            batch_size=_count("BATCH_SIZE", constants.get("BATCH_SIZE")),
            batch_window=_milliseconds(constants.get("BATCH_WINDOW")),
            streaming=_is_true(constants.get("IS_STREAMING_OUTPUT")) or self._yields(),
            warnings=tuple(warnings),
        )

    def _yields(self) -> bool:
        infer = self.infer_function
        return inspect.isgeneratorfunction(infer) or inspect.isasyncgenfunction(infer)


def _find_class(module: ModuleType) -> Any:
    """Returns the served class.

    Raises:
        SchemaError: there is no such class, or several candidates.
    """
    classes = [one for one in vars(module).values() if inspect.isclass(one)]
    marked = [one for one in classes if _find_marked(one, "_is_infer") is not None]
    if marked:
        return marked[0]
    named = vars(module).get(CLASS)
    if inspect.isclass(named):
        if not hasattr(named, "infer"):
            raise SchemaError(f"the class {CLASS} has no method infer")
        return named
    candidates = list({id(one): one for one in classes if hasattr(one, "infer")}.values())
    if len(candidates) != 1:
        found = ", ".join(one.__name__ for one in candidates) or "none"
        raise SchemaError(f"app.py has no class {CLASS}, and of other classes with a method infer: {found}")
    return candidates[0]


def _find_marked(cls: Any, mark: str) -> str | None:
    """Returns the name of the method with a decorator's mark."""
    for name in dir(cls):
        if getattr(inspect.getattr_static(cls, name), mark, False) is True:
            return name
    return None


def _method_names(cls: Any) -> dict[str, str]:
    """Returns the names of the methods that load and compute."""
    return {
        "initialize": _find_marked(cls, "_is_loader") or "initialize",
        "infer": _find_marked(cls, "_is_infer") or "infer",
    }


def _positional_parameters(method: Any) -> tuple[str, ...]:
    """Returns the positional parameters of a method, without `self`."""
    found = list(inspect.signature(method).parameters.values())[1:]
    names = [one.name for one in found if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    if any(one.kind is one.VAR_POSITIONAL for one in found):
        names += ["inputs", "stream_output_handler"][len(names) :]
    return tuple(names)


def _none_arguments(method: Callable[..., Any]) -> list[None]:
    """Returns `None` per required parameter: Inferless passes no arguments, but apps declare some."""
    try:
        parameters = inspect.signature(method).parameters.values()
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [None for one in parameters if one.kind in kinds and one.default is one.empty]


def _decorated_class(app: Path, module: ModuleType, word: str) -> Any:
    """Returns the class with the decorator `request` or `response`; None if there is none."""
    for node in ast.parse(app.read_bytes()).body:
        if isinstance(node, ast.ClassDef) and any(_is_decorator(one, word) for one in node.decorator_list):
            return vars(module).get(node.name)
    return None


def _is_decorator(decorator: ast.expr, word: str) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return (isinstance(called, ast.Attribute) and called.attr == word) or (
        isinstance(called, ast.Name) and called.id == word
    )


def _constants(declared: ModuleType | None, variables: Mapping[str, str]) -> Mapping[str, Any]:
    """Returns the constants of `input_schema.py` and the variables that `@inferless.config` set."""
    return {**variables, **({} if declared is None else vars(declared))}


def _is_true(value: Any) -> bool:
    return value is True or str(value).strip().lower() in ("true", "1")


def _count(name: str, value: Any) -> int:
    if value is None or str(value).strip() in ("", "None"):
        return 0
    try:
        count = int(str(value))
    except ValueError:
        count = -1
    if count < 0:
        raise SchemaError(f"{name} must be a whole number of 1 or more, not {value!r}")
    return count


def _milliseconds(value: Any) -> float:
    if value is None or str(value).strip() in ("", "None"):
        return 500.0
    try:
        window = float(str(value))
    except ValueError:
        window = -1.0
    if not 0 <= window < float("inf"):
        raise SchemaError(f"BATCH_WINDOW must be a number of milliseconds, not {value!r}")
    return window
