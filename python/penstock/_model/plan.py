"""Execution plan of a pipeline: steps bound to their models, checked and ordered."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock._spec.tensor import Tensor
from penstock._spec.versions import version_key
from penstock.errors import SignatureError

if TYPE_CHECKING:
    from penstock._core import TensorHandle
    from penstock._model.step import Step
    from penstock._runtime.peers import Peers
    from penstock._spec.definition import Definition

__all__ = ["Plan"]

_StepTensors = dict[str, "tuple[str, Tensor]"]
"""Tensors by the model's name: the name in the pipeline, and the tensor under that name."""


class Plan:
    """The steps of a pipeline in an order in which they can run.

    Args:
        where: The pipeline, for errors.
        steps: The steps in any order.
        inputs: Names of the tensors in a request.
        outputs: Names of the tensors in the response.
        known: The definitions of the server's models.

    Raises:
        SignatureError: they do not fit together.
    """

    inputs: tuple[Tensor, ...]
    """Tensors of a request, with the batch axis of the steps."""
    outputs: tuple[Tensor, ...]
    """Tensors of the response."""

    def __init__(
        self,
        where: str,
        steps: Iterable[Step],
        inputs: Sequence[str],
        outputs: Sequence[str],
        known: Iterable[Definition],
    ) -> None:
        self._where = where
        self._given = set(inputs)
        known = list(known)
        bound = [_BoundStep(step, self._found(step, known), where) for step in steps]
        self._makers = self._makers_of(bound)
        for step in bound:
            for name, tensor in step.inputs.values():
                self._connect(step, name, tensor)
        self._steps = self._in_order(bound)
        self.inputs = tuple(self._taken(name) for name in inputs)
        self.outputs = tuple(self._made(name) for name in outputs)
        self._uses = Counter(name for step in bound for name, _ in step.inputs.values())
        self._uses.update(outputs)
        self._is_chain = all(before in step.after for before, step in zip(self._steps, self._steps[1:], strict=False))

    async def run(self, *given: Any) -> tuple[TensorHandle, ...]:
        """Computes one request."""
        *tensors, ctx = given
        run = _Run(ctx.models, dict(zip((one.name for one in self.inputs), tensors, strict=True)), Counter(self._uses))
        if self._is_chain:
            for step in self._steps:
                await run.step(step)
        else:
            await self._run_at_once(run)
        return tuple(run.take(one.name) for one in self.outputs)

    async def _run_at_once(self, run: _Run) -> None:
        tasks: dict[_BoundStep, asyncio.Task[None]] = {}

        async def after_others(step: _BoundStep) -> None:
            others = [tasks[before] for before in step.after]
            if others:
                await asyncio.wait(others)
            # The failure of another step is raised by `gather`.
            if not any(task.cancelled() or task.exception() for task in others):
                await run.step(step)

        for step in self._steps:
            tasks[step] = asyncio.ensure_future(after_others(step))
        try:
            await asyncio.gather(*tasks.values())
        finally:
            for task in tasks.values():
                task.cancel()
            await asyncio.gather(*tasks.values(), return_exceptions=True)

    def _found(self, step: Step, known: Iterable[Definition]) -> Definition:
        versions = sorted(
            (one for one in known if one.name == step.model), key=lambda definition: version_key(definition.version)
        )
        if not versions:
            raise SignatureError(
                f"{self._where}: there is no model {step.model!r}; give it to the server beside the pipeline"
            )
        # The newest version, which the server chooses for clients too.
        found = next((one for one in reversed(versions) if step.version in (None, one.version)), None)
        if found is None:
            raise SignatureError(f"{self._where}: there is no version {step.version!r} of model {step.model!r}")
        if found.streams or found.sequences is not None:
            what = "streams its answers" if found.streams else "has sequences"
            raise SignatureError(f"{self._where}: model {step.model!r} {what}, so it cannot be a step")
        return found

    def _makers_of(self, steps: Iterable[_BoundStep]) -> dict[str, tuple[_BoundStep, Tensor]]:
        makers: dict[str, tuple[_BoundStep, Tensor]] = {}
        for step in steps:
            for name, tensor in step.outputs.values():
                if name in self._given or name in makers:
                    raise SignatureError(
                        f"{self._where}: tensor {name!r} has two sources, give one of them another name"
                    )
                makers[name] = step, tensor
        return makers

    def _connect(self, step: _BoundStep, name: str, tensor: Tensor) -> None:
        if name in self._given:
            return
        if name not in self._makers:
            raise SignatureError(
                f"{self._where}: step {step.model!r} takes {name!r}, which is no input and which no step gives"
            )
        maker, made = self._makers[name]
        if not _agree(made, tensor):
            raise SignatureError(
                f"{self._where}: step {maker.model!r} gives {name!r} as {_shown(made)}, "
                f"and step {step.model!r} takes it as {_shown(tensor)}"
            )
        step.after.add(maker)

    def _in_order(self, steps: list[_BoundStep]) -> list[_BoundStep]:
        ordered: list[_BoundStep] = []
        left = list(steps)
        while left:
            ready = [step for step in left if not step.after & set(left)]
            if not ready:
                names = ", ".join(repr(step.model) for step in left)
                raise SignatureError(f"{self._where}: the steps {names} wait for one another in a circle")
            ordered += ready
            left = [step for step in left if step not in ready]
        return ordered

    def _taken(self, name: str) -> Tensor:
        """An input of the pipeline: the tensor that all its steps accept."""
        takers = [seen for step in self._steps for named, seen in step.inputs.values() if named == name]
        if not takers:
            raise SignatureError(f"{self._where}: no step takes the input {name!r}")
        first = takers[0]
        for other in takers[1:]:
            if not _agree(first, other):
                raise SignatureError(
                    f"{self._where}: steps take the input {name!r} as {_shown(first)} and as {_shown(other)}"
                )
        axes = tuple(max(one.shape[axis] for one in takers) for axis in range(len(first.shape)))
        return first._with(shape=axes, optional=all(one.optional for one in takers))

    def _made(self, name: str) -> Tensor:
        """An output of the pipeline."""
        if name not in self._makers:
            raise SignatureError(f"{self._where}: no step gives the output {name!r}")
        return self._makers[name][1]


