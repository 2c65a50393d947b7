"""`explain`: a method of a handler's class, served as a second model over the same instances."""

from __future__ import annotations

import asyncio
import inspect
import threading
import typing
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from penstock._handler import type_hints
from penstock._handler.bind import bind
from penstock._handler.parameters import Signature, documents
from penstock._handler.signature import read_signature
from penstock._model.checks import check_batching
from penstock._spec.batching import Batching
from penstock._spec.definition import BoundHandler, Definition, Handler
from penstock._spec.tensor import Tensor
from penstock.errors import Unavailable

METHOD = "explain"


@dataclass(frozen=True, slots=True)
class Explainer:
    """The `explain` method of a class."""

    signature: Signature
    batching: Batching | None
    description: str

    def definition(self, name: str, version: str, max_queue: int, shared: Shared) -> Definition:
        """The definition of the explainer of the model `name`."""
        return Definition(
            # Unique, since names of models have no colon.
            name=f"{name}:{METHOD}",
            version=version,
            platform="penstock",
            inputs=tuple(bound.tensor for bound in self.signature.inputs),
            outputs=tuple(bound.tensor for bound in self.signature.outputs),
            batching=self.batching,
            instances=1,
            max_queue=max_queue,
            wants_context=self.signature.wants_context,
            streams=False,
            factory=lambda: BoundHandler(bind(shared.explain, self.signature)),
            description=self.description,
            input_documents=documents(self.signature.inputs),
            output_documents=documents(self.signature.outputs),
        )


def read_explainer(
    target: Any, where: str, *, inputs: Iterable[Tensor] | None, batching: Batching | None
) -> Explainer | None:
    """The explainer of a class; None if it has no `explain` with a return annotation.

    Args:
        target: The class.
        where: Prefix of messages.
        inputs: The model's declared inputs, which are the explainer's too; None reads the annotations.
        batching: The model's batching, which applies to an explainer that returns arrays only.

    Raises:
        SignatureError: the method cannot be served.
    """
    method = getattr(target, METHOD, None)
    if not callable(method) or "return" not in (hints := type_hints.resolve(method)):
        return None
    batching = batching if _is_arrays(hints["return"]) else None
    signature = read_signature(
        method,
        f"{where}, method '{METHOD}'",
        is_method=True,
        inputs=inputs,
        outputs=None,
        batched=batching is not None,
    )
    taken, given = (
        [bound.tensor for bound in bound_tensors] for bound_tensors in (signature.inputs, signature.outputs)
    )
    check_batching(batching, (taken, given), f"{where}, method '{METHOD}'")
    return Explainer(signature, batching, type_hints.own_doc(method))


def _is_arrays(hint: Any) -> bool:
    members = typing.get_args(hint) if typing.get_origin(hint) is tuple else (hint,)
    return all(type_hints.split_annotated(type_hints.unaliased(member), METHOD)[1] is not None for member in members)


class Shared:
    """The newest instance of a loaded model, which its handler and its explainer call one at a time."""

    def __init__(self) -> None:
        self._current: tuple[Any, threading.Lock | asyncio.AbstractEventLoop] | None = None

    def put(self, instance: Any, handler: Handler, *, on_loop: bool = False) -> Handler:
        """Shares an instance with the explainer. Returns its handler, which waits while the instance explains."""
        if on_loop:
            self._current = (instance, asyncio.get_running_loop())
            return BoundHandler(handler.call, self._closing(instance, handler.close), handler.close_sequence)
        lock = threading.Lock()
        self._current = (instance, lock)

        def call(*inputs: Any) -> Any:
            with lock:
                return handler.call(*inputs)

        def close() -> object:
            with lock:
                return handler.close()

        return BoundHandler(call, self._closing(instance, close), handler.close_sequence)

    def _closing(self, instance: Any, close: Callable[[], object]) -> Callable[[], object]:
        def close_and_unshare() -> object:
            if self._current is not None and self._current[0] is instance:
                self._current = None
            return close()

        return close_and_unshare

    def explain(self, *arguments: Any, **named: Any) -> Any:
        """Calls the instance's `explain`."""
        if self._current is None:
            raise Unavailable("the explained model is not loaded")
        instance, guard = self._current
        if isinstance(guard, asyncio.AbstractEventLoop):
            explained = instance.explain(*arguments, **named)
            if inspect.iscoroutine(explained):
                return asyncio.run_coroutine_threadsafe(explained, guard).result()
            return explained
        with guard:
            explained = instance.explain(*arguments, **named)
            return asyncio.run(explained) if inspect.iscoroutine(explained) else explained
