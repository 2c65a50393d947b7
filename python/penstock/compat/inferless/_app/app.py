"""`App`: the user's class, where it runs, and how its methods are called."""

from __future__ import annotations

import ast
import asyncio
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from penstock.compat.inferless._app.modules import Modules
from penstock.compat.inferless._detect import CLASS, Layout
from penstock.compat.inferless._spec.pydantic_schema import tensors_of
from penstock.compat.inferless._spec.samples import read_samples
from penstock.compat.inferless._spec.schema import Schema, SchemaError, Tensor, read_inputs

__all__ = ["App"]


class App:
    """An app that is imported. `start` builds it.

    Args:
        folder: Its folder.
        modules: Where its modules come from.

    Raises:
        SchemaError: it declares its inputs wrongly, or not at all.
        Exception: whatever importing it raises.
    """

    def __init__(self, folder: Path, modules: Modules) -> None:
        self._modules = modules
        self.layout = Layout.of(folder)
        app = self.layout.required_app()
        self.module = modules.find("app")
        self.request, self.response = (_decorated(app, self.module, one) for one in ("request", "response"))
        self.cls = _class_of(self.module)
        self._names = _names_of(self.cls)
        self.schema = self._read_schema()
        self.takes = _parameters(getattr(self.cls, self._names["infer"]))
        self.instance: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def infer_function(self) -> Any:
        """The method `infer`, as the class has it."""
        return getattr(self.cls, self._names["infer"])

    @property
    def is_async(self) -> bool:
        """Whether `infer` is a coroutine function."""
        return inspect.iscoroutinefunction(self.infer_function)

    def start(self) -> None:
        """Builds the object, and has it load."""
        self.instance = self.cls()
        initialize = getattr(self.instance, self._names["initialize"], None)
        if initialize is not None:
            self.wait(initialize(*_nones(initialize)))

    def stop(self) -> None:
        """Has the object finalize. Raises what that raises."""
        instance, self.instance = self.instance, None
        finalize = getattr(instance, "finalize", None)
        if finalize is not None:
            self.wait(finalize(*_nones(finalize)))
        if self._loop is not None:
            self._loop.close()
            self._loop = None

    def infer(self, inputs: Any, handler: Any = None) -> Any:
        """What `infer` gives for inputs as it takes them: a coroutine or a generator, if it is such."""
        method = getattr(self.instance, self._names["infer"])
        if not self.takes:
            return method()
        if len(self.takes) > 1 and handler is not None:
            return method(inputs, handler)
        return method(inputs)

    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop of what is async in it."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        return self._loop

    def wait(self, value: Any) -> Any:
        """A value, or what an awaitable gives."""
        if not inspect.isawaitable(value):
            return value

        async def awaited() -> Any:
            return await value

        try:
            return self.loop().run_until_complete(awaited())
        except BaseException:
            self._end_tasks()
            raise

    def _end_tasks(self) -> None:
        """Cancels what a call has left on the loop, one that took too long for example."""
        loop = self.loop()
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left, timeout=1.0))

    def _read_schema(self) -> Schema:
        layout, warnings = self.layout, []
        declared = self._modules.find("input_schema") if layout.schema is not None else None
        outputs: tuple[Tensor, ...] = ()
        if self.request is not None:
            inputs, source = tensors_of(self.request), f"the class {self.request.__name__}"
            try:
                outputs = () if self.response is None else tensors_of(self.response)
            except SchemaError as error:
                # What comes out follows the values; what is declared only tells.
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
        said = _constants(declared, self._modules.left() if self.request is not None else {})
        return Schema(
            inputs=inputs,
            outputs=outputs,
            source=source,
            batch_size=_whole("BATCH_SIZE", said.get("BATCH_SIZE")),
            batch_window=_milliseconds(said.get("BATCH_WINDOW")),
            streaming=_is_true(said.get("IS_STREAMING_OUTPUT")) or self._yields(),
            warnings=tuple(warnings),
        )

    def _yields(self) -> bool:
        infer = self.infer_function
        return inspect.isgeneratorfunction(infer) or inspect.isasyncgenfunction(infer)


def _class_of(module: ModuleType) -> Any:
    """The class that is served.

    Raises:
        SchemaError: there is none, or several could be.
    """
    classes = [one for one in vars(module).values() if inspect.isclass(one)]
    marked = [one for one in classes if _marked(one, "_is_infer") is not None]
    if marked:
        return marked[0]
    named = vars(module).get(CLASS)
    if inspect.isclass(named):
        if not hasattr(named, "infer"):
            raise SchemaError(f"the class {CLASS} has no method infer")
        return named
    able = list({id(one): one for one in classes if hasattr(one, "infer")}.values())
    if len(able) != 1:
        found = ", ".join(one.__name__ for one in able) or "none"
        raise SchemaError(f"app.py has no class {CLASS}, and of other classes with a method infer: {found}")
    return able[0]


def _marked(cls: Any, mark: str) -> str | None:
    """The name of the method that carries a mark."""
    for name in dir(cls):
        if getattr(inspect.getattr_static(cls, name), mark, False) is True:
            return name
    return None


def _names_of(cls: Any) -> dict[str, str]:
    return {
        "initialize": _marked(cls, "_is_loader") or "initialize",
        "infer": _marked(cls, "_is_infer") or "infer",
    }


def _parameters(method: Any) -> tuple[str, ...]:
    """The positional parameters of a method, without `self`."""
    found = list(inspect.signature(method).parameters.values())[1:]
    names = [one.name for one in found if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    if any(one.kind is one.VAR_POSITIONAL for one in found):
        names += ["inputs", "stream_output_handler"][len(names) :]
    return tuple(names)


def _nones(method: Callable[..., Any]) -> list[None]:
    """As many as a bound method needs arguments: apps declare some that nobody gives."""
    try:
        parameters = inspect.signature(method).parameters.values()
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [None for one in parameters if one.kind in kinds and one.default is one.empty]


def _decorated(app: Path, module: ModuleType, word: str) -> Any:
    """The class of the app that is decorated by `@SOMETHING.request`, if there is one; or `.response`."""
    for node in ast.parse(app.read_bytes()).body:
        if isinstance(node, ast.ClassDef) and any(_says(one, word) for one in node.decorator_list):
            return vars(module).get(node.name)
    return None


def _says(decorator: ast.expr, word: str) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return (isinstance(called, ast.Attribute) and called.attr == word) or (
        isinstance(called, ast.Name) and called.id == word
    )


def _constants(declared: ModuleType | None, left: Mapping[str, str]) -> Mapping[str, Any]:
    """What says how the app is called: constants of `input_schema.py`, and what `@inferless.config` left."""
    return {**left, **({} if declared is None else vars(declared))}


def _is_true(value: Any) -> bool:
    return value is True or str(value).strip().lower() in ("true", "1")


def _whole(name: str, value: Any) -> int:
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