class _BoundStep:
    """A step with its model's tensors under the pipeline's names, including the batch axis."""

    def __init__(self, step: Step, found: Definition, where: str) -> None:
        self.model, self.version = step.model, step.version
        batched = found.batching is not None
        takes = {tensor.name: tensor for tensor in found.inputs}
        gives = {tensor.name: tensor for tensor in found.outputs}
        names_in = {name: name for name in takes} if step.inputs is None else step.inputs
        names_out = {name: name for name in gives} if step.outputs is None else step.outputs
        _check_known(names_in, takes, f"{where}: step {step.model!r} has no input")
        _check_known(names_out, gives, f"{where}: step {step.model!r} has no output")
        for name in names_out:
            if gives[name].optional:
                raise SignatureError(f"{where}: output {name!r} of step {step.model!r} is optional, and may be missing")
        for name, tensor in takes.items():
            if name not in names_in and not tensor.optional:
                raise SignatureError(f"{where}: step {step.model!r} is not given its input {name!r}")
        self.inputs: _StepTensors = {
            name: (tensor, _as_seen(takes[name], tensor, batched)) for name, tensor in names_in.items()
        }
        self.outputs: _StepTensors = {
            name: (tensor, _as_seen(gives[name], tensor, batched)) for name, tensor in names_out.items()
        }
        self.after: set[_BoundStep] = set()


class _Run:
    """Execution of one request."""

    __slots__ = ("_models", "_tensors", "_uses")

    def __init__(self, models: Peers, tensors: dict[str, TensorHandle | None], uses: Counter[str]) -> None:
        self._models, self._tensors, self._uses = models, tensors, uses

    async def step(self, step: _BoundStep) -> None:
        """Calls the model of a step."""
        which = step.model if step.version is None else (step.model, step.version)
        named = {name: self.take(tensor) for name, (tensor, _) in step.inputs.items()}
        outputs = await self._models[which]._outputs([], named, as_handles=True)
        for name, (tensor, _) in step.outputs.items():
            if self._uses[tensor]:
                self._tensors[tensor] = outputs[name]

    def take(self, name: str) -> Any:
        """A tensor for one of its consumers. The last one gets the tensor itself, others share it."""
        self._uses[name] -= 1
        tensor = self._tensors[name]
        if tensor is None or not self._uses[name]:
            return self._tensors.pop(name)
        return tensor.share()


def _check_known(names: Iterable[str], known: Mapping[str, Tensor], problem: str) -> None:
    for name in names:
        if name not in known:
            raise SignatureError(f"{problem} {name!r}, it has {', '.join(map(repr, known)) or 'none'}")


def _as_seen(tensor: Tensor, name: str, batched: bool) -> Tensor:
    # By the datatype on the wire, as for clients.
    seen = Tensor(name, str if tensor.text else tensor.datatype, tensor.wire_shape(batched=batched))
    return seen._with(optional=tensor.optional, document=tensor.document)


def _agree(made: Tensor, taken: Tensor) -> bool:
    if made.datatype != taken.datatype or len(made.shape) != len(taken.shape):
        return False
    return all(-1 in (one, other) or one == other for one, other in zip(made.shape, taken.shape, strict=True))


def _shown(tensor: Tensor) -> str:
    return f"{tensor.datatype} {list(tensor.shape)}"
